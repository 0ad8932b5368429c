// The page and the worklet in Chromium: detections, timing, accessibility, and nothing from elsewhere.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { BUILT, FOREIGN, browser, eventsOf, floatsOf, serve } from "./site.js";

/** Seconds of the microphone. CI takes few; the bars hold for 60. */
const SECONDS = Number(process.env.TIDEGATE_WEB_SECONDS ?? 5);
/** Milliseconds that a turn of [`machine`] may be late. After more, a measurement judges the machine, not the page. */
const STALL = 5;
/** Milliseconds between two turns of [`machine`], as between two frames of the keyword spotter. */
const PACE = 20;
/** Multiplications and additions of a turn of [`machine`]: about a quarter of a millisecond, as a frame takes. */
const OPERATIONS = 90000;
/** Folder to write pictures of the page to, if any. */
const PICTURES = process.env.TIDEGATE_WEB_PICTURES;
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const bits = (floats) => Array.from(new Uint32Array(Float32Array.from(floats).buffer));
const lines = (name) => eventsOf(readFileSync(join(BUILT, `${name}.events`), "utf8"));

let server;
let chromium;
const sizes = new Map();
const requests = [];

before(async () => {
  server = await serve(sizes);
  chromium = await browser(join(BUILT, "keywords.wav"));
});

after(async () => {
  await chromium?.close();
  server?.close();
});

/** The page, once it is ready. An error in it fails the test. */
async function open(options = {}) {
  const page = await chromium.newPage(options);
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => assert.fail(error));
  page.on("console", (message) => message.type() === "error" && assert.fail(message.text()));
  // The contexts of the page, for their statistics.
  await page.addInitScript(() => {
    globalThis.contexts = [];
    const Context = globalThis.AudioContext;
    globalThis.AudioContext = class extends Context {
      constructor(...options) {
        super(...options);
        globalThis.contexts.push(this);
      }
    };
  });
  await page.goto(server.url);
  await says(page, /^Ready/);
  return page;
}

const says = (page, text) => page.getByRole("status").filter({ hasText: text }).waitFor();
const detections = (page) => page.locator("#detections li").allTextContents();
const posteriors = (page) =>
  page.evaluate(() => globalThis.tidegateFrames().flatMap(({ posteriors }) => (posteriors ? [...posteriors] : [])));

function arithmetic() {
  let result = 1;
  for (let operation = 0; operation < OPERATIONS; operation += 1) result = result * 1.0000001 + 1e-9;
  return result;
}

/**
 * What the machine does meanwhile to a loop of fixed work. The host of a virtual machine can take a core away unseen:
 * the clocks of the threads count that time as theirs. Returns a function that stops the loop, and returns how late a
 * turn was at most, and the milliseconds that the slowest of a hundred turns took beyond the usual one.
 */
function machine() {
  for (let turn = 0; turn < 50; turn += 1) arithmetic();
  const times = [];
  let [late, due] = [0, performance.now() + PACE];
  const timer = setInterval(() => {
    late = Math.max(late, performance.now() - due);
    const start = process.cpuUsage();
    arithmetic();
    const { user, system } = process.cpuUsage(start);
    times.push((user + system) / 1000);
    due = performance.now() + PACE;
  }, PACE);
  return () => {
    clearInterval(timer);
    times.sort((a, b) => b - a);
    return { stall: late, noise: times[Math.floor(times.length / 100)] - times[times.length >> 1] };
  };
}

/** Runs the microphone for some seconds. Times are CPU times of the thread of the worklet, from Chromium's trace. */
async function measure(page, duration) {
  const tracing = await chromium.newBrowserCDPSession();
  const events = [];
  tracing.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  // Without a category that is on by default, all of them would be traced.
  const traceConfig = { includedCategories: ["webaudio", "disabled-by-default-audio-worklet"] };
  await tracing.send("Tracing.start", { traceConfig, transferMode: "ReportEvents" });
  const now = () =>
    page.evaluate(() => {
      const { currentTime: rendered, playbackStats } = globalThis.contexts.at(-1);
      const frames = globalThis.tidegateFrames().length;
      return { seconds: performance.now() / 1000, frames, rendered, underruns: playbackStats.underrunEvents };
    });
  const stopped = machine();
  const start = await now();
  await page.waitForTimeout(1000 * duration);
  const end = await now();
  const { stall, noise } = stopped();
  const complete = new Promise((resolve) => tracing.once("Tracing.tracingComplete", resolve));
  await tracing.send("Tracing.end");
  await complete;
  const calls = events.filter(({ name }) => name === "AudioWorkletProcessor::Process (author script execution)");
  // The last call may have begun only.
  const work = calls.flatMap(({ tdur }) => (tdur === undefined ? [] : [tdur / 1000])).sort((a, b) => b - a);
  const [seconds, frames] = [end.seconds - start.seconds, end.frames - start.frames];
  return {
    seconds,
    lost: seconds - (end.rendered - start.rendered),
    underruns: end.underruns - start.underruns,
    load: work.reduce((sum, time) => sum + time, 0) / (1000 * seconds),
    stall,
    noise,
    // The quanta that complete a frame are those with the most work.
    p99: work[Math.floor(frames / 100)],
    longest: work[0],
  };
}

