"""Shared by the scripts for the three versions of Keras: random choices, weights, and the files beside a model. Runs on
Python 3.6.

For each model: NAME.h5, NAME.keras or NAME.weights.h5 as Keras writes it; NAME.json with the architecture if the file
has only weights (`--arch`); and NAME.golden.safetensors with `input`, `input_1`, ..., one row of features for each
step, `output`, `output_1`, ..., and in its metadata `model`, `arch` and `window`. If the length of a sequence is known,
the input may be several concatenated sequences.
"""

import argparse
import json
import os
import struct
import time
import zlib

import numpy as np


def options(description):
    """The arguments of every script: FOLDER [SEED], or --seed."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("number", metavar="seed", type=int, nargs="?", default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", help="only models whose names contain this")
    parser.add_argument("--sample", action="store_true", help="only the models in the repository")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = given.number
    os.makedirs(given.folder, exist_ok=True)
    return given


class Chance:
    """Sizes, choices and weights of one model, independent of those of other models."""

    def __init__(self, seed, name):
        self.rng = np.random.RandomState((seed * 1000003 + zlib.crc32(name.encode())) % (1 << 32))
        # Whether recurrent values may grow with every step; the weights are small then.
        self.grows = False

    def size(self, low=2, high=9):
        return int(self.rng.randint(low, high + 1))

    def pick(self, *choices):
        return choices[int(self.rng.randint(len(choices)))]

    def flag(self):
        return bool(self.rng.randint(2))

    def normal(self, shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def activation(self):
        """Activation of a recurrent layer's candidate."""
        name = self.pick("tanh", "tanh", "softsign", "sigmoid", "hard_sigmoid", "relu", "elu", "selu", "linear", "softplus")
        self.grows = self.grows or name in ("relu", "elu", "selu", "linear", "softplus")
        return name

    def gate(self):
        return self.pick("sigmoid", "hard_sigmoid", "sigmoid", "tanh")

    def weights(self, names, shapes):
        """Random values far from zero, so that no part of a network is inactive, and statistics as after training."""
        values = []
        for name, shape in zip(names, shapes):
            recurrent = "recurrent_kernel" in name or "_U" in name
            value = self.normal(shape, 0.1 if recurrent and self.grows else 0.5)
            if "variance" in name or "running_std" in name:
                value = np.abs(value) + 0.5
            values.append(value.astype(np.float32))
        return values


class Net:
    """A model and how to run it.

    inputs: makes the rows of an input with a given number of steps, for each input. sequences: their number, if their
    length is known. steps: the length of a sequence whose length is not fixed. prefixes: the output of every step
    counts, as that of a sequence that ends there. window: the window length that the user must give. arch: the
    architecture of a weights file, "json" for Keras's own, "listed" for that of a file with a list of layers. native: a model with the same weights that computes the
    outputs.
    """

    def __init__(self, model, inputs=None, sequences=1, steps=None, prefixes=False, window=False, arch=None, mask=None,
                 native=None, compiled=False):
        self.model, self.inputs, self.sequences, self.steps = model, inputs, sequences, steps
        self.prefixes, self.window, self.arch, self.mask = prefixes, window, arch, mask
        self.native, self.compiled = native, compiled


def spread(layer, chance, shape):
    """Sets weights where a Keras lists a model's weights in another order than the one it accepts."""
    if getattr(layer, "layers", None):
        for inner in layer.layers:
            spread(inner, chance, shape)
    elif hasattr(layer, "set_weights"):
        layer.set_weights(chance.weights([w.name for w in layer.weights], [shape(w) for w in layer.weights]))


def rows(net, chance, shapes):
    """Inputs [steps, ...] for shapes [steps or None, ...] without the batch."""
    unknown = net.steps or chance.size(5, 12)
    made = []
    for shape in shapes:
        steps = net.sequences * shape[0] if shape and shape[0] else unknown
        full = [steps] + list(shape[1:])
        x = net.inputs(full) if net.inputs else chance.normal(full)
        if net.mask is not None:
            # Masked steps: anywhere, including the first and the last ones.
            x[chance.rng.uniform(size=steps) < 0.35] = net.mask
        made.append(np.asarray(x, np.float32))
    return made


def expected(net, inputs, shapes, predict):
    """All outputs, each [steps or sequences, ...]."""
    count = len(inputs[0])
    if net.prefixes:
        ranges = [(0, end) for end in range(1, count + 1)]
    elif shapes[0][0]:
        ranges = [(start, start + shapes[0][0]) for start in range(0, count, shapes[0][0])]
    else:
        ranges = [(0, count)]
    results = [predict([x[None, start:end] for x in inputs]) for start, end in ranges]
    return [np.concatenate([np.asarray(y, np.float32).reshape(-1) for y in port]) for port in zip(*results)]


def write(folder, name, file, net, inputs, outputs, versions, arch=None):
    """Writes the files beside the model's own file."""
    metadata = dict(versions, model=file)
    if arch is not None:
        metadata["arch"] = name + ".json"
        with open(os.path.join(folder, name + ".json"), "w") as out:
            json.dump(arch, out, indent=1)
            out.write("\n")
    if net.window:
        metadata["window"] = str(len(inputs[0]))
    tensors = {}
    for word, arrays in (("input", inputs), ("output", outputs)):
        for k, array in enumerate(arrays):
            tensors[word if k == 0 else "%s_%d" % (word, k)] = array.reshape(len(array), -1) if word == "input" else array
    assert all(np.isfinite(array).all() and np.abs(array).max() < 100 for array in outputs), name
    save_tensors(os.path.join(folder, name + ".golden.safetensors"), tensors, metadata)
    print("%s: %s -> %s" % (file, [list(x.shape) for x in inputs], [y.size for y in outputs]), flush=True)


def save_tensors(path, tensors, metadata):
    """Writes a safetensors file, because the package does not install on the oldest Python versions."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in sorted(tensors.items()):
        values = np.ascontiguousarray(array, "<f4").tobytes()
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def each(models, given, outside=()):
    """Iterates over the selected models, and prints the time at the end."""
    start, count = time.time(), 0
    for name, build in models.items():
        if (not given.only or given.only in name) and not (given.sample and name in outside):
            yield name, build
            count += 1
    print("%d models in %.0f s" % (count, time.time() - start))
