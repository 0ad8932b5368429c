"""OpenVINO: its LSTM sequence operation with the batch first, or the ONNX model for layer normalization."""

import sys
import time
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset8 as ops

# Indices of our gates in its order: f i g o.
ORDER = (1, 0, 2, 3)


def sequence(fields, folder):
    """`[batch, time, input]` to `[batch, time, output]`."""
    hidden, directions = fields["hidden"], fields["directions"]
    weights = np.fromfile(folder / "weights.f32", "<f4")
    x = ops.parameter([fields["batch"], fields["steps"], fields["input"]], np.float32, "x")
    last, features = x.output(0), fields["input"]
    for _ in range(fields["layers"]):
        parts = []
        for _ in range(directions):
            w, weights = take(weights, 4, hidden, features)
            r, weights = take(weights, 4, hidden, hidden)
            input_bias, weights = take(weights, 4, hidden)
            recurrent_bias, weights = take(weights, 4, hidden)
            ordered = lambda blocks: np.concatenate([blocks[gate] for gate in ORDER])
            parts.append((ordered(w), ordered(r), ordered(input_bias + recurrent_bias)))
        w, r, b = (np.stack(part) for part in zip(*parts))
        state = np.zeros((fields["batch"], directions, hidden), np.float32)
        lens = np.full(fields["batch"], fields["steps"], np.int32)
        node = ops.lstm_sequence(last, state, state, lens, w, r, b, hidden, "bidirectional" if directions == 2 else "forward")
        if directions == 2:
            # [batch, directions, time, hidden]
            turned = ops.transpose(node.output(0), np.array([0, 2, 1, 3]))
            last = ops.reshape(turned, np.array([0, 0, -1]), True).output(0)
        else:
            last = ops.squeeze(node.output(0), np.array([1])).output(0)
        features = hidden * directions
    return ov.Model([last], [x], "case")


def take(values, *shape):
    count = int(np.prod(shape))
    return values[:count].reshape(shape), values[count:]


def main():
    folder = Path(sys.argv[1])
    lines = (line.split(" ", 1) for line in (folder / "case.txt").read_text().splitlines())
    fields = {name: int(value) if value.isdigit() else value for name, value in lines}
    x = np.fromfile(folder / "x.f32", "<f4").reshape(fields["steps"], fields["batch"], fields["input"])
    begin = time.perf_counter_ns()
    core = ov.Core()
    if fields["normed"]:
        model, inputs = core.read_model(folder / "model.onnx"), [x]
        inputs.append(np.fromfile(folder / "mask.f32", "<f4").reshape(fields["steps"], fields["batch"], 1))
    else:
        model, inputs = sequence(fields, folder), [np.ascontiguousarray(x.transpose(1, 0, 2))]
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
               "ENABLE_CPU_PINNING": False}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    for port, value in enumerate(inputs):
        request.set_input_tensor(port, ov.Tensor(value, shared_memory=True))
    loaded = time.perf_counter_ns()
    request.infer()
    print(f"ready {loaded - begin} {time.perf_counter_ns() - loaded} openvino {ov.__version__}", flush=True)
    for line in sys.stdin:
        command, argument = line.split(" ", 1)
        if command == "run":
            begin = time.perf_counter_ns()
            for _ in range(int(argument)):
                request.infer()
            print(time.perf_counter_ns() - begin, flush=True)
        else:
            request.infer()
            y = request.get_output_tensor(0).data
            y = y if fields["normed"] else y.transpose(1, 0, 2)
            np.ascontiguousarray(y).tofile(argument.strip())
            print("ok", flush=True)


main()
