"""Measures how many seconds of sound `tidegate.score` listens to in a second of one core, and where the time goes. Ends
with 1 if it is fewer than 2,000 for WAV.

    PYTHONPATH=target/python/package python tools/python/measure_score.py assets/hello_edge/GRU_S.pb ../shared/data/speech_commands_v2

The Python package `soundfile` (pip install soundfile pyarrow) writes the clips as WAV, so that the decoding of FLAC is a figure of its own. No silence is added behind a clip.
"""

import csv
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import soundfile

import tidegate
from tidegate import score

GRAPH, CLIPS = sys.argv[1], Path(sys.argv[2])
BAR, TURNS = 2000, 7


def seconds(call):
    """The least processor time of some turns."""
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


with open(CLIPS / "index.csv") as file:
    rows = list(csv.DictReader(file))
labels = [row["label"] for row in rows]
model = tidegate.import_model(GRAPH)
image = model.pack("i8x16")
window = model.architecture["schedule"]["windows"]["frames"]

with tempfile.TemporaryDirectory() as folder:
    flac = [str(CLIPS / row["file"]) for row in rows]
    wav = [str(Path(folder) / f"{at}.wav") for at in range(len(rows))]
    for source, target in zip(flac, wav, strict=True):
        soundfile.write(target, *soundfile.read(source, dtype="int16"), subtype="PCM_16")
    tables = {name: pa.table({"file": files, "label": labels}) for name, files in (("WAV", wav), ("FLAC", flac))}
    sound = sum(score.batch(tables["WAV"], image, silence=0)["microseconds"].to_pylist()) / 1e6
    taken = {name: seconds(lambda table=table: score.batch(table, image, silence=0)) for name, table in tables.items()}
    features = seconds(lambda: [image.features(file) for file in wav])
    rest = taken["WAV"] - features

rate = sound / taken["WAV"]
print(f"{len(rows)} clips, {sound:.0f} s of sound, windows of {window} frames, one thread, least of {TURNS} turns")
print(f"WAV: {rate:.0f} s of sound a second; FLAC: {sound / taken['FLAC']:.0f}")
print(f"of the {taken['WAV']:.3f} s for WAV: reading and front end {features / taken['WAV']:.0%}, network, detector and table "
      f"{rest / taken['WAV']:.0%}; decoding of FLAC adds {(taken['FLAC'] - taken['WAV']) / taken['WAV']:.0%}")
if not rate >= BAR:
    sys.exit(f"fewer than {BAR} s of sound a second")
