"""Writes ONNX models and records the outputs of ONNX Runtime.

    pip install -r tests/frameworks/onnx.requirements.txt
    python tests/frameworks/onnx_models.py write                     the files in tests/frameworks/onnx
    python tests/frameworks/onnx_models.py check --seed 1 --count 300 --tidegate target/release/tidegate
    python tests/frameworks/onnx_models.py spectrum --tidegate target/release/tidegate

`write` writes every node test of the `onnx` package that has an LSTM, a GRU or an RNN (Apache-2.0, the ONNX project
contributors), a sample of random operators, and small networks. The outputs of a stream are those of a loop that feeds
the states back. A case is NAME.onnx beside NAME.in.safetensors and
NAME.out.safetensors, with tensors by the graph's names; the metadata of the latter hold the tolerance. `check`
generates random operators from a seed and runs each through `tidegate run`: the result must be within 1e-5 of ONNX
Runtime's, relative to the largest value if that exceeds 1. `spectrum` writes the voice activity detector of the stream
cases in the size of Silero v4, at both rates: the outputs over 200 chunks must be within 1e-4 of ONNX Runtime's, and the
image at most 1.3 times its weights.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx")
TOLERANCE = 1e-5
SAMPLE_SEED, SAMPLE = 9, 24
# The parameters of each activation: alpha, beta.
ACTIVATIONS = {
    "Sigmoid": 0, "Tanh": 0, "Relu": 0, "Softsign": 0, "Softplus": 0, "LeakyRelu": 1, "Elu": 1, "ThresholdedRelu": 1,
    "HardSigmoid": 2, "Affine": 2, "ScaledTanh": 2,
}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
PLACES = {"LSTM": 3, "GRU": 2, "RNN": 1}
TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


def infos(tensors):
    return [helper.make_tensor_value_info(name, TYPES[str(value.dtype)], value.shape) for name, value in tensors.items()]


def run(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def model_of(nodes, inputs, outputs, weights, opset):
    graph = helper.make_graph(
        nodes, "graph", infos(inputs), outputs, [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def activations(rng, places, directions):
    """Names, and the alphas and betas that they take, or none if all have their defaults."""
    names = [str(rng.choice(list(ACTIVATIONS))) for _ in range(places * directions)]
    alphas, betas = [], []
    for name in names:
        if ACTIVATIONS[name] > 0:
            alphas.append(float(np.float32(rng.uniform(0.1, 0.9))))
        if ACTIVATIONS[name] > 1:
            betas.append(float(np.float32(rng.uniform(0.1, 0.9))))
    # Without parameters ONNX Runtime uses 0 for these, unlike the standard.
    if rng.random() < 0.3 and not {"ThresholdedRelu", "Affine", "ScaledTanh"} & set(names):
        alphas, betas = [], []
    return {"activations": names} | ({"activation_alpha": alphas} if alphas else {}) | ({"activation_beta": betas} if betas else {})


def random_case(rng):
    """A model of one operator, its inputs, and ONNX Runtime's outputs, all by name. Outputs that grow without bound are
    left out.
    """
    while True:
        case = operator_case(rng)
        if all(np.isfinite(value).all() and np.abs(value).max(initial=0) < 1e3 for value in case[2].values()):
            return case


def operator_case(rng):
    op = str(rng.choice(list(GATES)))
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, features, units = (int(rng.integers(1, most)) for most in (12, 5, 10, 12))
    attributes = {"hidden_size": units, "direction": direction}
    if rng.random() < 0.6:
        attributes |= activations(rng, PLACES[op], directions)
    if rng.random() < 0.35:
        attributes["clip"] = float(np.float32(rng.uniform(0.2, 2)))
    if op == "LSTM" and rng.random() < 0.35:
        attributes["input_forget"] = 1
    if op == "GRU" and rng.random() < 0.6:
        attributes["linear_before_reset"] = int(rng.integers(0, 2))
    rows = GATES[op] * units
    scale = 0.6 / np.sqrt(units)
    numbers = lambda size, *shape: rng.normal(0, size, shape).astype(np.float32)
    weights = {"W": numbers(0.4, directions, rows, features), "R": numbers(scale, directions, rows, units)}
    if rng.random() < 0.7:
        weights["B"] = numbers(0.3, directions, 2 * rows)
    inputs = {"X": numbers(1, steps, batch, features)}
    if rng.random() < 0.5:
        least = 0 if rng.random() < 0.2 else 1
        inputs["sequence_lens"] = rng.integers(least, steps + 1, batch).astype(np.int32)
    if rng.random() < 0.6:
        inputs["initial_h"] = numbers(0.5, directions, batch, units)
    if op == "LSTM" and rng.random() < 0.6:
        inputs["initial_c"] = numbers(0.5, directions, batch, units)
    if op == "LSTM" and rng.random() < 0.4:
        weights["P"] = numbers(0.3, directions, 3 * units)
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h"] + (["initial_c", "P"] if op == "LSTM" else [])
    given = [name if name in weights or name in inputs else "" for name in order]
    while given[-1] == "":
        given.pop()
    outputs = {"Y": [steps, directions, batch, units], "Y_h": [directions, batch, units]}
    if op == "LSTM":
        outputs["Y_c"] = [directions, batch, units]
    opset = int(rng.choice([7, 11, 13, 14, 18, 22]))
    node = helper.make_node(op, given, list(outputs), **attributes)
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    expected = run(model_of([node], inputs, shapes, weights, opset), inputs)
    if opset >= 14 and rng.random() < 0.4:
        # ONNX Runtime supports only the other layout: the same numbers with transposed dimensions.
        moved = lambda name, value: value.transpose(*({"X": (1, 0, 2), "Y": (2, 0, 1, 3)}.get(name, (1, 0, 2))))
        inputs = {name: value if name == "sequence_lens" else np.ascontiguousarray(moved(name, value)) for name, value in inputs.items()}
        expected = {name: np.ascontiguousarray(moved(name, value)) for name, value in expected.items()}
        node = helper.make_node(op, given, list(outputs), layout=1, **attributes)
        shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in expected.items()]
    if rng.random() < 0.3:
        # Weights are inputs too.
        inputs, weights = inputs | weights, {}
    return model_of([node], inputs, shapes, weights, opset), inputs, expected


def node_cases():
    """The node tests of the `onnx` package with recurrent operators, by name."""
    from onnx.backend.test.case.node import collect_testcases

    np.seterr(all="ignore")  # The node tests of other operators overflow on purpose.
    recurrent = ("test_lstm_", "test_gru_", "test_rnn_", "test_simple_rnn_")
    for case in collect_testcases(None):
        if case.name.startswith(recurrent) and not case.name.endswith("_expanded"):
            (inputs, outputs), = case.data_sets
            names = lambda values: [value.name for value in values]
            yield (case.name.removeprefix("test_"), case.model, dict(zip(names(case.model.graph.input), inputs)),
                   dict(zip(names(case.model.graph.output), outputs)), max(case.rtol, case.atol, TOLERANCE))


def network_cases():
    """Small networks: recurrent layers with the layers around them, as exporters write them."""
    rng = np.random.default_rng(3)
    numbers = lambda *shape: rng.normal(0, 0.4, shape).astype(np.float32)
    node, ints = helper.make_node, lambda *values: np.array(values, np.int64)

    def keywords():
        weights = {"W": numbers(1, 48, 10), "R": numbers(1, 48, 16), "B": numbers(1, 96), "V": numbers(4, 16), "c": numbers(4),
                   "axes": ints(0)}
        nodes = [node("GRU", ["features", "W", "R", "B"], ["", "h"], hidden_size=16, linear_before_reset=1),
                 node("Squeeze", ["h", "axes"], ["state"]),
                 node("Gemm", ["state", "V", "c"], ["logits"], transB=1),
                 node("Softmax", ["logits"], ["posteriors"])]
        return nodes, {"features": numbers(25, 1, 10)}, {"posteriors": [1, 4]}, weights

    def per_step():
        weights = {"W": numbers(2, 24, 5), "R": numbers(2, 24, 6), "B": numbers(2, 48), "V": numbers(12, 3), "c": numbers(3),
                   "shape": ints(0, 0, -1), "scale": numbers(5) + 1, "shift": numbers(5)}
        nodes = [node("LayerNormalization", ["x", "scale", "shift"], ["normal"]),
                 node("LSTM", ["normal", "W", "R", "B"], ["both"], hidden_size=6, direction="bidirectional"),
                 node("Transpose", ["both"], ["moved"], perm=[0, 2, 1, 3]),
                 node("Reshape", ["moved", "shape"], ["joined"]),
                 node("MatMul", ["joined", "V"], ["product"]),
                 node("Add", ["product", "c"], ["sum"]),
                 node("Tanh", ["sum"], ["y"])]
        return nodes, {"x": numbers(7, 2, 5)}, {"y": [7, 2, 3]}, weights

    def stacked():
        weights = {"W": numbers(1, 9, 4), "R": numbers(1, 9, 3), "W2": numbers(1, 20, 3), "R2": numbers(1, 20, 5), "axes": ints(1),
                   "last": ints(-1), "V": numbers(5, 2)}
        nodes = [node("Relu", ["x"], ["positive"]),
                 node("GRU", ["positive", "W", "R"], ["y"], hidden_size=3),
                 node("Squeeze", ["y", "axes"], ["h"]),
                 node("LSTM", ["h", "W2", "R2"], ["z"], hidden_size=5),
                 node("Squeeze", ["z", "axes"], ["all"]),
                 node("Gather", ["all", "last"], ["end"], axis=0),
                 node("MatMul", ["end", "V"], ["out"])]
        return nodes, {"x": numbers(6, 1, 4)}, {"out": [1, 1, 2], "all": [6, 1, 5]}, weights

    def chunks():
        weights = {"K": numbers(6, 1, 8), "K2": numbers(5, 6, 3), "k2": numbers(5), "gain": numbers(5) + 1, "shift": numbers(5),
                   "mean": numbers(5), "var": np.abs(numbers(5)) + 1, "pads": ints(0, 0, 0, 0, 0, 3),
                   "W": numbers(1, 16, 5), "R": numbers(1, 16, 4), "B": numbers(1, 32), "zero": ints(0), "one": ints(1), "two": ints(2),
                   "V": numbers(1, 4)}
        nodes = [node("Unsqueeze", ["x", "one"], ["channel"]),
                 node("Pad", ["channel", "pads"], ["padded"], mode="reflect"),
                 node("Conv", ["padded", "K"], ["frames"], kernel_shape=[8], strides=[4]),
                 node("Slice", ["frames", "zero", "two", "one"], ["low"]),
                 node("Relu", ["frames"], ["active"]),
                 node("Conv", ["active", "K2", "k2"], ["narrow"], kernel_shape=[3], pads=[1, 1], strides=[2]),
                 node("BatchNormalization", ["narrow", "gain", "shift", "mean", "var"], ["normal"]),
                 node("MaxPool", ["normal"], ["greatest"], kernel_shape=[2], strides=[2]),
                 node("GlobalAveragePool", ["greatest"], ["mean_of"]),
                 node("Transpose", ["mean_of"], ["step"], perm=[2, 0, 1]),
                 node("Gather", ["state", "zero0"], ["h0"], axis=0),
                 node("Gather", ["state", "one0"], ["c0"], axis=0),
                 node("Unsqueeze", ["h0", "zero"], ["h1"]),
                 node("Unsqueeze", ["c0", "zero"], ["c1"]),
                 node("LSTM", ["step", "W", "R", "B", "", "h1", "c1"], ["", "hn", "cn"], hidden_size=4),
                 node("Concat", ["hn", "cn"], ["state_out"], axis=0),
                 node("Squeeze", ["hn", "zero"], ["h"]),
                 node("Gemm", ["h", "V"], ["logit"], transB=1),
                 node("Sigmoid", ["logit"], ["probability"])]
        weights |= {"zero0": np.array(0, np.int64), "one0": np.array(1, np.int64)}
        return nodes, {"x": numbers(1, 33), "state": numbers(2, 1, 4)}, {"probability": [1, 1], "state_out": [2, 1, 4]}, weights

    for make in (keywords, per_step, stacked, chunks):
        nodes, inputs, outputs, weights = make()
        shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        model = model_of(nodes, inputs, shapes, weights, 17)
        yield make.__name__, model, inputs, run(model, inputs)


def conv(numbers, weights, x, to, filters, channels, taps, **attributes):
    """A convolution with random weights and a bias."""
    weights |= {to + "_k": numbers(filters, channels, *taps), to + "_b": numbers(filters)}
    return helper.make_node("Conv", [x, to + "_k", to + "_b"], [to], kernel_shape=list(taps), **attributes)


def spectrum(numbers, window, hop, samples, units):
    """A branch in the form of Silero v4: a spectrum, its logarithm less a smoothed mean, convolutions, two LSTMs."""
    node = helper.make_node
    ints = lambda *values: np.array(values, np.int64)
    bins, frames = window // 2 + 1, (samples + window - hop - window) // hop + 1
    weights = {"edges": ints(0, 0, (window - hop) // 2, 0, 0, (window - hop) // 2), "basis": numbers(2 * bins, 1, window), "two": np.float32(2),
               "million": np.float32(2 ** 20), "unit": np.float32(1), "smooth": np.abs(numbers(1, 1, 7)), "middle": ints(bins),
               "end": ints(2 ** 62), "zero": ints(0), "one": ints(1), "four": ints(4), "ends": ints(-1), "back": ints(-frames - 1),
 "past": ints(-5), "second": ints(2), "first": ints(1)}
    nodes = [node("Unsqueeze", ["input", "one"], ["channel"]),
             node("Pad", ["channel", "edges"], ["padded"], mode="reflect"),
             node("Conv", ["padded", "basis"], ["transformed"], kernel_shape=[window], strides=[hop]),
             node("Slice", ["transformed", "zero", "middle", "one"], ["real"]),
             node("Slice", ["transformed", "middle", "end", "one"], ["imaginary"]),
             node("Pow", ["real", "two"], ["real2"]), node("Pow", ["imaginary", "two"], ["imaginary2"]),
             node("Add", ["real2", "imaginary2"], ["power"]), node("Sqrt", ["power"], ["magnitude"]),
             node("Mul", ["magnitude", "million"], ["large"]), node("Add", ["large", "unit"], ["positive"]), node("Log", ["positive"], ["loud"]),
             node("ReduceMean", ["loud"], ["mean"], axes=[1]),
             node("Slice", ["mean", "one", "four", "second"], ["left"]), node("Slice", ["left", "ends", "back", "second", "ends"], ["left_pad"]),
             node("Slice", ["mean", "past", "ends", "second"], ["right"]), node("Slice", ["right", "ends", "past", "second", "ends"], ["right_pad"]),
             node("Concat", ["left_pad", "mean", "right_pad"], ["wide"], axis=2),
             node("Conv", ["wide", "smooth"], ["smoothed"], kernel_shape=[7]), node("ReduceMean", ["smoothed"], ["level"], axes=[2]),
             node("Neg", ["level"], ["less"]), node("Add", ["loud", "less"], ["normal"]),
             node("Concat", ["magnitude", "normal"], ["features"], axis=1),
             conv(numbers, weights, "features", "depth", 2 * bins, 1, [5], pads=[2, 2], group=2 * bins), node("Relu", ["depth"], ["depth_y"]),
             conv(numbers, weights, "depth_y", "point", 16, 2 * bins, [1]), conv(numbers, weights, "features", "skip", 16, 2 * bins, [1]),
             node("Add", ["point", "skip"], ["sum"]), node("Relu", ["sum"], ["sum_y"]),
             conv(numbers, weights, "sum_y", "narrow", 32, 16, [3], strides=[2], pads=[1, 1]), node("Relu", ["narrow"], ["narrow_y"]),
             conv(numbers, weights, "narrow_y", "last", units, 32, [1], strides=[2]), node("Relu", ["last"], ["last_y"]),
             node("Transpose", ["last_y"], ["steps"], perm=[2, 0, 1])]
    x, states = "steps", {"h": [], "c": []}
    for layer in ("first", "second"):
        weights |= {layer + "_W": numbers(1, 4 * units, units), layer + "_R": numbers(1, 4 * units, units), layer + "_B": numbers(1, 8 * units)}
        start, to = {"first": ("zero", "first"), "second": ("first", "second")}[layer]
        for state in states:
            nodes.append(node("Slice", [state, start, to, "zero"], [layer + "_" + state]))
            states[state].append(layer + "_" + state + "n")
        nodes += [node("LSTM", [x, layer + "_W", layer + "_R", layer + "_B", "", layer + "_h", layer + "_c"],
                       [layer + "_Y", layer + "_hn", layer + "_cn"], hidden_size=units),
                  node("Squeeze", [layer + "_Y", "one"], [layer + "_y"])]
        x = layer + "_y"
    nodes += [node("Concat", names, [state + "_of"], axis=0) for state, names in states.items()]
    nodes += [node("Transpose", [x], ["columns"], perm=[1, 2, 0]), node("Relu", ["columns"], ["columns_y"]),
              conv(numbers, weights, "columns_y", "decoded", 1, units, [1]), node("Sigmoid", ["decoded"], ["voice"]),
              node("ReduceMean", ["voice"], ["voice_mean"], axes=[2], keepdims=0)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
               for name, shape in (("voice_mean", [1, 1]), ("h_of", [2, 1, units]), ("c_of", [2, 1, units]))]
    return helper.make_graph(nodes, "rate", [], outputs, [numpy_helper.from_array(value, name) for name, value in weights.items()])


def detector(rng, units, sizes):
    """A graph with a branch for each of two rates; `sizes` are window, hop and samples of each."""
    numbers = lambda *shape: rng.normal(0, 1 / np.sqrt(max(1, np.prod(shape[1:]))), shape).astype(np.float32)
    node = helper.make_node
    branches = [spectrum(numbers, *size, units) for size in sizes]
    nodes = [node("Equal", ["sr", "rate"], ["is_fast"]),
             node("If", ["is_fast"], ["output", "hn", "cn"], then_branch=branches[0], else_branch=branches[1])]
    port = lambda name, shape, of=TensorProto.FLOAT: helper.make_tensor_value_info(name, of, shape)
    state = [2, 1, units]
    graph = helper.make_graph(
        nodes, "graph", [port("input", ["batch", "samples"]), port("sr", [], TensorProto.INT64), port("h", state), port("c", state)],
        [port("output", [1, 1]), port("hn", state), port("cn", state)], [numpy_helper.from_array(np.array(16000), "rate")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def loop(model, steps, states, constants):
    """The outputs of a model that is called for each step: stacked, and the last ones of the states, by the names of the inputs
    that they feed."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    shapes = {of.name: of.shape for of in session.get_inputs()}
    now = {name: np.zeros(shapes[name], np.float32) for name in states}
    rows = []
    for step in range(len(next(iter(steps.values())))):
        inputs = {name: value[step] for name, value in steps.items()} | now | constants
        rows.append(dict(zip(names, session.run(names, inputs))))
        now = {name: rows[-1][output] for name, output in states.items()}
    stacked = {name: np.stack([row[name] for row in rows]) for name in names if name not in states.values()}
    return stacked, {output: now[name] for name, output in states.items()}


