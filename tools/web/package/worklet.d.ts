import { Frame, StreamOptions, Tidegate } from "./tidegate.js";

/** A frame from an AudioWorklet. */
export interface WorkletFrame extends Frame {
  /** Least and greatest sample since the frame before. */
  low: number;
  high: number;
  /** Milliseconds of work on these samples. Without `performance` in worklets, the browser rounds them. */
  spent: number;
  /** A copy of the values that the network keeps. */
  state: Float32Array | Int16Array;
}

export interface ListenOptions {
  /** For a model without a front end. */
  stream?: StreamOptions;
  /** Called when the stream fails, after which nothing more is heard. */
  failed?: (error: Error) => void;
  /** Number of samples after which `heard` gets `null` and the node stops. Default: never. */
  length?: number;
}

/**
 * A node that runs a stream of the model in an AudioWorklet: connect a source to it. The context must have the sample
 * rate of the model. The output of the node is silence.
 */
export function listen(
  context: BaseAudioContext,
  model: Tidegate,
  heard: (frame: WorkletFrame | null) => void,
  options?: ListenOptions,
): Promise<AudioWorkletNode>;

/** Runs a stream over whole mono samples in an AudioWorklet, faster than real time. */
export function listenTo(
  samples: Float32Array,
  model: Tidegate,
  heard: (frame: WorkletFrame) => void,
  options?: { stream?: StreamOptions },
): Promise<void>;

export { Tidegate };
