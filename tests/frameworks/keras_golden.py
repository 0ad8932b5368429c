"""What the scripts of the three Kerases share: chance, weights, and the files beside a model. Runs on Python 3.6.

For each model: NAME.h5, NAME.keras or NAME.weights.h5 as Keras writes it; NAME.json with the architecture where the file
has only weights (`--arch`); and NAME.golden.safetensors with `input`, `input_1`, ..., one row of features for each step,
`output`, `output_1`, ..., and in its metadata `model`, `arch` and `window`. Where the length of a sequence is known,
the input may be several sequences, one after the other.
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
    parser.add_argument("--only", help="models whose names have this in them")
    parser.add_argument("--sample", action="store_true", help="no more than what is in the repository")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = given.number
    os.makedirs(given.folder, exist_ok=True)
    return given


class Chance:
    """Sizes, choices and weights of one model; those of another do not depend on them."""

    def __init__(self, seed, name):
        self.rng = np.random.RandomState((seed * 1000003 + zlib.crc32(name.encode())) % (1 << 32))
        # Whether something recurrent may grow with every step: its weights are small then.
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
        """Of a recurrent layer's candidate."""
        name = self.pick("tanh", "tanh", "softsign", "sigmoid", "hard_sigmoid", "relu", "elu", "selu", "linear", "softplus")
        self.grows = self.grows or name in ("relu", "elu", "selu", "linear", "softplus")
        return name

    def gate(self):
        return self.pick("sigmoid", "hard_sigmoid", "sigmoid", "tanh")

    def weights(self, names, shapes):
        """Far from zero, so that no part of a network is dead; statistics as if it had been trained."""
        values = []
        for name, shape in zip(names, shapes):
            recurrent = "recurrent_kernel" in name or "_U" in name
            value = self.normal(shape, 0.1 if recurrent and self.grows else 0.5)
            if "variance" in name or "running_std" in name:
                value = np.abs(value) + 0.5
            values.append(value.astype(np.float32))
        return values


class Net:
    """A model and how it is run.

    inputs: makes the rows of an input of so many steps, for each input; sequences: how many, if their length is known;
    steps: of a sequence whose length is not known; prefixes: every step's output counts, each as that of a sequence
    which ends there; window: what a person has to say; arch: the architecture of a file of weights, "json" for Keras's
    own; native: a model with the same weights that computes what comes out.
    """

    def __init__(self, model, inputs=None, sequences=1, steps=None, prefixes=False, window=False, arch=None, mask=None,
                 native=None, compiled=False):
        self.model, self.inputs, self.sequences, self.steps = model, inputs, sequences, steps
        self.prefixes, self.window, self.arch, self.mask = prefixes, window, arch, mask
        self.native, self.compiled = native, compiled


def spread(layer, chance, shape):
    """For Kerases in which a model lists its weights in another order than the one in which it takes them."""
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
            # Steps that do not count: anywhere, also the first and the last ones.
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
    """What lies beside the model's own file."""
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
    """A safetensors file; the package does not install on the oldest Pythons."""
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
    """The models that are asked for, and at the end how long they took."""
    start, count = time.time(), 0
    for name, build in models.items():
        if (not given.only or given.only in name) and not (given.sample and name in outside):
            yield name, build
            count += 1
    print("%d models in %.0f s" % (count, time.time() - start))
