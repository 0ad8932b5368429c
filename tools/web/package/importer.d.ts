/** A file of a model. */
export interface ModelFile {
  /** Its name, which messages show. The format is recognized by the content. */
  name: string;
  bytes: Uint8Array | ArrayBuffer;
}

/** The options of `tidegate pack`, whose `--help` explains them. */
export interface PackOptions {
  /** Default: that of `tidegate pack`, or f32 for a model whose integers need calibration data. */
  numeric?: "f32" | "f16" | "i8x16" | "i4x16" | "i8";
  /** Length of the sequences of a network that needs them whole. */
  window?: number;
  /** Shapes of inputs that the graph leaves open. */
  shape?: Record<string, number[]>;
  /** Values of inputs that are settings. */
  bind?: Record<string, number>;
  /** Outputs that are the next values of inputs. */
  state?: Record<string, string>;
  labels?: string[];
  /** Step a model over windows row by row. */
  stream?: boolean;
  /** `endless`, or windows as in `25/6`. */
  schedule?: string;
  /** `precise`, `micro_wake_word` or `mlperf_streaming`. */
  frontEnd?: string;
  meanOf?: number;
  threshold?: number;
  /** Milliseconds. */
  refractory?: number;
  /** Features from -1 to 1 stand for calibration data. */
  calibrate?: "noise";
  range?: string[];
  /** Bits of the weights of layers. */
  keep?: Record<string, number>;
  /** Decibels. */
  atLeast?: number;
  /** Bytes. */
  budget?: number;
}

/** An image, and what there is to say of it. */
export interface Packed {
  /** For `Tidegate.load`, and for firmware: it has the layout `portable`. */
  image: Uint8Array;
  numeric: string;
  /** What the importer has assumed. */
  notes: string[];
  /** What loses accuracy. */
  warnings: string[];
  /** The errors of each layer in integers; `null` for floats. */
  report: string | null;
}

/**
 * Imports a model and packs it, in a worker where there are workers. The first file is the model. A second one is its
 * description in JSON: an architecture for a file that holds only weights, or a wake word of ESPHome.
 *
 * Throws an `Error` with the text of `tidegate pack` if the model is not supported or is damaged.
 */
export function pack(files: ModelFile[], options?: PackOptions): Promise<Packed>;

/** As `pack`, in the thread of the caller. */
export function packHere(files: ModelFile[], options?: PackOptions): Promise<Packed>;
