// Samples of a sound file at the rate of a model.

export async function samplesOf(file, sampleRate) {
  const bytes = await file.arrayBuffer();
  return wav(new DataView(bytes), sampleRate) ?? decoded(bytes, sampleRate);
}

/** The samples of a WAV file of mono 16-bit integers at this rate, exactly. Browsers do not all keep their bits. */
function wav(view, sampleRate) {
  const name = (at) => String.fromCharCode(...new Uint8Array(view.buffer, at, 4));
  if (view.byteLength < 12 || name(0) !== "RIFF" || name(8) !== "WAVE") return undefined;
  let isExact = false;
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const [kind, len, start] = [name(at), view.getUint32(at + 4, true), at + 8];
    if (kind === "fmt " && start + 16 <= view.byteLength) {
      const [format, channels, bits] = [0, 2, 14].map((offset) => view.getUint16(start + offset, true));
      isExact = format === 1 && channels === 1 && bits === 16 && view.getUint32(start + 4, true) === sampleRate;
    } else if (kind === "data" && isExact) {
      const samples = Math.floor(Math.min(len, view.byteLength - start) / 2);
      return Float32Array.from({ length: samples }, (_, index) => view.getInt16(start + 2 * index, true) / 32768);
    }
    at = start + len + (len % 2);
  }
  return undefined;
}

/** The mean of the channels of any file that the browser reads, resampled to this rate. */
async function decoded(bytes, sampleRate) {
  const buffer = await new OfflineAudioContext(1, 1, sampleRate).decodeAudioData(bytes);
  const channels = Array.from({ length: buffer.numberOfChannels }, (_, index) => buffer.getChannelData(index));
  const mean = (index) => channels.reduce((sum, channel) => sum + channel[index], 0) / channels.length;
  return Float32Array.from({ length: buffer.length }, (_, index) => mean(index));
}
