// A tree over HDF5, read by ranges; answers the page's calls one after another.

import h5wasm from "/libraries/h5wasm/dist/esm/hdf5_hl.js";

import { Cells } from "./cells.js";
import { RangeFile } from "./range_file.js";

// Opening takes the file's start, and what names are read from lies together: by this many bytes.
const BLOCK_BYTES = 512 * 1024;

class Hdf5Tree {
  static async open(url) {
    const { FS } = await h5wasm.ready;
    const tree = new Hdf5Tree();
    tree.bytes = new RangeFile(url, BLOCK_BYTES);
    tree.bytes.mount(FS, "/", "remote");
    tree.file = new h5wasm.File("/remote", "r");
    return tree;
  }

  readInBlocks(isOn) {
    this.bytes.inBlocks = isOn;
  }

  #node(path) {
    const node = path === "" ? this.file : this.file.get(path);
    if (node === null) throw new Error(`the file has no ${path}`);
    return node;
  }

  attributes(path) {
    const found = Object.entries(this.#node(path).attrs);
    return Object.fromEntries(found.map(([name, attribute]) => [name, attribute.value]));
  }

  children(path) {
    return this.#node(path).keys();
  }

  values(path) {
    const values = this.#node(path).value;
    return typeof values === "object" ? values : [values];
  }

  range(path, start, stop) {
    return start === stop ? [] : this.#node(path).slice([[start, stop]]);
  }

  column(path, at) {
    return this.#node(path).slice([[], [at, at + 1]]);
  }
}

let cells = null;

onmessage = async ({ data: { method, given } }) => {
  try {
    if (method === "use") {
      cells = new Cells(await Hdf5Tree.open(...given));
      postMessage({});
    } else {
      postMessage({ result: await cells[method](...given) });
    }
  } catch (error) {
    postMessage({ error: `${error}` });
  }
};
