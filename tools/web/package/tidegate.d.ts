/** A label that the detector of an image has found. */
export interface Detection {
  /** Index of the label. */
  label: number;
  /** The label. */
  name: string;
  /** Mean of the label's last posteriors. */
  score: number;
  /** Number of samples until then. */
  sample: number;
}

/** A row of the front end, and what the network made of it. */
export interface Frame {
  /** Number of samples until then. */
  sample: number;
  /** The features, or the samples for a model without a front end. */
  features: Float32Array;
  /** The output of the network. `null` for a step within a window. */
  posteriors: Float32Array | null;
  event: Detection | null;
}

/** How to hear with a model without a front end. */
export interface StreamOptions {
  /** New samples for each step. Default: the size of the input. */
  hop?: number;
  /** Samples of the step before that precede them. Default: 0. */
  context?: number;
  /** Samples a second. Default: 16000. */
  sampleRate?: number;
}

/** A model, parsed from an image (`.tgi`). */
export class Tidegate {
  /**
   * Compiles the runtime, once, and parses an image.
   *
   * Throws an `Error` that says why if the bytes are not an image, are damaged, or are for another core: pack with
   * `--for portable`.
   */
  static load(image: Uint8Array | ArrayBuffer, runtime?: WebAssembly.Module): Promise<Tidegate>;
  /** As `load`, without waiting, where the runtime is compiled already. */
  constructor(runtime: WebAssembly.Module, image: Uint8Array | ArrayBuffer);
  readonly runtime: WebAssembly.Module;
  readonly image: Uint8Array;
  /** The labels, in the order of the outputs. */
  readonly labels: string[];
  /** Features of a step. */
  readonly inputSize: number;
  readonly outputSize: number;
  readonly inputCount: number;
  readonly outputCount: number;
  /** Samples a second that the front end takes; 0 without one. */
  readonly sampleRate: number;
  /** Samples between two rows of the front end; 0 without one. */
  readonly stride: number;
  /** Whether the network computes in integers. */
  readonly integers: boolean;
  /** A stream from a zero state, for a model with one input and one output. Its memory is freed with the model. */
  stream(options?: StreamOptions): Stream;
}

/** A stream through a model with one input and one output. */
export interface Stream {
  /** One time step over features. Returns the output, or `null` for a step within a window. */
  step(features: Float32Array): Float32Array | null;
  /**
   * Passes mono samples through front end, network and detector, and calls `heard` for every frame that they complete.
   * Floats are from -1 to 1. How samples are divided among calls does not matter.
   */
  hear(samples: Float32Array | Int16Array, heard: (frame: Frame) => void): void;
  /** The values that the network keeps. They change with the next step. */
  readonly state: Float32Array | Int16Array;
  /** Back to a zero state. */
  reset(): void;
}

/** The runtime, compiled once. */
export function compiled(): Promise<WebAssembly.Module>;
