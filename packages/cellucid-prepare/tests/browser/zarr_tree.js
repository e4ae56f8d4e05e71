// A tree over Zarr, formats 2 and 3, as a folder or in a zip.

import ZipFileStore from "@zarrita/storage/zip";
import * as zarr from "zarrita";

import { ArchiveReader } from "./archive_reader.js";

export class ZarrTree {
  // `readAhead` is for zips: read them with ArchiveReader instead of zarrita's own reader.
  static async open(url, { readAhead = false } = {}) {
    const address = new URL(url, location).href;
    const tree = new ZarrTree();
    tree.archive = readAhead ? new ArchiveReader(address) : null;
    const raw = tree.archive ? new ZipFileStore(tree.archive) : storeAt(address);
    for (const format of ["v3", "v2"]) {
      try {
        tree.store = await zarr.withConsolidatedMetadata(raw, { format });
      } catch (error) {
        if (!zarr.isZarritaError(error, "NotFoundError")) throw error;
        continue;
      }
      tree.openNode = zarr.open[format];
      break;
    }
    if (tree.store === undefined) throw new Error(`${url} is no store with consolidated metadata`);
    tree.kinds = new Map(tree.store.contents().map(({ path, kind }) => [path.slice(1), kind]));
    tree.nodes = new Map();
    return tree;
  }

  // Chunks are read whole; what lies next to them counts only for a reader that reads ahead.
  readInBlocks(isOn) {
    if (this.archive) this.archive.inBlocks = isOn;
  }

  async #node(path) {
    if (!this.nodes.has(path)) {
      const place = zarr.root(this.store).resolve(`/${path}`);
      this.nodes.set(path, await this.openNode(place, { kind: this.kinds.get(path) }));
    }
    return this.nodes.get(path);
  }

  async attributes(path) {
    return (await this.#node(path)).attrs;
  }

  children(path) {
    const below = [...this.kinds.keys()].filter((other) => other.startsWith(`${path}/`));
    const names = below.map((other) => other.slice(path.length + 1));
    return names.filter((name) => !name.includes("/"));
  }

  async values(path) {
    const read = await zarr.get(await this.#node(path));
    // an array without axes gives its value
    return typeof read === "object" ? read.data : [read];
  }

  async range(path, start, stop) {
    if (start === stop) return [];
    return (await zarr.get(await this.#node(path), [zarr.slice(start, stop)])).data;
  }

  async column(path, at) {
    return (await zarr.get(await this.#node(path), [null, at])).data;
  }
}

function storeAt(address) {
  return address.endsWith(".zip") ? ZipFileStore.fromUrl(address) : new zarr.FetchStore(address);
}
