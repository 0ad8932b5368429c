#!/usr/bin/env python3
"""Records the outputs of RNNoise's C code for noisy speech with the weights beside this file.

    reference.py --rnnoise DIR --sound testing.raw [--output DIR] [--clean clean.raw]

DIR is a checkout of xiph/rnnoise at 5e7af83 (2018-09-20), the version that reads weights from a text file. The sound
is 48 kHz, 16 bits, little-endian. Needs a C compiler. Each row of the written files is a frame that is not silent:
`features` [frames, 42] in features.safetensors, `gains` [frames, 22] and `vad` [frames, 1] in gains.safetensors."""

import argparse
import json
import struct
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ["rnn.c", "rnn_data.c", "rnn_reader.c", "pitch.c", "celt_lpc.c", "kiss_fft.c"]
SIZES = {"features": 42, "gains": 22, "vad": 1}

# Prints the inputs and outputs of the network wherever it is called.
RUNNER = r"""
#include <stdio.h>
#include "rnn.h"
static void shown(RNNState *state, float *gains, float *vad, const float *features) {
  int i;
  compute_rnn(state, gains, vad, features);
  for (i = 0; i < 42; i++) printf("%.9g ", features[i]);
  for (i = 0; i < 22; i++) printf("%.9g ", gains[i]);
  printf("%.9g\n", *vad);
}
#define compute_rnn shown
#include "denoise.c"
int main(int count, char **args) {
  short samples[FRAME_SIZE];
  float frame[FRAME_SIZE];
  int i, first = 1;
  FILE *weights = fopen(args[1], "r"), *noisy = fopen(args[2], "rb"), *clean = fopen(args[3], "wb");
  RNNModel *model = weights ? rnnoise_model_from_file(weights) : NULL;
  if (count < 4 || !model || !noisy || !clean) return 1;
  DenoiseState *state = rnnoise_create(model);
  while (fread(samples, sizeof(short), FRAME_SIZE, noisy) == FRAME_SIZE) {
    for (i = 0; i < FRAME_SIZE; i++) frame[i] = samples[i];
    rnnoise_process_frame(state, frame, frame);
    for (i = 0; i < FRAME_SIZE; i++) samples[i] = roundf(frame[i]);
    if (!first) fwrite(samples, sizeof(short), FRAME_SIZE, clean);
    first = 0;
  }
  return fclose(clean);
}
"""


def text(weights):
    """The text form of a file of bytes."""
    words, at = ["rnnoise-nu model file version 1"], 0
    for name, gates in [("input_dense", 1), ("vad_gru", 3), ("noise_gru", 3), ("denoise_gru", 3), ("denoise_output", 1), ("vad_output", 1)]:
        inputs, neurons, activation = weights[at : at + 3]
        count = gates * neurons * (inputs + 1 + (neurons if gates > 1 else 0))
        words.append(f"{inputs} {neurons} {activation}")
        words.append(" ".join(map(str, struct.unpack_from(f"{count}b", weights, at + 3))))
        at += 3 + count
    assert at == len(weights), f"{len(weights)} bytes, of which {at} are layers"
    return "\n".join(words) + "\n"


def save(path, columns):
    """Writes safetensors of [frames, size] each."""
    header, data = {"__metadata__": {"source": "xiph/rnnoise@5e7af83, its C code (BSD-3)"}}, b""
    for name, rows in columns.items():
        values = [value for row in rows for value in row]
        part = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rnnoise", type=Path, required=True)
    parser.add_argument("--sound", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=HERE)
    parser.add_argument("--clean", type=Path)
    args = parser.parse_args()
    source = args.rnnoise / "src"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "weights.txt").write_text(text((HERE / "weights.rnn").read_bytes()))
        (folder / "runner.c").write_text(RUNNER)
        includes = ["-I", source, "-I", args.rnnoise / "include"]
        files = [source / name for name in SOURCES]
        subprocess.run(["cc", "-O2", "-w", *includes, folder / "runner.c", *files, "-lm", "-o", folder / "runner"], check=True)
        clean = args.clean or folder / "clean.raw"
        command = [folder / "runner", folder / "weights.txt", args.sound, clean]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    frames = [[float(word) for word in line.split()] for line in shown.splitlines()]
    columns, at = {}, 0
    for name, size in SIZES.items():
        columns[name] = [frame[at : at + size] for frame in frames]
        at += size
    assert all(len(frame) == at for frame in frames)
    save(args.output / "features.safetensors", {"features": columns.pop("features")})
    save(args.output / "gains.safetensors", columns)
    print(f"{args.output}: {len(frames)} frames")


main()
