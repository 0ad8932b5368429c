// The page: controls, the model, its stream, and what is shown of it.

import { Tidegate, listen, listenTo } from "./tidegate/worklet.js";
import { colorOf, draw } from "./draw.js";
import { imported, sorted } from "./files.js";
import { optionsOf } from "./options.js";
import { samplesOf } from "./sound.js";

/** Seconds of live sound that are kept. */
const KEPT = 600;
/** Width of a second in the pictures, in pixels. */
const SECOND = 40;
/** Values of the features and of the state that are shown at most. */
const ROWS = 128;
/** Frames a second that are shown at most. Models of single samples have as many as there are samples. */
const FRAMES = 250;

const element = (id) => document.getElementById(id);
const canvases = Object.fromEntries(
  ["waveform", "features", "posteriors", "state", "work"].map((id) => [id, element(id)]),
);

/** The model with its description, and the frames of its stream. */
let current;
let frames = [];
/** Work on frames that are not shown. */
let hidden = 0;
/** Ends live sound. */
let stop;
/** Number of the newest request of the person. What an earlier one still brings is dropped. */
let newest = 0;
let isDirty = true;

function say(text, isError = false) {
  element("status").textContent = text;
  element("status").toggleAttribute("data-error", isError);
}

/** Does what a person asked for; `work` learns whether nothing newer was asked for. Errors are shown, not thrown. */
async function attempt(work) {
  const own = ++newest;
  const isNewest = () => own === newest;
  try {
    await work(isNewest);
  } catch (error) {
    if (isNewest()) say(`${error.message}`, true);
  }
}

async function open(image, description, isNewest, notes = []) {
  halt();
  const model = await Tidegate.load(image);
  if (!isNewest()) return;
  const names = model.labels.length > 0 ? model.labels : (description.labels ?? []);
  const isAsked = model.sampleRate === 0 && description.stream === undefined;
  const stream = isAsked ? chunks(model) : (description.stream ?? {});
  // Throws if the page cannot run it.
  model.stream(stream);
  current = { model, names, stream };
  element("chunks").hidden = !isAsked;
  clear();
  told(notes);
  offer(description.saved, image);
  const of = (count, noun) => `${count.toLocaleString("en")} ${noun}`;
  facts({
    model: description.name,
    image: of(image.byteLength, "bytes"),
    numbers: model.integers ? "integers" : "floats",
    state: of(4 * model.stateWords, "bytes"),
    sound: of(rate(), "Hz"),
  });
  element("legend").replaceChildren(
    ...Array.from({ length: Math.min(model.outputSize, 12) }, (_, label) => {
      const span = document.createElement("span");
      span.style.setProperty("--label", colorOf(label));
      span.textContent = names[label] ?? `output ${label}`;
      return span;
    }),
  );
  say(
    isAsked
      ? "Ready. This image has no front end, so it gets the samples themselves. Set below how many."
      : "Ready. Start the microphone, or open a sound file.",
  );
}

/** Samples a second. */
function rate() {
  return current.model.sampleRate || (current.stream.sampleRate ?? 16000);
}

/** How a model without a front end gets samples until the person sets it otherwise. */
function chunks({ inputSize }) {
  const start = { sampleRate: 16000, hop: inputSize, context: 0 };
  for (const [name, value] of Object.entries(start)) element(name).value = `${value}`;
  return start;
}

/** Takes over what the person has set. */
function setChunks() {
  halt();
  const number = (name) => Number(element(name).value);
  const stream = { sampleRate: number("sampleRate"), hop: number("hop"), context: number("context") };
  current.model.stream(stream);
  current.stream = stream;
  clear();
  say(`Ready: ${stream.hop} new samples a step at ${stream.sampleRate} Hz.`);
}

