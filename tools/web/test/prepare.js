// Writes the sounds of the tests as WAV files, and what the command line tool makes of them.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BUILT, SITE, browser, serve } from "./site.js";

const ASSETS = new URL("../../../assets/", import.meta.url).pathname;
const RATE = 16000;
/** Seconds of silence before each clip and after the last. */
const GAP = 1;

const WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"];
const index = readFileSync(join(ASSETS, "speech_commands/index.csv"), "utf8").trim().split("\n").slice(1);
const clipOf = (word) => index.map((row) => row.split(",")).find(([, label]) => label === word)[0];

/** The samples of files that Chromium decodes. */
async function decoded(files) {
  const [server, chromium] = [await serve(), await browser("none")];
  const page = await chromium.newPage();
  await page.goto(server.url);
  const sounds = [];
  for (const file of files) {
    const text = readFileSync(join(ASSETS, file)).toString("base64");
    const samples = await page.evaluate(async ([text, rate]) => {
      const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
      const buffer = await new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes.buffer);
      return Array.from(buffer.getChannelData(0), (sample) => Math.round(sample * 32768));
    }, [text, RATE]);
    sounds.push(samples.map((sample) => Math.min(sample, 32767)));
  }
  await chromium.close();
  server.close();
  return sounds;
}

/** A WAV file of mono 16-bit samples. */
function wav(samples) {
  const bytes = Buffer.alloc(44 + 2 * samples.length);
  bytes.write("RIFF    WAVEfmt ");
  bytes.writeUInt32LE(bytes.length - 8, 4);
  [16, RATE, 2 * RATE].forEach((value, index) => bytes.writeUInt32LE(value, [16, 24, 28][index]));
  [1, 1, 2, 16].forEach((value, index) => bytes.writeUInt16LE(value, [20, 22, 32, 34][index]));
  bytes.write("data", 36);
  bytes.writeUInt32LE(2 * samples.length, 40);
  samples.forEach((sample, index) => bytes.writeInt16LE(sample, 44 + 2 * index));
  return bytes;
}

function tidegate(...options) {
  return execFileSync(process.env.TIDEGATE ?? "tidegate", options, { encoding: "utf8" });
}

const TESTS = new URL("../../../tests/", import.meta.url).pathname;
const FRAMEWORKS = join(TESTS, "frameworks");
tidegate("pack", join(FRAMEWORKS, "rtneural/gru.json"), "-o", join(BUILT, "amp.tgi"), "--numeric", "f32");
tidegate("pack", join(FRAMEWORKS, "keras3/two_inputs.keras"), "-o", join(BUILT, "two_inputs.tgi"), "--numeric", "f32");
// Models of every format: what the command line tool makes of them, and the same options for `importer.js`.
const IMPORTS = [
  ["GraphDef", [join(ASSETS, "hello_edge/GRU_S.pb")], { numeric: "f32" }],
  ["GraphDef in integers", [join(ASSETS, "hello_edge/GRU_S.pb")], { numeric: "i8x16" }],
  ["wake word of ESPHome", [join(ASSETS, "wake_word/okay_nabu.tflite"), join(ASSETS, "wake_word/okay_nabu.json")], {}],
  ["ONNX", [join(ASSETS, "silero_vad/silero_vad_16k_op15.onnx")], { shape: { input: [1, 576] }, numeric: "f32" }],
  ["Keras 3", [join(FRAMEWORKS, "keras3/keywords_conv1d.keras")], { calibrate: "noise" }],
  ["Keras 2", [join(FRAMEWORKS, "keras2/activations.h5")], { numeric: "f32" }],
  ["PyTorch", [join(FRAMEWORKS, "torch/both_directions_final.pt"), join(FRAMEWORKS, "torch/both_directions_final.json")],
    { numeric: "f32", window: 10 }],
  ["TFLite", [join(FRAMEWORKS, "tflite/float_conv.tflite")], { numeric: "f32" }],
  ["RTNeural", [join(FRAMEWORKS, "rtneural/gru.json")], { numeric: "f16" }],
  ["RNNoise", [join(TESTS, "rnnoise/weights.rnn")], { numeric: "f32" }],
];
/** The arguments of the command line for options of `importer.js`. */
function argumentsOf(options, [, beside]) {
  const flags = Object.entries(options).flatMap(([name, value]) =>
    typeof value === "object"
      ? Object.entries(value).flatMap(([key, dims]) => [`--${name}`, `${key}=${dims}`])
      : [`--${name}`, value],
  );
  return beside === undefined ? flags : [...flags, "--arch", beside];
}
const imports = IMPORTS.map(([name, files, options], index) => {
  const image = join(BUILT, `import_${index}.tgi`);
  // The command line is given the description of a wake word, which names its model.
  const isWakeWord = name.startsWith("wake word");
  const given = isWakeWord ? [files[1]] : [files[0], "--labels", "none", ...argumentsOf(options, files)];
  tidegate("pack", ...given, "-o", image);
  return { name, files, options, image };
});
writeFileSync(join(BUILT, "imports.json"), JSON.stringify(imports));
const files = WORDS.map((word) => `speech_commands/${clipOf(word)}`);
const [wake, ...clips] = await decoded(["wake_word/okay_nabu.flac", ...files]);
const gap = new Array(GAP * RATE).fill(0);
writeFileSync(join(BUILT, "keywords.wav"), wav(clips.flatMap((clip) => [...gap, ...clip]).concat(gap)));
writeFileSync(join(BUILT, "wake_word.wav"), wav(wake.concat(gap)));
for (const [model, sound] of [["gru_s_i8x16", "keywords"], ["gru_s_f32", "keywords"], ["okay_nabu", "wake_word"]]) {
  const [image, file] = [join(SITE, `${model}.tgi`), join(BUILT, `${sound}.wav`)];
  const scalar = ["--backend", "scalar"];
  writeFileSync(join(BUILT, `${model}.events`), tidegate("listen", image, "--wav", file, ...scalar));
  tidegate("run", image, "--input", file, "--output", join(BUILT, `${model}.npy`), ...scalar);
}
