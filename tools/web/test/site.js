// What the tests share: the built site over HTTP, and Chromium.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

/** The folder that `cargo xtask web` writes: the site, images, sounds, and what the command line tool says to them. */
export const BUILT = process.env.TIDEGATE_WEB ?? new URL("../../../target/web", import.meta.url).pathname;
export const SITE = join(BUILT, "site");
/** An image for another core. */
export const FOREIGN = new URL("../../../firmware-examples/board/kws.tgi", import.meta.url).pathname;

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

/** Serves the site, compressed as most servers do. `sizes` gets the bytes over the wire of each file. */
export async function serve(sizes = new Map()) {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, "http://localhost").pathname);
    const file = path === "/" ? "/index.html" : path;
    try {
      const bytes = gzipSync(await readFile(join(SITE, file)), { level: 9 });
      sizes.set(file, bytes.length);
      const type = TYPES[extname(file)] ?? "application/octet-stream";
      response.writeHead(200, { "content-type": type, "content-encoding": "gzip" }).end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

/** Chromium without a window, whose microphone plays a WAV file. */
export function browser(sound) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--use-fake-ui-for-media-stream",
      "--use-fake-device-for-media-stream",
      `--use-file-for-fake-audio-capture=${sound}`,
      "--autoplay-policy=no-user-gesture-required",
    ],
  });
}

/** The 16-bit samples of a WAV file that `cargo xtask web` has written. */
export function samplesOf(wav) {
  return new Int16Array(wav.buffer.slice(wav.byteOffset + 44, wav.byteOffset + wav.length));
}

/** The numbers of a .npy file of floats. */
export function floatsOf(npy) {
  const start = 10 + npy.readUInt16LE(8);
  return new Float32Array(npy.buffer.slice(npy.byteOffset + start, npy.byteOffset + npy.length));
}

/** The lines that `tidegate listen` prints for events. */
export function eventsOf(text) {
  const lines = [...text.matchAll(/^ *(\d+\.\d\d) s {2}(.*?) +(\d\.\d{3})$/gm)];
  return lines.map(([, seconds, name, score]) => `${seconds} s ${name} ${score}`);
}
