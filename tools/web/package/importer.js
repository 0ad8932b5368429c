// Models of training frameworks to images, as `tidegate pack` makes them. The importers are a module of their own, which
// is loaded with the first model.

import { compiled } from "./compile.js";

/** Imports and packs in this thread, which waits for it. */
export async function packHere(files, options = {}) {
  const { exports: importer } = await WebAssembly.instantiate(await compiled("importer.wasm"));
  const named = files.map(({ name, bytes }) => {
    return { name, bytes: bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes };
  });
  const header = new TextEncoder().encode(
    JSON.stringify({ files: named.map(({ name, bytes }) => ({ name, len: bytes.length })), options }),
  );
  const len = new Uint8Array(new Uint32Array([header.length]).buffer);
  const parts = [len, header, ...named.map(({ bytes }) => bytes)];
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  // The memory may grow with each call, so a view is created after it.
  let at = importer.tidegate_importer_request(total);
  const request = new Uint8Array(importer.memory.buffer, at, total);
  at = 0;
  for (const part of parts) {
    request.set(part, at);
    at += part.length;
  }
  let answerLen;
  try {
    answerLen = importer.tidegate_importer_pack();
  } catch {
    throw new Error(`${files[0].name}: the importer stopped: the file is damaged, or needs more memory than there is`);
  }
  const address = importer.tidegate_importer_answer();
  const answer = new Uint8Array(importer.memory.buffer, address, answerLen).slice();
  const headerLen = new DataView(answer.buffer).getUint32(0, true);
  const told = JSON.parse(new TextDecoder().decode(answer.subarray(4, 4 + headerLen)));
  if (told.error !== undefined) throw new Error(told.error);
  return { ...told, image: answer.slice(4 + headerLen) };
}

/** Imports and packs, in a worker where there are workers. */
export function pack(files, options = {}) {
  if (typeof Worker === "undefined") return packHere(files, options);
  const worker = new Worker(new URL("./importer-worker.js", import.meta.url), { type: "module" });
  const packed = new Promise((resolve, reject) => {
    worker.onmessage = ({ data: { packed, failure } }) =>
      failure === undefined ? resolve(packed) : reject(new Error(failure));
    worker.onerror = ({ message }) => reject(new Error(message || "the worker of the importer cannot be started"));
    worker.postMessage({ files, options });
  });
  return packed.finally(() => worker.terminate());
}
