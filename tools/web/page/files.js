// The files that a person opens: images, models with what lies beside them, and sounds.

import { pack } from "./tidegate/importer.js";

const has = (extensions) => ({ name }) => new RegExp(`\\.(${extensions})$`, "i").test(name);
const isLabels = has("txt");
const isJson = has("json");
/** By its name, if the browser does not know its type. */
const isSoundByName = has("wav|flac|mp3|ogg|opus|m4a|aac|weba");

/** Sorts files by what the page does with them. */
export async function sorted(files) {
  const kinds = { images: [], models: [], sounds: [] };
  for (const file of files) {
    if (file.type.startsWith("audio/") || isSoundByName(file)) kinds.sounds.push(file);
    else if ((await file.slice(0, 4).text()) === "TGIM") kinds.images.push(file);
    else kinds.models.push(file);
  }
  return kinds;
}

/** Imports and packs a model. A JSON file beside it is its description, and a text file has its labels. */
export async function imported(files, options) {
  const labels = files.find(isLabels);
  const given = { ...options };
  if (labels) given.labels = (await labels.text()).split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const models = files.filter((file) => !isLabels(file)).sort((a, b) => isJson(a) - isJson(b));
  if (models.length === 0) throw new Error("Open the model together with its labels");
  const read = await Promise.all(models.map(async (file) => ({ name: file.name, bytes: await file.arrayBuffer() })));
  const { image, numeric, notes, warnings } = await pack(read, given);
  const [{ name }] = models;
  const told = [...warnings.map((warning) => `Warning: ${warning}`), ...notes];
  return { image, name, saved: `${name.replace(/\.\w+$/, "")}_${numeric}.tgi`, notes: told };
}