def stream_cases():
    """Networks that step: their states are inputs and outputs of the graph."""
    rng = np.random.default_rng(4)
    numbers = lambda *shape: rng.normal(0, 0.4, shape).astype(np.float32)
    node, ints = helper.make_node, lambda *values: np.array(values, np.int64)

    model = detector(rng, 8, [(16, 8, 64), (16, 8, 48)])
    for rate, samples in ((16000, 64), (8000, 48)):
        steps, constants = {"input": numbers(12, 1, samples)}, {"sr": np.array(rate, np.int64)}
        outputs, last = loop(model, steps, {"h": "hn", "c": "cn"}, constants)
        yield f"spectrum_{rate}", model, steps | constants, outputs | last

    def caches():
        """Time convolutions over caches in one tensor, a shuffle, a GRU for each of 9 rows, transposed convolutions."""
        weights = {"zero": ints(0), "one": ints(1), "two": ints(2), "six": ints(6), "end": ints(99), "axis": ints(2), "slope": numbers(4, 1, 1),
                   "gain": numbers(4) + 1, "shift": numbers(4), "mean": numbers(4), "var": np.abs(numbers(4)) + 1, "shape": ints(1, 4, 1, 9),
                   "rows": np.array([[[0, c, t] for t in range(2)] for c in range(4)]).reshape(1, 4, 2, 3).astype(np.int64),
                   "later": np.array([[[0, c, t] for t in range(2, 6)] for c in range(4)]).reshape(1, 4, 4, 3).astype(np.int64),
                   "W": numbers(1, 12, 4), "R": numbers(1, 12, 4), "B": numbers(1, 24), "up": numbers(4, 2, 1, 5), "up_b": numbers(4),
                   "T": numbers(4, 1, 3, 3), "V": numbers(4, 3)}
        nodes = [conv(numbers, weights, "x", "e", 4, 1, [1, 3], strides=[1, 2], pads=[0, 1, 0, 1]), node("PRelu", ["e", "slope"], ["p"]),
                 node("Slice", ["cache", "zero", "two", "axis"], ["old"]), node("Concat", ["old", "p"], ["seen"], axis=2),
                 node("Slice", ["seen", "one", "end", "axis"], ["kept"]), node("ScatterND", ["cache", "rows", "kept"], ["cache1"]),
                 conv(numbers, weights, "seen", "d", 4, 1, [3, 3], pads=[0, 1, 0, 1], group=4),
                 node("BatchNormalization", ["d", "gain", "shift", "mean", "var"], ["n"]), node("Relu", ["n"], ["r"]),
                 node("Slice", ["r", "zero", "two", "one"], ["a"]), node("Slice", ["r", "two", "end", "one"], ["b"]),
                 node("Concat", ["a2", "b2"], ["ab"], axis=2), node("Unsqueeze", ["a", "two"], ["a2"]), node("Unsqueeze", ["b", "two"], ["b2"]),
                 node("Reshape", ["ab", "shape"], ["s"]),
                 node("Transpose", ["s"], ["rows_of"], perm=[2, 0, 3, 1]), node("Squeeze", ["rows_of", "one"], ["sequences"]),
                 node("GRU", ["sequences", "W", "R", "B", "", "memory"], ["Y", "memory_out"], hidden_size=4, linear_before_reset=1),
                 node("Transpose", ["Y"], ["yt"], perm=[1, 3, 0, 2]), node("Add", ["yt", "r"], ["residual"]),
                 node("Slice", ["cache1", "two", "six", "axis"], ["old2"]), node("Concat", ["old2", "residual"], ["seen2"], axis=2),
                 node("Slice", ["seen2", "one", "end", "axis"], ["kept2"]), node("ScatterND", ["cache1", "later", "kept2"], ["cache_out"]),
                 node("ConvTranspose", ["seen2", "T"], ["t"], pads=[4, 1, 4, 1], dilations=[2, 1], group=4, kernel_shape=[3, 3]),
                 node("ConvTranspose", ["t", "up", "up_b"], ["u"], strides=[1, 2], pads=[0, 2, 0, 2], group=2, kernel_shape=[1, 5]),
                 node("Transpose", ["u"], ["last"], perm=[0, 2, 3, 1]), node("MatMul", ["last", "V"], ["y"])]
        order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 11, *range(14, len(nodes))]
        return ([nodes[k] for k in order], {"x": numbers(12, 1, 1, 1, 17)}, {"cache": [1, 4, 6, 9], "memory": [1, 9, 4]},
                {"y": [1, 1, 17, 3], "cache_out": [1, 4, 6, 9], "memory_out": [1, 9, 4]}, weights,
                {"cache": "cache_out", "memory": "memory_out"}, ["cache_out"])

    def written():
        """A recurrent cell as operators that no layer has, whose state the caller feeds back."""
        weights = {"W": numbers(4, 6), "R": numbers(6, 6), "V": numbers(6, 3), "low": np.float32(-0.7), "high": np.float32(0.9), "tenth": np.float32(0.1)}
        nodes = [node("MatMul", ["x", "W"], ["a"]), node("MatMul", ["h", "R"], ["b"]), node("Add", ["a", "b"], ["s"]),
                 node("Clip", ["s", "low", "high"], ["h_out"]), node("Abs", ["h_out"], ["m"]), node("Add", ["m", "tenth"], ["over"]),
                 node("Reciprocal", ["over"], ["under"]), node("Div", ["h_out", "over"], ["q"]), node("Min", ["q", "under"], ["least"]),
                 node("MatMul", ["least", "V"], ["z"]), node("LogSoftmax", ["z"], ["y"], axis=-1)]
        return (nodes, {"x": numbers(12, 1, 4)}, {"h": [1, 6]}, {"y": [1, 3], "h_out": [1, 6]}, weights, {"h": "h_out"}, [])

    for make in (caches, written):
        nodes, steps, states, outputs, weights, pairs, inside = make()
        port = lambda items: [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in items]
        inputs = port([(name, value.shape[1:]) for name, value in steps.items()] + list(states.items()))
        graph = helper.make_graph(nodes, "graph", inputs, port(outputs.items()), [numpy_helper.from_array(value, name) for name, value in weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        stacked, last = loop(model, steps, pairs, {})
        yield make.__name__, model, steps, stacked | {name: value for name, value in last.items() if name not in inside}


def full_spectrum(arguments):
    """The detector in the size of Silero v4."""
    rng = np.random.default_rng(5)
    model = detector(rng, 64, [(256, 64, 512), (256, 64, 256)])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        onnx.save(model, path("model.onnx"))
        for branch, rate, samples in ((0, 16000, 512), (1, 8000, 256)):
            steps = {"input": rng.normal(0, 0.1, (200, 1, samples)).astype(np.float32)}
            expected, _ = loop(model, steps, {"h": "hn", "c": "cn"}, {"sr": np.array(rate, np.int64)})
            save_file(steps, path("in.safetensors"))
            shared = ["--bind", f"sr={rate}", "--shape", f"input=1,{samples}"]
            subprocess.run([arguments.tidegate, "run", path("model.onnx"), "--input", path("in.safetensors"), "--output", path("out.safetensors"),
                            *shared[:2]], check=True)
            subprocess.run([arguments.tidegate, "pack", path("model.onnx"), "--numeric", "f32", "-o", path("image.tgi"), *shared], check=True,
                           stdout=subprocess.DEVNULL)
            off = np.abs(load_file(path("out.safetensors"))["output"] - expected["output"]).max()
            tensors = model.graph.node[1].attribute[branch].g.initializer
            floats = sum(4 * int(np.prod(tensor.dims)) for tensor in tensors if tensor.data_type == TensorProto.FLOAT)
            part = os.path.getsize(path("image.tgi")) / floats
            print(f"{rate} Hz: {off:.1e} off, {os.path.getsize(path('image.tgi')):,} bytes, {part:.3f} times the {floats:,} of its weights")
            failed += not (off <= 1e-4 and part <= 1.3)
    return failed


def save(name, model, inputs, outputs, tolerance, source):
    onnx.save(model, os.path.join(FOLDER, name + ".onnx"))
    metadata = {"tolerance": str(tolerance), "source": source}
    for end, tensors in (("in", inputs), ("out", outputs)):
        tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
        save_file(tensors, os.path.join(FOLDER, f"{name}.{end}.safetensors"), metadata)


def difference(outputs, expected):
    """The largest difference, relative to the largest value if that exceeds 1; infinite if the shapes differ."""
    worst = 0.0
    for name, value in expected.items():
        if outputs[name].shape != value.shape or not np.isfinite(outputs[name]).all():
            return np.inf
        if value.size:
            worst = max(worst, float(np.abs(outputs[name] - value).max() / max(1.0, np.abs(value).max())))
    return worst


def check(arguments):
    rng = np.random.default_rng(arguments.seed)
    failed, worst = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        for k in range(arguments.count):
            model, inputs, expected = random_case(rng)
            onnx.save(model, path("model.onnx"))
            save_file(inputs, path("in.safetensors"))
            command = [arguments.tidegate, "run", path("model.onnx"), "--input", path("in.safetensors"), "--output", path("out.safetensors")]
            done = subprocess.run(command, capture_output=True, text=True)
            off = difference(load_file(path("out.safetensors")), expected) if done.returncode == 0 else np.inf
            worst = max(worst, off) if np.isfinite(off) else worst
            if not off <= TOLERANCE:
                failed += 1
                print(f"case {k}: {off:.1e} off {done.stderr.strip()}\n{helper.printable_node(model.graph.node[0])}")
                if arguments.keep:
                    onnx.save(model, f"{arguments.keep}/{k}.onnx")
                    save_file(inputs, f"{arguments.keep}/{k}.in.safetensors")
                    save_file(expected, f"{arguments.keep}/{k}.out.safetensors")
    print(f"seed {arguments.seed}: {arguments.count - failed} of {arguments.count} within {TOLERANCE}, worst {worst:.1e}")
    return failed


def write(_):
    os.makedirs(FOLDER, exist_ok=True)
    for name, model, inputs, outputs, tolerance in node_cases():
        save("node_" + name, model, inputs, outputs, tolerance, f"onnx {onnx.__version__}, node test {name}, Apache-2.0")
    for name, model, inputs, expected in network_cases():
        save("network_" + name, model, inputs, expected, TOLERANCE, f"onnxruntime {onnxruntime.__version__}")
    for name, model, inputs, expected in stream_cases():
        save("stream_" + name, model, inputs, expected, TOLERANCE, f"onnxruntime {onnxruntime.__version__}")
    rng = np.random.default_rng(SAMPLE_SEED)
    for k in range(SAMPLE):
        model, inputs, expected = random_case(rng)
        save(f"random_{k}", model, inputs, expected, TOLERANCE, f"onnxruntime {onnxruntime.__version__}, seed {SAMPLE_SEED}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("write").set_defaults(run=write)
    checks = commands.add_parser("check")
    checks.add_argument("--seed", type=int, default=1)
    checks.add_argument("--count", type=int, default=300)
    checks.add_argument("--tidegate", default="target/release/tidegate")
    checks.add_argument("--keep", help="folder for failing cases")
    checks.set_defaults(run=check)
    full = commands.add_parser("spectrum")
    full.add_argument("--tidegate", default="target/release/tidegate")
    full.set_defaults(run=full_spectrum)
    arguments = parser.parse_args()
    sys.exit(1 if arguments.run(arguments) else 0)


if __name__ == "__main__":
    main()
