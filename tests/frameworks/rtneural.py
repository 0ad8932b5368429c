#!/usr/bin/env python3
"""Writes random models in RTNeural's JSON and records RTNeural's outputs in double precision for random input.

    rtneural.py --rtneural DIR [--seed 1] OUTPUT

DIR is a source folder of RTNeural (in no package registry; the samples beside this file are from 1fb1f07, 2025-11-08).
Needs NumPy, safetensors and a C++17 compiler."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

STEPS = 24
# The number of models committed with seed 1.
RANDOM = 16

RUNNER = r"""
#include <RTNeural/RTNeural.h>
#include <cstdio>
#include <fstream>
#include <iostream>
int main(int, char** argv) {
    std::ifstream file(argv[1]);
    auto model = RTNeural::json_parser::parseJson<double>(file);
    model->reset();
    std::vector<double> x(model->getInSize());
    while (true) {
        for (auto& value : x) if (!(std::cin >> value)) return 0;
        model->forward(x.data());
        for (int i = 0; i < model->getOutSize(); ++i) std::printf("%.17g ", model->getOutputs()[i]);
        std::printf("\n");
    }
}
"""


class Model:
    """Layers over a frame of `features`, or of `features` in `channels`."""

    def __init__(self, random, features, channels=None):
        self.random, self.frame, self.layers = random, (features,) if channels is None else (features, channels), []
        self.in_shape = [None, None, *self.frame]

    def array(self, *shape, scale=None):
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 4
        values = self.random.normal(0, scale or 1 / np.sqrt(fan), shape)
        return values.astype(np.float32).astype(float).tolist()

    def add(self, kind, frame, weights, activation="", **more):
        self.layers.append({"type": kind, "activation": activation, "shape": [None, None, *frame], **more, "weights": weights})
        self.frame = tuple(frame)
        return self

    def dense(self, units, activation="", kind="dense", bias=True):
        return self.add(kind, [units], [self.array(self.frame[-1], units)] + ([self.array(units)] if bias else []), activation)

    def lstm(self, units):
        return self.add("lstm", [units], [self.array(self.frame[-1], 4 * units), self.array(units, 4 * units), self.array(4 * units)])

    def gru(self, units):
        weights = [self.array(self.frame[-1], 3 * units), self.array(units, 3 * units), self.array(2, 3 * units, scale=0.5)]
        return self.add("gru", [units], weights, "tanh")

    def conv1d(self, filters, taps, dilation=1, groups=1, activation=""):
        weights = [self.array(taps, self.frame[-1] // groups, filters), self.array(filters)]
        more = {"kernel_size": [taps], "dilation": [dilation]} | ({"groups": groups} if groups > 1 else {})
        return self.add("conv1d", [filters], weights, activation, **more)

    def conv2d(self, filters, time, taps, dilation=1, stride=1, padding="valid", activation=""):
        features, channels = self.frame
        out = -(-features // stride) if padding == "same" else -(-(features - taps + 1) // stride)
        more = {"kernel_size_time": time, "kernel_size_feature": taps, "dilation": dilation, "strides": stride,
                "num_filters_in": channels, "num_features_in": features, "num_filters_out": filters, "padding": padding}
        return self.add("conv2d", [out, filters], [self.array(time, taps, channels, filters), self.array(filters)], activation, **more)

    def batchnorm(self, affine=True):
        size = self.frame[-1]
        weights = [self.array(size), np.square(self.random.normal(0, 1, size).astype(np.float32)).astype(float).tolist()]
        if affine:
            weights = [self.array(size), self.array(size)] + weights
        two = len(self.frame) == 2
        more = {"num_filters_in": self.frame[1], "num_features_in": self.frame[0]} if two else {}
        return self.add("batchnorm2d" if two else "batchnorm", self.frame, weights, epsilon=0.01, **more)

    def prelu(self, one=False):
        return self.add("prelu", self.frame, [[self.array(1 if one else self.frame[-1])]])

    def activation(self, name):
        return self.add("activation", self.frame, [], name)


def models(random):
    """By name."""
    model = lambda *frame: Model(random, *frame)
    yield "lstm", model(1).lstm(20).dense(1)
    yield "gru", model(1).gru(8).dense(8, "sigmoid").dense(1)
    yield "full", model(1).dense(8, "tanh").conv1d(4, 3, 2, activation="tanh").gru(8).dense(1)
    yield "stacked", model(3).dense(8, "tanh", kind="time-distributed-dense").lstm(5).lstm(7).gru(6).dense(2)
    yield "convolutions", (model(2).conv1d(6, 5, activation="relu").batchnorm().prelu().conv1d(6, 1).conv1d(4, 3, 4, 2)
                           .batchnorm(affine=False).prelu(one=True).dense(3, "softmax"))
    yield "dense", (model(4).dense(8).activation("tanh").dense(8, bias=False).activation("relu").dense(5).activation("elu")
                    .dense(6, "elu").activation("softmax"))
    yield "images", (model(23, 1).conv2d(2, 5, 5, 2).batchnorm(affine=False).activation("relu")
                     .conv2d(3, 4, 3, 1, 2, "same").batchnorm().conv2d(1, 2, 3, 3))
    yield "strides", model(16, 2).conv2d(4, 1, 4, 1, 3, "same", "tanh").conv2d(2, 3, 2, 1, 2)
    for k in range(RANDOM):
        m = model(int(random.integers(1, 7)))
        for _ in range(random.integers(1, 6)):
            units = 2 * int(random.integers(1, 9))
            act = str(random.choice(["", "tanh", "relu", "sigmoid", "softmax", "elu"]))
            match random.integers(0, 7):
                case 0: m.dense(units, act, bias=bool(random.integers(2)))
                case 1: m.lstm(units)
                case 2: m.gru(units)
                case 3:
                    groups = 2 if m.frame[-1] % 2 == 0 and random.integers(2) else 1
                    m.conv1d(units, int(random.integers(1, 6)), int(random.integers(1, 5)), groups, act)
                case 4: m.batchnorm(bool(random.integers(2)))
                case 5: m.prelu(bool(random.integers(2)))
                case 6: m.activation(act or "tanh")
        yield f"random_{k}", m


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rtneural", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(given.seed)
    with tempfile.TemporaryDirectory() as work:
        source, program = Path(work) / "runner.cpp", Path(work) / "runner"
        source.write_text(RUNNER)
        subprocess.run(["c++", "-std=c++17", "-O1", "-DRTNEURAL_USE_STL=1", "-DRTNEURAL_NO_DEBUG=1", f"-I{given.rtneural}",
                        source, "-o", program], check=True)
        for name, model in models(random):
            file = given.output / f"{name}.json"
            file.write_text(json.dumps({"in_shape": model.in_shape, "layers": model.layers}) + "\n")
            size = int(np.prod(model.in_shape[2:]))
            x = random.uniform(-1, 1, (STEPS, size)).astype(np.float32)
            text = "\n".join(" ".join(f"{value:.17g}" for value in row) for row in x.astype(float))
            done = subprocess.run([program, file], input=text, capture_output=True, text=True, check=True)
            y = np.array([[float(value) for value in line.split()] for line in done.stdout.splitlines()], np.float32)
            assert y.shape == (STEPS, int(np.prod(model.frame))), (name, y.shape)
            save_file({"input": x, "output": y}, given.output / f"{name}.golden.safetensors", {"model": file.name})


if __name__ == "__main__":
    main()
