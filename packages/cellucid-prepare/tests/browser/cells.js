// What a viewer asks of an AnnData or MuData, over a tree of groups and arrays.
//
// The tree has `attributes(path)`, `children(path)`, `values(path)` (a whole array) and
// `range(path, start, stop)` (a part of an array of one dimension) and `column(path, at)`; paths have
// no "/" at their ends. `readInBlocks(isOn)` says whether what is read next lies together.

export class Cells {
  constructor(tree) {
    this.tree = tree;
  }

  // All that is needed before anything is drawn; later reads need values alone.
  async open() {
    const tree = this.tree;
    tree.readInBlocks(true);
    const root = await tree.attributes("");
    const modalities = root["encoding-type"] === "MuData" ? await tree.children("mod") : [""];
    this.genes = {};
    for (const name of modalities) {
      this.genes[name] = await this.#openGenes(name === "" ? "" : `mod/${name}/`);
    }
    this.columns = {};
    for (const name of await tree.children("obs")) {
      this.columns[name] = await this.#openColumn(`obs/${name}`);
    }
    const uns = {};
    for (const name of ["id", "name"]) uns[name] = [...(await tree.values(`uns/cellucid/${name}`))][0];
    tree.readInBlocks(false);
    return {
      uns,
      genes: Object.fromEntries(modalities.map((name) => [name, this.genes[name].names])),
      columns: this.columns,
      embeddings: await tree.children("obsm"),
    };
  }

  async #openGenes(prefix) {
    const tree = this.tree;
    const { _index: index } = await tree.attributes(`${prefix}var`);
    const names = [...(await tree.values(`${prefix}var/${index}`))];
    const x = await tree.attributes(`${prefix}X`);
    const isSparse = x["encoding-type"] === "csc_matrix";
    const pointers = isSparse ? numbers(await tree.values(`${prefix}X/indptr`)) : null;
    return { prefix, names, pointers };
  }

  async #openColumn(path) {
    const encoding = (await this.tree.attributes(path))["encoding-type"];
    const labels = encoding === "categorical" ? [...(await this.tree.values(`${path}/categories`))] : null;
    return { encoding, labels };
  }

  // The cells that express a gene, and how much.
  async gene(modality, name) {
    const { prefix, names, pointers } = this.genes[modality];
    const at = names.indexOf(name);
    if (at < 0) throw new Error(`no gene ${name}`);
    if (pointers === null) return { values: numbers(await this.tree.column(`${prefix}X`, at)) };
    const [start, stop] = [pointers[at], pointers[at + 1]];
    const cells = numbers(await this.tree.range(`${prefix}X/indices`, start, stop));
    const values = numbers(await this.tree.range(`${prefix}X/data`, start, stop));
    return { cells, values };
  }

  async labels(column) {
    const codes = numbers(await this.tree.values(`obs/${column}/codes`));
    return codes.map((code) => (code < 0 ? null : this.columns[column].labels[code]));
  }

  async numbers(column) {
    return numbers(await this.tree.values(`obs/${column}`));
  }

  async names() {
    const { _index: index } = await this.tree.attributes("obs");
    this.tree.readInBlocks(true);
    const names = [...(await this.tree.values(`obs/${index}`))];
    this.tree.readInBlocks(false);
    return names;
  }

  async embedding(key) {
    return numbers(await this.tree.values(`obsm/${key}`));
  }

  async quantiles(column) {
    // a number that JSON does not have becomes null
    return numbers(await this.tree.values(`uns/cellucid/outlierQuantiles/fields/${column}`));
  }
}

function numbers(values) {
  return Array.from(values, Number);
}