function facts(values) {
  element("facts").replaceChildren(
    ...Object.entries(values).map(([term, value]) => {
      const row = document.createElement("div");
      row.append(document.createElement("dt"), document.createElement("dd"));
      row.firstChild.textContent = term;
      row.lastChild.textContent = value;
      return row;
    }),
  );
}

async function openShipped(description, isNewest) {
  const response = await fetch(description.file);
  if (!response.ok) throw new Error(`${description.file} is missing: cargo xtask web writes it`);
  const image = await response.arrayBuffer();
  if (isNewest()) await open(image, description, isNewest);
}

function clear() {
  frames = [];
  hidden = 0;
  isDirty = true;
  element("detections").replaceChildren();
  const player = element("player");
  player.pause();
  player.hidden = true;
  if (player.src) URL.revokeObjectURL(player.src);
  player.removeAttribute("src");
  element("position-label").hidden = true;
}

function heard(frame) {
  const isClose = frame.sample - (frames.at(-1)?.sample ?? -Infinity) < rate() / FRAMES;
  if (isClose && frame.event === null) {
    hidden += frame.spent;
    return;
  }
  const some = (values) => values.filter((_, index) => index % Math.ceil(values.length / ROWS) === 0);
  const shown = { features: some(frame.features), state: some(frame.state), spent: frame.spent + hidden };
  frames.push({ ...frame, ...shown });
  hidden = 0;
  isDirty = true;
  if (frame.event === null) return;
  const item = document.createElement("li");
  const seconds = (frame.event.sample / rate()).toFixed(2);
  item.textContent = `${seconds} s ${frame.event.name} ${frame.event.score.toFixed(3)}`;
  element("detections").append(item);
}

async function start() {
  if (current === undefined) throw new Error("Open a model first");
  clear();
  const context = new AudioContext({ sampleRate: rate() });
  let media;
  const end = () => {
    media?.getTracks().forEach((track) => track.stop());
    if (context.state !== "closed") context.close();
  };
  stop = end;
  element("microphone").classList.add("on");
  element("microphone").textContent = "Stop the microphone";
  try {
    media = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    });
    // The person may have stopped it before the answer.
    if (stop !== end) return end();
    const live = (frame) => {
      // Frames may still arrive after the end.
      if (stop !== end) return;
      heard(frame);
      if (frames.length > 0 && frames[0].sample < frame.sample - KEPT * rate()) frames.shift();
    };
    const failed = (error) => {
      if (stop !== end) return;
      halt();
      say(error.message, true);
    };
    const node = await listen(context, current.model, live, { stream: current.stream, failed });
    if (stop !== end) return end();
    context.createMediaStreamSource(media).connect(node);
    say("Listening");
  } catch (error) {
    end();
    if (stop === end) halt();
    throw error;
  }
}

function halt() {
  stop?.();
  stop = undefined;
  element("microphone").classList.remove("on");
  element("microphone").textContent = "Start the microphone";
}

async function openSound(file, isNewest) {
  halt();
  clear();
  say(`Reading ${file.name}`);
  const samples = await samplesOf(file, rate());
  if (!isNewest()) return;
  await listenTo(samples, current.model, (frame) => isNewest() && heard(frame), { stream: current.stream });
  if (!isNewest()) return;
  const seconds = samples.length / rate();
  const position = element("position");
  position.max = `${seconds}`;
  position.value = "0";
  element("position-label").hidden = seconds <= span();
  element("player").src = URL.createObjectURL(file);
  element("player").hidden = false;
  const decisions = frames.filter(({ posteriors }) => posteriors !== null).length;
  say(`${file.name}: ${seconds.toFixed(1)} s, ${decisions} decisions`);
}

/** Opens an image or a model, then sounds. */
async function openFiles(files, isNewest) {
  const { images, models, sounds } = await sorted(files);
  for (const file of images) await open(await file.arrayBuffer(), { name: file.name }, isNewest);
  if (models.length > 0) await openModel(models, isNewest);
  for (const file of sounds) {
    if (!isNewest()) return;
    if (current === undefined) throw new Error("Open a model first");
    await openSound(file, isNewest);
  }
}

