// What the tests call: `openFile(url, options)`, and then `ask(method, ...arguments)`.

import { Cells } from "./cells.js";
import { ZarrTree } from "./zarr_tree.js";

let ask = null;

async function openFile(url, options) {
  const path = new URL(url, location).pathname;
  ask = /\.(h5ad|h5mu)$/.test(path) ? await inWorker(url) : await onPage(url, options);
  return ask("open");
}

async function onPage(url, options) {
  const cells = new Cells(await ZarrTree.open(url, options));
  return (method, ...given) => cells[method](...given);
}

// HDF5 reads at once or not at all, and only a worker may wait for the network.
async function inWorker(url) {
  const worker = new Worker("hdf5_worker.js", { type: "module" });
  const call = (method, ...given) =>
    new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = ({ data }) => ("error" in data ? reject(new Error(data.error)) : resolve(data.result));
      worker.postMessage({ method, given });
    });
  await call("use", url);
  return call;
}

window.openFile = openFile;
window.ask = (...call) => ask(...call);
window.isReady = true;
