// Options for the importer, from a line that is written as on the command line: `--shape input=1,576 --numeric f32`.

const number = (text) => {
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new Error(`${text} is not a number`);
  return Number(text);
};
/** `NAME=VALUE`, whose value another parser reads. */
const named = (value) => (text) => {
  const at = text.lastIndexOf("=");
  if (at < 1) throw new Error(`${text} is not NAME=VALUE`);
  return { [text.slice(0, at)]: value(text.slice(at + 1)) };
};
const text = (word) => word;

/** How the value of each option is read. */
const PARSERS = {
  numeric: text,
  window: number,
  shape: named((dims) => dims.split(",").map(number)),
  bind: named(number),
  state: named(text),
  schedule: text,
  "front-end": text,
  "mean-of": number,
  threshold: number,
  refractory: number,
  calibrate: text,
  range: (rule) => [rule],
  keep: named(number),
  "at-least": (ratio) => number(ratio.replace(/dB$/, "")),
  budget: (size) => {
    const [, value, unit] = /^(.*?)(KiB|MiB|)$/.exec(size);
    return number(value) * { "": 1, KiB: 1024, MiB: 1024 * 1024 }[unit];
  },
};

/** The options of `pack` in `tidegate/importer`. Throws if the line has a word that it does not know. */
export function optionsOf(line) {
  const words = line.split(/\s+/).filter((word) => word !== "");
  const options = {};
  while (words.length > 0) {
    const word = words.shift();
    const [flag, joined] = word.split(/=(.*)/s);
    const key = flag.replace(/^--/, "").replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
    if (flag === "--stream") {
      options.stream = true;
      continue;
    }
    const parse = flag.startsWith("--") ? PARSERS[flag.slice(2)] : undefined;
    if (parse === undefined) {
      throw new Error(`${word} is not an option here; these are: --stream, --${Object.keys(PARSERS).join(", --")}`);
    }
    const value = joined ?? words.shift();
    if (value === undefined) throw new Error(`${flag} needs a value`);
    const parsed = parse(value);
    if (Array.isArray(parsed)) options[key] = [...(options[key] ?? []), ...parsed];
    else options[key] = typeof parsed === "object" ? { ...options[key], ...parsed } : parsed;
  }
  return options;
}
