// The processor of an AudioWorklet: passes the samples of every quantum to a stream, and posts what it hears.

import { Tidegate } from "./tidegate.js";

/** Milliseconds. Some browsers have no finer clock than Date in a worklet. */
const now = globalThis.performance ? () => performance.now() : () => Date.now();

class Processor extends AudioWorkletProcessor {
  constructor({ processorOptions: { runtime, image, options, length } }) {
    super();
    this.stream = new Tidegate(runtime, image).stream(options);
    this.left = length ?? Infinity;
    this.quiet();
  }

  /** Starts the record of the samples and of the work since the last frame. */
  quiet() {
    Object.assign(this, { low: 1, high: -1, spent: 0 });
  }

  process([[samples]]) {
    const block = samples?.subarray(0, Math.min(samples.length, this.left));
    if (block === undefined || block.length === 0) return this.left > 0;
    for (const sample of block) {
      if (sample < this.low) this.low = sample;
      if (sample > this.high) this.high = sample;
    }
    const start = now();
    const frames = [];
    this.stream.hear(block, (frame) => frames.push(frame));
    this.spent += now() - start;
    for (const frame of frames) {
      const { low, high, spent } = this;
      this.port.postMessage({ ...frame, low, high, spent: spent / frames.length, state: this.stream.state.slice() });
    }
    if (frames.length > 0) this.quiet();
    this.left -= block.length;
    if (this.left === 0) this.port.postMessage(null);
    return this.left > 0;
  }
}

registerProcessor("tidegate", Processor);
