// A file behind HTTP that a compiled library reads as if it lay on a disk.
//
// Every request takes what is asked for and not yet there: in whole blocks while `inBlocks` is set,
// else not a byte more.

export class RangeFile {
  constructor(url, blockBytes) {
    this.url = url;
    this.blockBytes = blockBytes;
    this.inBlocks = true;
    this.blocks = new Map(); // number of the block -> its bytes
    this.parts = new Map(); // "start-stop" -> bytes
    this.size = blockBytes;
    this.size = this.#takeBlocks(0, 1);
  }

  // Make it a file of an Emscripten file system.
  mount(fs, folder, name) {
    const node = fs.createFile(folder, name, {}, true, false);
    Object.defineProperty(node, "usedBytes", { get: () => this.size });
    node.stream_ops = {
      ...node.stream_ops,
      read: (stream, memory, offset, length, position) => {
        const stop = Math.min(position + length, this.size);
        if (stop <= position) return 0;
        memory.set(this.#read(position, stop), offset);
        return stop - position;
      },
    };
  }

  #read(start, stop) {
    const first = Math.floor(start / this.blockBytes);
    const last = Math.floor((stop - 1) / this.blockBytes);
    const missing = [];
    for (let number = first; number <= last; number++) {
      if (!this.blocks.has(number)) missing.push(number);
    }
    if (missing.length > 0 && !this.inBlocks) return this.#part(start, stop);
    if (missing.length > 0) this.#takeBlocks(missing[0], missing.at(-1) + 1);
    const bytes = new Uint8Array(stop - start);
    for (let number = first; number <= last; number++) {
      const from = number * this.blockBytes;
      const block = this.blocks.get(number).subarray(Math.max(start - from, 0), stop - from);
      bytes.set(block, Math.max(from - start, 0));
    }
    return bytes;
  }

  #part(start, stop) {
    const key = `${start}-${stop}`;
    if (!this.parts.has(key)) this.parts.set(key, this.#request(start, stop).bytes);
    return this.parts.get(key);
  }

  #takeBlocks(first, end) {
    const start = first * this.blockBytes;
    const { bytes, size } = this.#request(start, Math.min(end * this.blockBytes, this.size));
    for (let number = first; number < end; number++) {
      const from = number * this.blockBytes - start;
      this.blocks.set(number, bytes.subarray(from, from + this.blockBytes));
    }
    return size;
  }

  #request(start, stop) {
    const request = new XMLHttpRequest();
    request.open("GET", this.url, false);
    request.responseType = "arraybuffer";
    request.setRequestHeader("Range", `bytes=${start}-${stop - 1}`);
    request.send();
    if (request.status !== 206) throw new Error(`${this.url}: status ${request.status}, not 206`);
    const size = Number(request.getResponseHeader("Content-Range").split("/")[1]);
    return { bytes: new Uint8Array(request.response), size };
  }
}
