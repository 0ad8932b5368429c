// The functions of tidegate.h in an instance of WebAssembly, and the memory that they work on.

/** TIDEGATE_VERSION of the header. */
const VERSION = 0x000100;
const PAGE = 65536;

/** The size in bytes of each C type, with pointers of four bytes. */
export const BYTES = {
  tidegate_model: 712,
  tidegate_state: 88,
  tidegate_front_end: 248,
  tidegate_detector: 88,
  tidegate_front_end_i16: 248,
  tidegate_detector_i16: 88,
  tidegate_info: 72,
  tidegate_port: 20,
  tidegate_event: 12,
};

export class Library {
  /** @param {WebAssembly.Module} module The compiled runtime. */
  constructor(module) {
    this.functions = new WebAssembly.Instance(module).exports;
    // The module has no heap: whatever it gets beyond its first pages is free.
    this.end = this.functions.memory.buffer.byteLength;
    if (this.functions.tidegate_version() !== VERSION) {
      throw new Error("tidegate.wasm is of another version than this file");
    }
  }

  /** Reserves memory until the instance is dropped. Returns its address, a multiple of 16. */
  reserve(bytes) {
    const address = Math.ceil(this.end / 16) * 16;
    this.end = address + bytes;
    const missing = this.end - this.functions.memory.buffer.byteLength;
    if (missing > 0) this.functions.memory.grow(Math.ceil(missing / PAGE));
    return address;
  }

  /** Calls a function that returns a status. Any status but TIDEGATE_OK is an error with its text. */
  call(name, ...values) {
    const status = this.functions[name](...values);
    if (status !== 0) throw new Error(this.textFrom(this.functions.tidegate_status_text(status)));
  }

  // Memory that grows gets a new buffer, so views are created for each use.

  bytes(address, len) {
    return new Uint8Array(this.functions.memory.buffer, address, len);
  }

  i16(address, len) {
    return new Int16Array(this.functions.memory.buffer, address, len);
  }

  f32(address, len) {
    return new Float32Array(this.functions.memory.buffer, address, len);
  }

  u32(address) {
    return new Uint32Array(this.functions.memory.buffer, address, 1)[0];
  }

  /** The UTF-8 text at an address. */
  text(address, len) {
    // An AudioWorklet has no TextDecoder.
    const escaped = Array.from(this.bytes(address, len), (byte) => `%${byte.toString(16).padStart(2, "0")}`);
    return decodeURIComponent(escaped.join(""));
  }

  /** The null-terminated text at an address. */
  textFrom(address) {
    const len = new Uint8Array(this.functions.memory.buffer, address).indexOf(0);
    return this.text(address, len);
  }
}
