// WebAssembly from files beside the modules, in browsers and in Node.

const compiling = new Map();

/** The module in a file beside this one, compiled once. */
export function compiled(file) {
  if (!compiling.has(file)) {
    const module = compile(new URL(`./${file}`, import.meta.url));
    compiling.set(file, module);
    // A download that fails is tried again with the next model.
    module.catch(() => compiling.delete(file));
  }
  return compiling.get(file);
}

async function compile(url) {
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be read: ${response.status}`);
  // Servers that do not know the type of WebAssembly are common.
  const isTyped = response.headers.get("content-type") === "application/wasm";
  return isTyped ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}
