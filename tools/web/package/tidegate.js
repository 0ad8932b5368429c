// Tidegate in JavaScript: a model from an image, and streams of sound or features through it.

import { compiled as beside } from "./compile.js";
import { BYTES, Library } from "./library.js";
import { Stream } from "./stream.js";

export class Tidegate {
  /** Parses an image. `Tidegate.load` also compiles the runtime. */
  constructor(runtime, image) {
    const library = new Library(runtime);
    const bytes = image instanceof ArrayBuffer ? new Uint8Array(image) : image;
    const address = library.reserve(bytes.length);
    library.bytes(address, bytes.length).set(bytes);
    this.runtime = runtime;
    this.image = bytes;
    this.library = library;
    this.model = library.reserve(BYTES.tidegate_model);
    library.call("tidegate_model_parse", this.model, address, bytes.length);
    Object.assign(this, info(library, this.model));
    this.labels = Array.from({ length: this.labelCount }, (_, index) => label(library, this.model, index));
  }

  static async load(image, runtime = compiled()) {
    return new Tidegate(await runtime, image);
  }

  stream(options) {
    return new Stream(this, options);
  }
}

/** A module with one function: it makes a vector of zeros, and drops it. */
const VECTORS = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 17, 26, 11],
);

/** The runtime beside this file, compiled once; the faster one where there are vectors. */
export function compiled() {
  return beside(WebAssembly.validate(VECTORS) ? "tidegate-simd128.wasm" : "tidegate.wasm");
}

/** The fields of tidegate_info that streams need. */
function info(library, model) {
  const at = library.reserve(BYTES.tidegate_info);
  library.call("tidegate_model_info", model, at);
  const port = library.reserve(BYTES.tidegate_port);
  const scale = (kind) => {
    library.call(kind, model, 0, port);
    return library.f32(port + 12, 1)[0];
  };
  return {
    stateWords: library.u32(at + 8),
    scratchWords: library.u32(at + 12),
    frontEndWords: library.u32(at + 20),
    detectorWords: library.u32(at + 24),
    detectorI16Words: library.u32(at + 28),
    inputSize: library.u32(at + 32),
    outputSize: library.u32(at + 36),
    inputCount: library.u32(at + 40),
    outputCount: library.u32(at + 44),
    labelCount: library.u32(at + 48),
    sampleRate: library.u32(at + 52),
    stride: library.u32(at + 56),
    integerFrontEnd: library.bytes(at + 68, 1)[0] !== 0,
    integers: library.bytes(at + 69, 1)[0] !== 0,
    inputScale: scale("tidegate_model_input"),
    outputScale: scale("tidegate_model_output"),
  };
}

function label(library, model, index) {
  const at = library.reserve(8);
  library.call("tidegate_model_label", model, index, at, at + 4);
  return library.text(library.u32(at), library.u32(at + 4));
}
