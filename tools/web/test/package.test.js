// The package in Node: the bits of the command line tool, its errors, and its size.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { BUILT, FOREIGN, SITE, eventsOf, floatsOf, samplesOf } from "./site.js";

const PACKAGE = new URL("../package/", import.meta.url);
const { Tidegate } = await import(new URL("tidegate.js", PACKAGE));
const { BYTES } = await import(new URL("library.js", PACKAGE));
const { pack } = await import(new URL("importer.js", PACKAGE));

const MODELS = [["gru_s_i8x16", "keywords"], ["gru_s_f32", "keywords"], ["okay_nabu", "wake_word"]];
const image = (name) => readFileSync(join(SITE, `${name}.tgi`));
const sound = (name) => samplesOf(readFileSync(join(BUILT, `${name}.wav`)));
const compressed = (file) => gzipSync(readFileSync(file), { level: 9 }).length;
const bits = (floats) => Array.from(new Uint32Array(Float32Array.from(floats).buffer));

/** What a stream hears in blocks of some samples: posteriors and lines for events. */
function heard(stream, rate, samples, block) {
  const [posteriors, events] = [[], []];
  for (let at = 0; at < samples.length; at += block) {
    stream.hear(samples.subarray(at, at + block), ({ posteriors: row, event }) => {
      posteriors.push(...(row ?? []));
      if (event) events.push(`${(event.sample / rate).toFixed(2)} s ${event.name} ${event.score.toFixed(3)}`);
    });
  }
  return { posteriors, events };
}

for (const [name, of] of MODELS) {
  test(`${name} hears what tidegate listen hears, bit for bit`, async () => {
    const model = await Tidegate.load(image(name));
    const stream = model.stream();
    const samples = sound(of);
    for (const block of [128, 4001]) {
      stream.reset();
      const { posteriors, events } = heard(stream, model.sampleRate, samples, block);
      assert.ok(events.length > 0);
      assert.deepEqual(events, eventsOf(readFileSync(join(BUILT, `${name}.events`), "utf8")));
      assert.deepEqual(bits(posteriors), bits(floatsOf(readFileSync(join(BUILT, `${name}.npy`)))));
    }
    const floats = Float32Array.from(samples, (sample) => sample / 32768);
    const through = (sound) => heard(model.stream(), model.sampleRate, sound, 128);
    const [ofFloats, ofIntegers] = [through(floats), through(samples)];
    assert.deepEqual(ofFloats, ofIntegers);
  });
}

test("99 of 100 frames of the keyword spotter take at most a millisecond, samples and all", async () => {
  const [model, samples] = [await Tidegate.load(image("gru_s_i8x16")), sound("keywords")];
  const quanta = Math.floor(samples.length / 128);
  const floats = Float32Array.from(samples, (sample) => sample / 32768);
  const least = new Float64Array(quanta).fill(Infinity);
  let frames;
  // Whatever else runs on the machine adds to a quantum in some turns only. The first turns also optimize the code.
  for (let turn = 0; turn < 8; turn += 1) {
    const stream = model.stream();
    frames = 0;
    for (let quantum = 0; quantum < quanta; quantum += 1) {
      const start = performance.now();
      stream.hear(floats.subarray(128 * quantum, 128 * (quantum + 1)), () => (frames += 1));
      least[quantum] = Math.min(least[quantum], performance.now() - start);
    }
  }
  assert.ok(frames > 500);
  // The quanta that complete a frame are those with the most work.
  const p99 = least.sort().at(-1 - Math.floor(frames / 100));
  console.log(`a frame: ${p99.toFixed(3)} ms`);
  assert.ok(p99 <= 1, `${p99} ms`);
});

test("a step over features gives what the stream gives", async () => {
  const model = await Tidegate.load(image("gru_s_f32"));
  const [stream, stepped] = [model.stream(), model.stream()];
  let outputs = 0;
  stream.hear(sound("keywords").subarray(0, 48000), ({ features, posteriors }) => {
    const output = stepped.step(features);
    assert.deepEqual(output && bits(output), posteriors && bits(posteriors));
    outputs += output ? 1 : 0;
  });
  assert.ok(outputs > 0);
  assert.throws(() => stepped.step(new Float32Array(9)), /takes 10 features a step, not 9/);
});