/** Imports and packs a model. */
async function openModel(files, isNewest) {
  halt();
  const options = optionsOf(element("options").value);
  say(`Importing ${files.map(({ name }) => name).join(", ")}`);
  const { image, name, saved, notes } = await imported(files, options);
  if (isNewest()) await open(image, { name, saved }, isNewest, notes);
}

/** Shows what the importer says of a model. */
function told(notes) {
  const items = notes.map((note) => {
    const item = document.createElement("li");
    item.textContent = note;
    return item;
  });
  element("notes").replaceChildren(...items);
  element("notes").hidden = items.length === 0;
}

/** Offers an image that the page has packed. */
function offer(name, image) {
  const save = element("save");
  if (save.href) URL.revokeObjectURL(save.href);
  save.removeAttribute("href");
  save.hidden = name === undefined;
  if (name === undefined) return;
  save.href = URL.createObjectURL(new Blob([image], { type: "application/octet-stream" }));
  save.download = name;
  save.textContent = `Save the image as ${name}`;
}

/** Seconds that the pictures show at most. */
function span() {
  return Math.max(1, canvases.waveform.clientWidth / SECOND);
}

/** The samples between which frames are shown. */
function stretch() {
  const last = frames.at(-1)?.sample ?? 0;
  const position = element("position-label").hidden ? Infinity : Number(element("position").value) * rate();
  const shown = span() * rate();
  const end = Math.max(Math.min(position, last), Math.min(last, shown));
  const isWhole = stop === undefined && last > 0 && last < shown;
  return [Math.max(0, end - shown), isWhole ? last : Math.max(end, shown)];
}

function tick() {
  requestAnimationFrame(tick);
  if (!isDirty || current === undefined) return;
  isDirty = false;
  const [from, to] = stretch();
  draw(canvases, frames, [from, to], rate(), current.names);
  const spent = frames.reduce((sum, frame) => sum + frame.spent, 0);
  // Of the frames that are kept.
  const seconds = frames.length > 1 ? (frames.at(-1).sample - frames[0].sample) / rate() : Infinity;
  const share = spent / seconds / 10;
  element("load").textContent = `${share.toFixed(2)} % of real time on average;`;
}

let shipped = [];
element("models").addEventListener("change", ({ target }) => attempt((isNewest) => openShipped(shipped[Number(target.value)], isNewest)));
element("microphone").addEventListener("click", () => attempt(async () => (stop ? halt() : await start())));
for (const id of ["image", "sound"]) {
  element(id).addEventListener("change", ({ target }) => {
    // The list is empty once the value is.
    const files = [...target.files];
    // So that the same file can be chosen again.
    target.value = "";
    if (files.length > 0) attempt((isNewest) => openFiles(files, isNewest));
  });
}
element("chunks").addEventListener("change", () => attempt(async () => setChunks()));
element("position").addEventListener("input", () => (isDirty = true));
element("player").addEventListener("timeupdate", ({ target }) => {
  element("position").value = `${target.currentTime + span() / 2}`;
  isDirty = true;
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("over");
});
addEventListener("dragleave", () => document.body.classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("over");
  // The list is empty once the event is over.
  const files = [...event.dataTransfer.files];
  attempt((isNewest) => openFiles(files, isNewest));
});
addEventListener("resize", () => (isDirty = true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (isDirty = true));
tick();
await attempt(async (isNewest) => {
  const response = await fetch("models.json");
  if (!response.ok) throw new Error("models.json is missing: cargo xtask web writes it");
  shipped = await response.json();
  element("models").replaceChildren(...shipped.map(({ name }, index) => new Option(name, `${index}`)));
  await openShipped(shipped[0], isNewest);
});

/** For tests: the frames so far. */
globalThis.tidegateFrames = () => frames;
