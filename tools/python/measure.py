"""Measures the cost of Python beside the command line: a step, a batch of 10,000 windows, 1,000 windows of a gesture GRU. Ends
with 1 if a step takes more than 1 us longer than in Rust, a batch more than 5 % longer than by `tidegate run`, or the windows
50 ms.

    PYTHONPATH=target/python/package target/python/venv/bin/python tools/python/measure.py target/release/tidegate

Builds compared must have the same profile. onnxruntime and torch, if they are installed, run the gesture GRU too.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import tidegate
from tidegate import _native
from tidegate._arrays import safetensors
from tidegate._model import Model

TIDEGATE = sys.argv[1]
held = []


def recurrent(gates, inputs, units, classes=None):
    draw = np.random.default_rng(1)
    shapes = {"rnn.weight_ih_l0": (gates * units, inputs), "rnn.weight_hh_l0": (gates * units, units)}
    shapes |= {"rnn.bias_ih_l0": (gates * units,), "rnn.bias_hh_l0": (gates * units,)}
    if classes:
        shapes |= {"fc.weight": (classes, units), "fc.bias": (classes,)}
    weights = {name: draw.standard_normal(shape).astype("f4") * np.float32(0.2) for name, shape in shapes.items()}
    return Model(_native.import_bytes(safetensors(weights), "network"))


def best(call, repeats=9):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times), statistics.median(times)


def hold(what, is_held):
    held.append(is_held)
    print(f"  {what}: {'held' if is_held else 'not held'}")


def command(*arguments):
    return subprocess.run([TIDEGATE, *arguments], capture_output=True, check=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "lstm.tgi")
    model = recurrent(4, 64, 64)
    image = model.pack("f32")
    image.save(path)
    stream, x, steps = image.stream(), np.zeros(64, "f4"), 20_000
    step = stream.step

    def run_steps():
        for _ in range(steps):
            step(x)

    rust = min(json.loads(command("bench", path, "--stream", "--json"))["median_ns"] for _ in range(3)) / 1e3
    python = best(run_steps)[0] / steps * 1e6
    print(f"step of an LSTM of 64: {python:.2f} us from Python, {rust:.2f} us in Rust: {python - rust:.2f} us beyond")
    hold("a step is at most 1 us slower than in Rust", python - rust <= 1)

    windows = np.random.default_rng(1).standard_normal((10_000, 25, 64), np.float32)
    file, output = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    np.save(file, windows)
    model.pack("f32", schedule=(25, 25)).save(path)
    image = tidegate.Image.load(path)
    of_python = best(lambda: image.run_batch(windows), 5)[0]
    of_command = best(lambda: command("run", path, "--input", file, "--output", output), 5)[0]
    assert np.array_equal(np.load(output), image.run_batch(windows))
    bench = json.loads(command("bench", path, "--batch", "1024", "--steps", "25", "--json"))["per_step_ns"]
    alone = bench * 250_000 / 1e9
    print(f"10,000 windows: {of_python:.3f} s from Python, {of_command:.3f} s by `tidegate run` with its files, "
          f"{alone:.3f} s by `tidegate bench`: {alone / of_python:.3f} of its throughput")
    hold("a batch has at least 0.95 of the throughput of `tidegate run`", 0.95 * of_python <= of_command)

    gesture = recurrent(3, 6, 32, 5)
    x = np.random.default_rng(1).standard_normal((1000, 50, 6), np.float32)
    for numeric in ("f32", "i8x16"):
        image = gesture.pack(numeric, calibrate=None if numeric == "f32" else x[:50], schedule=(50, 50))
        of_windows = best(lambda: image.run_batch(x))[0]
        print(f"1,000 windows of a GRU of 32, {numeric}: {of_windows * 1e3:.1f} ms")
        hold("1,000 windows take less than 50 ms", of_windows < 0.05)
    try:
        import onnxruntime
        import torch
    except ImportError:
        sys.exit(not all(held))
    module = torch.nn.GRU(6, 32, batch_first=True)
    onnx = os.path.join(folder, "gru.onnx")
    torch.onnx.export(module, torch.from_numpy(x), onnx, input_names=["x"], output_names=["y", "h"], dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    print(f"the same GRU in onnxruntime, one thread: {best(lambda: session.run(None, {'x': x}))[0] * 1e3:.1f} ms")
sys.exit(not all(held))
