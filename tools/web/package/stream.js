// A stream through a model: its state, front end and detector, in floats or in integers as on a device.

import { BYTES } from "./library.js";

/** Scales of integer outputs that the integer detector takes. */
const POSTERIORS = [1 / 32768, 1 / 256];
/** Samples passed to the front end at once, at most. */
const BLOCK = 1024;

export class Stream {
  constructor(model, { hop = model.inputSize, context = 0, sampleRate = 16000 } = {}) {
    const { inputCount, outputCount } = model;
    if (inputCount !== 1 || outputCount !== 1) {
      throw new RangeError(`a stream has one input and one output, the model ${inputCount} and ${outputCount}`);
    }
    this.model = model;
    this.network = new Network(model);
    this.source = model.frontEndWords > 0 ? new Features(model) : new Chunks(model, hop, context);
    this.detector = model.detectorWords > 0 ? new Detector(model, this.source.integers) : undefined;
    this.sampleRate = model.sampleRate || sampleRate;
    this.sample = 0;
  }

  step(features) {
    this.network.input().set(checked(features, this.model.inputSize));
    return this.network.step() ? this.network.output().slice() : null;
  }

  hear(samples, heard) {
    for (let rest = samples; rest.length > 0; ) {
      const taken = this.source.push(rest);
      this.sample += taken;
      rest = rest.subarray(taken);
      for (let row = this.source.next(); row !== undefined; row = this.source.next()) {
        const posteriors = this.source.integers ? this.network.stepIntegers(row) : this.step(row);
        const event = posteriors === null ? null : this.detect(posteriors);
        heard({ sample: this.sample, features: this.source.real(row), posteriors, event });
      }
    }
  }

  detect(posteriors) {
    const event = this.detector?.push(posteriors, this.network, Math.floor((this.sample * 1000) / this.sampleRate));
    return event ? { ...event, name: this.model.labels[event.label], sample: this.sample } : null;
  }

  get state() {
    return this.network.values();
  }

  reset() {
    this.network.reset();
    this.source.reset();
    this.detector?.reset();
    this.sample = 0;
  }
}

function checked(row, len) {
  if (row.length !== len) throw new RangeError(`the model takes ${len} features a step, not ${row.length}`);
  return row;
}

/** The network: state, scratch, and a row of inputs and of outputs. */
class Network {
  constructor(model) {
    const { library, stateWords } = model;
    Object.assign(this, { library, model });
    this.state = library.reserve(BYTES.tidegate_state);
    this.words = library.reserve(4 * stateWords);
    this.scratch = library.reserve(4 * model.scratchWords);
    this.in = library.reserve(4 * model.inputSize);
    this.out = library.reserve(4 * model.outputSize);
    this.hasOutput = library.reserve(1);
    library.call("tidegate_state_init", this.state, model.model, this.words, stateWords);
  }

  input() {
    return this.library.f32(this.in, this.model.inputSize);
  }

  output() {
    return this.library.f32(this.out, this.model.outputSize);
  }

  outputIntegers() {
    return this.library.i16(this.out, this.model.outputSize);
  }

  step() {
    return this.run("tidegate_step_f32");
  }

  /** A step over integers. Returns the real values of the outputs, or null. */
  stepIntegers(row) {
    this.library.i16(this.in, this.model.inputSize).set(row);
    if (!this.run("tidegate_step_i16")) return null;
    return Float32Array.from(this.outputIntegers(), (integer) => integer * this.model.outputScale);
  }

  run(name) {
    const { model, state, scratch, hasOutput } = this;
    const { scratchWords, inputSize, outputSize } = model;
    this.library.call(
      name, model.model, state, scratch, scratchWords, this.in, inputSize, this.out, outputSize, hasOutput,
    );
    return this.library.bytes(hasOutput, 1)[0] !== 0;
  }

  /** The values of the state, after the clock in its first word. */
  values() {
    const [address, words] = [this.words + 4, this.model.stateWords - 1];
    return this.model.integers ? this.library.i16(address, 2 * words) : this.library.f32(address, words);
  }

  reset() {
    this.library.call("tidegate_state_reset", this.state);
  }
}

