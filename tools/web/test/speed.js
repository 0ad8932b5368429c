// How much faster the runtime with vectors is, for images in floats or integers. Not a test: it measures time.
//
//   cargo xtask web                                  # builds both runtimes
//   node tools/web/test/speed.js a.tgi b.tgi
//
// The runtimes take turns. Each line has the median of a step in microseconds, and the ratio of the medians.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { Tidegate } from "../package/tidegate.js";

const RUNTIMES = ["tidegate.wasm", "tidegate-simd128.wasm"];
const [TURNS, STEPS] = [41, 4000];

const compiled = await Promise.all(
  RUNTIMES.map((name) => WebAssembly.compile(readFileSync(new URL(`../package/${name}`, import.meta.url)))),
);
if (process.argv.length < 3) {
  console.error("usage: node tools/web/test/speed.js IMAGE.tgi ...");
  process.exit(2);
}
for (const path of process.argv.slice(2)) {
  const runs = compiled.map((runtime) => {
    const model = new Tidegate(runtime, readFileSync(path));
    return { stream: model.stream(), x: new Float32Array(model.inputSize).fill(0.3), turns: [] };
  });
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const { stream, x, turns } of runs) {
      const start = performance.now();
      for (let step = 0; step < STEPS; step += 1) {
        x[0] = (step % 7) / 7;
        stream.step(x);
      }
      turns.push(((performance.now() - start) * 1000) / STEPS);
    }
  }
  const [scalar, vectors] = runs.map(({ turns }) => turns.sort((a, b) => a - b)[(TURNS - 1) / 2]);
  const ratio = (scalar / vectors).toFixed(2);
  console.log(`${basename(path)}: ${scalar.toFixed(2)} us without vectors, ${vectors.toFixed(2)} us with, ${ratio} times as fast`);
}