/** What a measurement says against the bars. */
function faultsOf({ lost, underruns, load, noise, p99, longest }) {
  const faults = [];
  if (!(longest > 0)) faults.push("nothing was traced");
  if (underruns !== 0) faults.push(`${underruns} underruns`);
  // A quantum takes 8 ms, and Chromium renders some of them ahead.
  if (!(lost < 0.05)) faults.push(`${lost} s of sound lost`);
  if (!(load <= 0.05)) faults.push(`${100 * load} % of a core`);
  // package.test.js holds this bar without what the machine adds.
  if (!(p99 - noise <= 1)) faults.push(`${p99} ms, of which the machine added ${noise} ms`);
  return faults;
}

async function choose(page, name) {
  await page.locator("#models").selectOption({ label: name });
  await says(page, /^Ready/);
}

/** Drops files on the page, each with a name and the path of its contents. */
async function drop(page, files) {
  const given = files.map(([name, path]) => [name, readFileSync(path).toString("base64")]);
  await page.evaluate((given) => {
    const transfer = new DataTransfer();
    for (const [name, text] of given) {
      transfer.items.add(new File([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))], name));
    }
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
  }, given);
}

test("page and spotter have at most 400 KiB, compressed", async () => {
  const page = await open();
  const total = [...sizes.values()].reduce((sum, len) => sum + len, 0);
  console.log(`page and spotter: ${total} bytes with gzip, ${sizes.size} files`);
  assert.ok(sizes.has("/tidegate/tidegate-simd128.wasm") && sizes.has("/gru_s_i8x16.tgi"));
  assert.ok(!sizes.has("/tidegate/importer.wasm"), "the importers are loaded when they are needed");
  assert.ok(total <= 400 * 1024, `${total}`);
  await page.close();
});

test("a sound that is dropped gives what tidegate listen gives, bit for bit", async () => {
  const page = await open();
  const sounds = [
    ["Keywords: GRU_S in integers", "gru_s_i8x16", "keywords"],
    ["Keywords: GRU_S in floats", "gru_s_f32", "keywords"],
    ["Wake word: okay nabu", "okay_nabu", "wake_word"],
  ];
  for (const [choice, image, sound] of sounds) {
    await choose(page, choice);
    await drop(page, [[`${sound}.wav`, join(BUILT, `${sound}.wav`)]]);
    await says(page, /decisions$/);
    assert.deepEqual(await detections(page), lines(image), choice);
    const expected = floatsOf(readFileSync(join(BUILT, `${image}.npy`)));
    assert.deepEqual(bits(await posteriors(page)), bits(expected), choice);
  }
  await page.close();
});

test("the shipped voice activity detector hears speech, and a dropped image is a model too", async () => {
  const page = await open();
  await choose(page, "Speech: Silero VAD");
  await page.getByLabel("Sound file").setInputFiles(join(BUILT, "wake_word.wav"));
  await says(page, /decisions$/);
  const speech = await posteriors(page);
  assert.ok(speech.length > 100 && Math.max(...speech) > 0.9 && Math.min(...speech) < 0.1);
  await page.getByLabel("or your own").setInputFiles(join(BUILT, "site/okay_nabu.tgi"));
  await says(page, /^Ready/);
  await page.getByLabel("or your own").setInputFiles(FOREIGN);
  await page.locator("#status[data-error]").waitFor();
  await page.close();
});