/** The front end of an image: samples in, rows of features out. */
class Features {
  constructor(model) {
    const { library, frontEndWords, inputSize } = model;
    Object.assign(this, { library, inputSize });
    this.integers = model.integerFrontEnd && model.integers;
    this.scale = this.integers ? model.inputScale : 1;
    this.name = this.integers ? "tidegate_front_end_i16" : "tidegate_front_end";
    this.object = library.reserve(BYTES[this.name]);
    this.samples = library.reserve(2 * BLOCK);
    this.row = library.reserve(4 * inputSize);
    this.answer = library.reserve(4);
    const words = library.reserve(4 * frontEndWords);
    library.call(`${this.name}_init`, this.object, model.model, words, frontEndWords);
  }

  /** Returns the number of samples taken. */
  push(samples) {
    const block = samples.subarray(0, BLOCK);
    const to = this.library.i16(this.samples, block.length);
    if (block instanceof Int16Array) to.set(block);
    else block.forEach((sample, index) => (to[index] = integer(sample)));
    this.library.call(`${this.name}_push`, this.object, this.samples, block.length, this.answer);
    return this.library.u32(this.answer);
  }

  /** The next row, in memory until the next call, or undefined. */
  next() {
    this.library.call(`${this.name}_next`, this.object, this.row, this.inputSize, this.answer);
    if (this.library.bytes(this.answer, 1)[0] === 0) return undefined;
    return this.integers ? this.library.i16(this.row, this.inputSize) : this.library.f32(this.row, this.inputSize);
  }

  /** The real values of a row. */
  real(row) {
    return Float32Array.from(row, (value) => value * this.scale);
  }

  reset() {
    this.library.call(`${this.name}_reset`, this.object);
  }
}

/** The 16-bit integer of a sample from -1 to 1. */
function integer(sample) {
  return Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
}

/** Rows of samples for a model without a front end: `hop` new ones after `context` of the row before. */
class Chunks {
  constructor(model, hop, context) {
    if (hop < 1 || hop + context !== model.inputSize) {
      throw new RangeError(`hop and context are ${model.inputSize} samples together, not ${hop} and ${context}`);
    }
    Object.assign(this, { hop, context, integers: false, row: new Float32Array(model.inputSize), filled: context });
  }

  push(samples) {
    const block = samples.subarray(0, this.row.length - this.filled);
    const unit = block instanceof Int16Array ? 1 / 32768 : 1;
    block.forEach((sample, index) => (this.row[this.filled + index] = sample * unit));
    this.filled += block.length;
    return block.length;
  }

  next() {
    if (this.filled < this.row.length) return undefined;
    const row = this.row.slice();
    this.row.copyWithin(0, this.hop);
    this.filled = this.context;
    return row;
  }

  real(row) {
    return row;
  }

  reset() {
    this.row.fill(0);
    this.filled = this.context;
  }
}

/** The detector of an image: posteriors in, events out. */
class Detector {
  constructor(model, integers) {
    const { library } = model;
    this.integers = integers && POSTERIORS.includes(model.outputScale);
    Object.assign(this, { library, scale: this.integers ? model.outputScale : 1 });
    this.name = this.integers ? "tidegate_detector_i16" : "tidegate_detector";
    this.object = library.reserve(BYTES[this.name]);
    this.event = library.reserve(BYTES.tidegate_event);
    this.hasEvent = library.reserve(1);
    this.posteriors = library.reserve(4 * model.outputSize);
    const len = this.integers ? model.detectorI16Words : model.detectorWords;
    const words = library.reserve(4 * len);
    library.call(`${this.name}_init`, this.object, model.model, words, len);
  }

  /** The event that the posteriors of the network's last step make, or undefined. */
  push(posteriors, network, nowMs) {
    const len = posteriors.length;
    if (this.integers) this.library.i16(this.posteriors, len).set(network.outputIntegers());
    else this.library.f32(this.posteriors, len).set(posteriors);
    this.library.call(`${this.name}_push`, this.object, this.posteriors, len, nowMs >>> 0, this.event, this.hasEvent);
    if (this.library.bytes(this.hasEvent, 1)[0] === 0) return undefined;
    const label = this.library.u32(this.event);
    if (this.integers) return { label, score: this.library.i16(this.event + 8, 1)[0] * this.scale };
    return { label, score: this.library.f32(this.event + 4, 1)[0] };
  }

  reset() {
    this.library.call(`${this.name}_reset`, this.object);
  }
}
