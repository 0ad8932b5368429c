// The worker of `importer.js`: packs the files of one message.

import { packHere } from "./importer.js";

onmessage = async ({ data: { files, options } }) => {
  try {
    postMessage({ packed: await packHere(files, options) });
  } catch (error) {
    postMessage({ failure: error.message });
  }
};