test("a dropped model is imported in the page, hears what its image hears, and its image can be saved", async () => {
  const page = await open();
  const asset = (name) => new URL(`../../../assets/${name}`, import.meta.url).pathname;
  const wakeWord = ["okay_nabu.tflite", "okay_nabu.json"].map((name) => [name, asset(`wake_word/${name}`)]);
  await drop(page, [...wakeWord, ["wake_word.wav", join(BUILT, "wake_word.wav")]]);
  await says(page, /decisions$/);
  console.log(`importers: ${sizes.get("/tidegate/importer.wasm")} bytes with gzip`);
  assert.deepEqual(await detections(page), lines("okay_nabu"));
  assert.ok((await page.locator("#notes li").allTextContents()).some((note) => note.includes("okay_nabu.json")));
  const saving = page.waitForEvent("download");
  await page.getByRole("link", { name: "Save the image as okay_nabu_i8.tgi" }).click();
  assert.deepEqual(readFileSync(await (await saving).path()), readFileSync(join(BUILT, "site/okay_nabu.tgi")));
  // A model with its labels, in integers, as in the list.
  await drop(page, ["GRU_S.pb", "labels.txt"].map((name) => [name, asset(`hello_edge/${name}`)]));
  await says(page, /^Ready/);
  await page.getByLabel("Sound file").setInputFiles(join(BUILT, "keywords.wav"));
  await says(page, /decisions$/);
  assert.deepEqual((await detections(page)).map((line) => line.split(" ")[2]), lines("gru_s_i8x16").map((line) => line.split(" ")[2]));
  // A graph with an open shape needs an option; the error says which.
  const silero = [["vad.onnx", asset("silero_vad/silero_vad_16k_op15.onnx")]];
  await drop(page, silero);
  await says(page, /vad.onnx: .*give its shape, as in --shape input=/);
  const options = page.getByLabel("Options for your model");
  await options.fill("--shape input=1,576 --numeric");
  await drop(page, silero);
  await says(page, /--numeric needs a value/);
  await options.fill("--shape input=1,576 --numeric f32");
  await drop(page, silero);
  await says(page, /^Ready/);
  await options.fill("");
  await drop(page, [["notes.pdf", asset("hello_edge/labels.txt")]]);
  await says(page, /notes.pdf/);
  await page.locator("#status[data-error]").waitFor();
  await page.close();
});

test("a model of single samples is asked how it takes them, hears a sound, and is drawn", async () => {
  const page = await open();
  await page.getByLabel("or your own").setInputFiles(join(BUILT, "amp.tgi"));
  await says(page, /^Ready. This image has no front end/);
  await page.getByLabel("Sound file").setInputFiles(join(BUILT, "wake_word.wav"));
  await says(page, /decisions$/);
  const frames = await page.evaluate(() => globalThis.tidegateFrames().map(({ sample }) => sample));
  const [seconds, last] = [frames.at(-1) / 16000, await page.locator("#status").textContent()];
  assert.ok(frames.length > 100 * seconds && frames.length <= 251 * seconds, `${frames.length} frames: ${last}`);
  await page.getByLabel("New samples a step").fill("2");
  await page.getByLabel("New samples a step").press("Tab");
  await says(page, /1 samples together/);
  await page.getByLabel("or your own").setInputFiles(join(BUILT, "two_inputs.tgi"));
  await says(page, /one input and one output/);
  await page.close();
});

test("with the keyboard alone the microphone starts, is heard in time, and stops", async () => {
  const page = await open({ permissions: ["microphone"] });
  const button = page.getByRole("button", { name: "Start the microphone" });
  for (let tabs = 0; !(await button.evaluate((node) => node === document.activeElement)); tabs += 1) {
    assert.ok(tabs < 6, "the button is reached with Tab");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await says(page, /^Listening/);
  // By then, Chromium has optimized the code.
  await page.waitForFunction(() => globalThis.tidegateFrames().length > 25);
  // Another program, or the host of a virtual machine, can take the core away: the bars hold in one of six
  // measurements.
  let faults;
  for (let attempt = 0; attempt < 6 && faults?.length !== 0; attempt += 1) {
    const measured = await measure(page, SECONDS);
    const found = faultsOf(measured);
    console.log(measured, found);
    if (found.length === 0 || measured.stall < STALL) faults = found;
  }
  if (faults) assert.deepEqual(faults, []);
  else console.log("SKIP this machine has stopped in every measurement: whether sound is heard in time was not judged");
  const names = (await detections(page)).map((line) => line.split(" ")[2]);
  const expected = lines("gru_s_i8x16").filter((line) => parseFloat(line) < SECONDS - 1);
  assert.ok(expected.length > 0);
  assert.deepEqual(names.slice(0, expected.length), expected.map((line) => line.split(" ")[2]));
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Start the microphone" }).waitFor();
  await page.close();
});

for (const [name, options] of [
  ["desktop", { viewport: { width: 960, height: 900 } }],
  ["phone", { viewport: { width: 360, height: 780 }, isMobile: true, hasTouch: true }],
  ["dark", { viewport: { width: 960, height: 900 }, colorScheme: "dark" }],
]) {
  test(`axe finds no serious fault, and nothing is cut off: ${name}`, async () => {
    const page = await open({ ...options, bypassCSP: true });
    await page.getByLabel("Sound file").setInputFiles(join(BUILT, "keywords.wav"));
    await says(page, /decisions$/);
    await page.addScriptTag({ path: AXE });
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= options.viewport.width, `${width} > ${options.viewport.width}`);
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.jpg`), quality: 40, fullPage: true });
    await page.close();
  });
}

test("the page asks no other host for anything", () => {
  assert.ok(requests.length > 0);
  const foreign = requests.filter((url) => !url.startsWith(server.url) && !/^(data|blob):/.test(url));
  assert.deepEqual(foreign, []);
});