test("a model without a front end takes chunks of samples with their context", async () => {
  const model = await Tidegate.load(image("silero_vad"));
  const speech = [];
  const samples = sound("wake_word");
  model.stream({ hop: 512, context: 64 }).hear(samples, ({ posteriors }) => speech.push(posteriors[0]));
  assert.equal(speech.length, Math.floor(samples.length / 512));
  const stream = model.stream();
  const row = new Float32Array(576);
  speech.slice(0, 20).forEach((probability, chunk) => {
    const last = row.slice(512);
    row.set(chunk === 0 ? new Float32Array(64) : last);
    samples.subarray(512 * chunk, 512 * (chunk + 1)).forEach((sample, index) => (row[64 + index] = sample / 32768));
    assert.equal(stream.step(row)[0], probability);
  });
  assert.ok(Math.max(...speech) > 0.9, "there is speech");
  assert.throws(() => model.stream({ hop: 512 }), /576 samples together/);
});

test("files that are not images, damaged ones and those for another core are refused with the reason", async () => {
  const good = image("gru_s_i8x16");
  await assert.rejects(Tidegate.load(new Uint8Array(100)), /not a flash image/);
  const damaged = Uint8Array.from(good);
  damaged[good.length / 2] ^= 1;
  await assert.rejects(Tidegate.load(damaged), /damaged|checksum|changed/i);
  await assert.rejects(Tidegate.load(readFileSync(FOREIGN)), /portable|layout|core|build/i);
});

test("a stream of a model with several inputs is refused", async () => {
  const model = await Tidegate.load(readFileSync(join(BUILT, "two_inputs.tgi")));
  assert.equal(model.inputCount, 2);
  assert.throws(() => model.stream(), /one input and one output, the model 2 and/);
});

test("the sizes of C's types are those of the header", () => {
  const header = readFileSync(new URL("../../../core/capi/include/tidegate.h", import.meta.url), "utf8");
  const objects = [...header.matchAll(/uint64_t private_seal;\s*size_t private_words\[(\d+)\];\s*\} (\w+);/g)];
  assert.equal(objects.length, 6);
  for (const [, words, name] of objects) assert.equal(BYTES[name], 8 + 4 * Number(words), name);
});

test("the types name what the modules export, and what a model and a stream have", async () => {
  const types = (name) => readFileSync(new URL(name, PACKAGE), "utf8");
  for (const name of ["tidegate", "worklet", "importer"]) {
    const exported = [...types(`${name}.d.ts`).matchAll(/^export (?:class|function) (\w+)|^export \{ (\w+) \}/gm)];
    const names = exported.map(([, declared, again]) => declared ?? again).sort();
    assert.deepEqual(Object.keys(await import(new URL(`${name}.js`, PACKAGE))).sort(), names);
  }
  const model = await Tidegate.load(image("gru_s_i8x16"));
  for (const [kind, value] of [["class Tidegate", model], ["interface Stream", model.stream()]]) {
    const [, body] = types("tidegate.d.ts").split(`export ${kind} {`);
    const members = [...body.split("\n}")[0].matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, member]) => member);
    const own = members.filter((member) => member !== "constructor");
    assert.ok(own.length >= 4);
    assert.deepEqual(own.filter((member) => value[member] === undefined), []);
  }
});

for (const name of ["tidegate.wasm", "tidegate-simd128.wasm"]) {
  test(`the runtime has at most 150 KiB, compressed: ${name}`, () => {
    const len = compressed(new URL(name, PACKAGE));
    console.log(`${name}: ${len} bytes with gzip`);
    assert.ok(len <= 150 * 1024, `${len}`);
  });
}

test("Silero's detector with its weights has at most 1.4 MB in floats and 0.6 MB in integers, compressed", () => {
  for (const [name, most] of [["silero_vad", 1.4e6], ["silero_vad_i8x16", 0.6e6]]) {
    const len = compressed(join(SITE, `${name}.tgi`));
    console.log(`${name}: ${len} bytes with gzip`);
    assert.ok(len <= most, `${name}: ${len}`);
  }
});

test("with and without vectors a model has the same bits", async () => {
  const runtimes = ["tidegate.wasm", "tidegate-simd128.wasm"].map((name) => readFileSync(new URL(name, PACKAGE)));
  assert.notDeepEqual(...runtimes);
  const compiled = await Promise.all(runtimes.map((bytes) => WebAssembly.compile(bytes)));
  const speech = { hop: 512, context: 64 };
  const images = [["gru_s_i8x16"], ["gru_s_f32"], ["okay_nabu"], ["silero_vad", speech], ["silero_vad_i8x16", speech]];
  for (const [name, options] of images) {
    const [scalar, vectors] = compiled.map((runtime) => {
      const all = [];
      const stream = new Tidegate(runtime, image(name)).stream(options);
      stream.hear(sound("wake_word"), ({ posteriors }) => posteriors && all.push(...posteriors));
      return all;
    });
    assert.ok(scalar.length > 10, name);
    assert.deepEqual(bits(vectors), bits(scalar), name);
  }
});

