// A stream inside an AudioWorklet, for live sound and for sounds as a whole.

import { Tidegate } from "./tidegate.js";

const PROCESSOR = new URL("./processor.js", import.meta.url);

export async function listen(context, model, heard, { stream, length, failed } = {}) {
  const rate = model.sampleRate || (stream?.sampleRate ?? 16000);
  if (context.sampleRate !== rate) {
    throw new Error(`the context has ${context.sampleRate} Hz: create it with { sampleRate: ${rate} }`);
  }
  await context.audioWorklet.addModule(PROCESSOR);
  const node = new AudioWorkletNode(context, "tidegate", {
    channelCount: 1,
    channelCountMode: "explicit",
    processorOptions: { runtime: model.runtime, image: model.image, options: stream, length },
  });
  const fail = (message) => failed?.(new Error(message));
  node.port.onmessage = ({ data: { frames, failure } }) => (failure ? fail(failure) : frames.forEach(heard));
  node.onprocessorerror = () => fail("the model cannot run in the worklet");
  // The output is silence. A node that leads nowhere is not run everywhere.
  node.connect(context.destination);
  return node;
}

export async function listenTo(samples, model, heard, { stream } = {}) {
  const rate = model.sampleRate || (stream?.sampleRate ?? 16000);
  const context = new OfflineAudioContext(1, Math.max(samples.length, 1), rate);
  const source = context.createBufferSource();
  source.buffer = context.createBuffer(1, Math.max(samples.length, 1), rate);
  source.buffer.copyToChannel(samples, 0);
  await new Promise((resolve, reject) => {
    const each = (frame) => (frame === null ? resolve() : heard(frame));
    const started = listen(context, model, each, { stream, length: source.buffer.length, failed: reject });
    started.then((node) => {
      source.connect(node);
      source.start();
      return context.startRendering();
    }).catch(reject);
  });
}

export { Tidegate };
