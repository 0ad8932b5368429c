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

  /** Errors inside a worklet reach nobody, so they are posted. */
  process(inputs) {
    try {
      return this.hear(inputs);
    } catch (error) {
      this.port.postMessage({ failure: error.message });
      return false;
    }
  }

  hear([[samples]]) {
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
    // One message for all frames of a quantum: a model of single samples has 128.
    if (frames.length > 0) {
      const { low, high, spent } = this;
      const common = { low, high, spent: spent / frames.length, state: this.stream.state.slice() };
      this.port.postMessage({ frames: frames.map((frame) => ({ ...frame, ...common })) });
      this.quiet();
    }
    this.left -= block.length;
    if (this.left === 0) this.port.postMessage({ frames: [null] });
    return this.left > 0;
  }
}

registerProcessor("tidegate", Processor);
