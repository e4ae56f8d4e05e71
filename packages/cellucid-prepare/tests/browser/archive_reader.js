// A zip behind HTTP, for zarrita's ZipFileStore, in fewer requests than its own reader takes.
//
// The end of the archive comes first: its directory is there, and the documents of the store right
// before it. Of an entry the header is read, and then its bytes; they come together.

const END_BYTES = 512 * 1024;
const AHEAD_BYTES = 32 * 1024;
const BLOCK_BYTES = 128 * 1024;

export class ArchiveReader {
  constructor(url) {
    this.url = url;
    this.inBlocks = true;
    this.spans = [];
  }

  async getLength() {
    this.size ??= await this.#take(`-${END_BYTES}`);
    return this.size;
  }

  async read(start, length) {
    const stop = start + length;
    const held = this.#spanAt(start);
    if (held === undefined) {
      const from = this.inBlocks ? start - (start % BLOCK_BYTES) : start;
      const end = Math.max(stop, from + (this.inBlocks ? BLOCK_BYTES : AHEAD_BYTES));
      await this.#take(`${from}-${Math.min(end, this.size) - 1}`);
    } else if (held.stop < stop) {
      await this.#take(`${held.stop}-${stop - 1}`);
    }
    const bytes = new Uint8Array(length);
    for (let at = start; at < stop; ) {
      const span = this.#spanAt(at);
      const part = span.bytes.subarray(at - span.start, stop - span.start);
      bytes.set(part, at - start);
      at += part.length;
    }
    return bytes;
  }

  #spanAt(position) {
    return this.spans.find(({ start, stop }) => start <= position && position < stop);
  }

  // Get a range and keep it; gives the archive's size.
  async #take(range) {
    const response = await fetch(this.url, { headers: { Range: `bytes=${range}` } });
    if (response.status !== 206) throw new Error(`${this.url}: status ${response.status}, not 206`);
    const [, start, size] = response.headers.get("Content-Range").match(/(\d+)-\d+\/(\d+)/);
    const bytes = new Uint8Array(await response.arrayBuffer());
    this.spans.push({ start: Number(start), stop: Number(start) + bytes.length, bytes });
    return Number(size);
  }
}