for (const { name, files, options, image: packed } of JSON.parse(readFileSync(join(BUILT, "imports.json"), "utf8"))) {
  test(`the importer makes the image of tidegate pack: ${name}`, async () => {
    const given = files.map((file) => ({ name: basename(file), bytes: readFileSync(file) }));
    const { image } = await pack(given, options);
    assert.deepEqual(Buffer.from(image), readFileSync(packed));
  });
}

test("the importer refuses with the text of tidegate pack, and survives damaged files", async () => {
  const read = (path) => ({ name: basename(path), bytes: readFileSync(new URL(`../../../${path}`, import.meta.url)) });
  const silero = read("assets/silero_vad/silero_vad_16k_op15.onnx");
  await assert.rejects(pack([silero]), /^Error: silero_vad_16k_op15.onnx: .*--shape input=1,576/);
  await assert.rejects(pack([silero], { numeric: "i9" }), /"i9" is unknown; give one of/);
  await assert.rejects(pack([silero], { shapes: {} }), /unknown field `shapes`/);
  await assert.rejects(pack([silero], { calibrate: "x.npy" }), /a browser does not have/);
  await assert.rejects(pack([]), /give a model/);
  await assert.rejects(pack([silero], { window: 0 }), /--window is 0, but must be 1 to 1048576/);
  await assert.rejects(pack([silero], { threshold: 2 }), /--threshold is 2, but must be 0 to 1/);
  const { numeric, notes } = await pack([silero], { shape: { input: [1, 576] } });
  assert.equal(numeric, "f32");
  assert.ok(notes.some((note) => note.includes("integers need calibration data")));
  const keras = read("tests/frameworks/keras3/keywords_conv1d.keras");
  // A reason is told, and the importer does not stop. Some bytes of a zip archive may change without an effect.
  const isTold = ({ message }) => message.startsWith("damaged.keras: ") && !message.includes("the importer stopped");
  let refused = 0;
  for (let at = 0; at < keras.bytes.length; at += Math.ceil(keras.bytes.length / 40)) {
    const changed = Uint8Array.from(keras.bytes);
    changed[at] ^= 0x55;
    const error = await pack([{ name: "damaged.keras", bytes: changed }]).catch((error) => error);
    if (error instanceof Error) {
      assert.ok(isTold(error), error.message);
      refused += 1;
    }
    await assert.rejects(pack([{ name: "damaged.keras", bytes: keras.bytes.subarray(0, at) }]), isTold);
  }
  assert.ok(refused >= 20, `${refused} of 40`);
});

test("npm pack makes a package that another project installs and runs", () => {
  const folder = mkdtempSync(join(tmpdir(), "tidegate-"));
  const npm = (...options) => execFileSync("npm", options, { cwd: folder, encoding: "utf8" });
  const packed = npm("pack", "--silent", PACKAGE.pathname).trim();
  npm("init", "--yes", "--silent");
  npm("install", "--offline", "--no-audit", "--no-fund", "--silent", join(folder, packed));
  const files = readdirSync(join(folder, "node_modules/tidegate"));
  const expected = ["README.md", "tidegate.js", "tidegate.d.ts", "worklet.js", "worklet.d.ts", "processor.js"];
  const importer = ["importer.js", "importer-worker.js", "importer.d.ts", "compile.js", "importer.wasm"];
  const runtimes = ["tidegate-simd128.wasm", "tidegate.wasm"];
  for (const file of [...expected, ...importer, ...runtimes, "LICENSE-MIT", "LICENSE-APACHE"]) {
    assert.ok(files.includes(file), file);
  }
  const script = `import { Tidegate } from "tidegate"; import { readFileSync } from "node:fs";
    const model = await Tidegate.load(readFileSync(process.argv[1]));
    console.log(model.labels.join(" "), model.stream().step(new Float32Array(model.inputSize)));`;
  const args = ["--input-type=module", "--eval", script, "--", join(SITE, "gru_s_i8x16.tgi")];
  const printed = execFileSync("node", args, { cwd: folder, encoding: "utf8" });
  assert.equal(printed.trim(), "_silence_ _unknown_ yes no up down left right on off stop go null");
  assert.ok(existsSync(join(folder, packed)));
});
