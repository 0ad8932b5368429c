#!/usr/bin/env python3
"""Writes random WaveNets as files of Neural Amp Modeler, and records what NeuralAmpModelerCore makes of a sound.

    nam.py --nam DIR [--seed 1] OUTPUT

DIR is a source folder of NeuralAmpModelerCore (in no package registry; the samples beside this file are from daae2d0,
2026-08-09). Needs NumPy, safetensors, a C++20 compiler, and the headers of Eigen 3.4 and nlohmann-json 3.11 in
/usr/include. NAME.golden.safetensors has the tensors input and output."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

SAMPLES = 600

RUNNER = r"""
#include "NAM/get_dsp.h"
#include <cstdio>
#include <fstream>
#include <iostream>
int main(int, char** argv) {
    auto model = nam::get_dsp(std::filesystem::path(argv[1]));
    model->Reset(48000.0, 1);
    for (double x, y; std::cin >> x;) {
        double *in = &x, *out = &y;
        model->process(&in, &out, 1);
        std::printf("%.17g\n", y);
    }
}
"""


def stack(channels, head, kernel, dilations, **more):
    """A layer array as version 0.5 of the format has it."""
    return {
        "input_size": more.pop("input_size", 1),
        "condition_size": 1,
        "channels": channels,
        "head_size": head,
        "head_bias": more.pop("head_bias", False),
        "kernel_size": kernel,
        "dilations": dilations,
        "activation": more.pop("activation", "Tanh"),
        "gated": more.pop("gated", False),
        **more,
    }


def new_stack(channels, head, **more):
    """A layer array as version 0.7 of the format has it, with every layer's settings."""
    count = len(more["dilations"])
    film = {"active": False, "shift": True, "groups": 1}
    names = ["conv_pre", "conv_post", "input_mixin_pre", "input_mixin_post", "activation_pre", "activation_post"]
    return {
        "input_size": 1,
        "condition_size": 1,
        "channels": channels,
        "bottleneck": channels,
        "head": head,
        "head1x1": {"active": False, "out_channels": 1, "groups": 1},
        "layer1x1": {"active": True, "groups": 1},
        "groups_input": 1,
        "groups_input_mixin": 1,
        "gating_mode": ["none"] * count,
        "secondary_activation": [None] * count,
        "slimmable": None,
        **{f"{name}_film": film for name in names + ["layer1x1_post", "head1x1_post"]},
        **more,
    }


LEAKY = {"type": "LeakyReLU", "negative_slope": 0.02}

CASES = {
    "standard": [
        stack(4, 3, 3, [1, 2, 4, 8, 16]),
        stack(3, 1, 3, [1, 2, 4, 8, 16], input_size=4, head_bias=True),
    ],
    "gated": [stack(3, 1, 2, [1, 3, 9], gated=True, activation="Hardtanh", head_bias=True)],
    "kernels": [
        new_stack(
            3,
            {"out_channels": 1, "kernel_size": 5, "bias": True},
            kernel_sizes=[6, 4, 1],
            dilations=[1, 7, 5],
            activation=[LEAKY, "SiLU", {"type": "Softsign"}],
        )
    ],
    "bottleneck": [
        new_stack(
            4,
            {"out_channels": 2, "kernel_size": 1, "bias": True},
            bottleneck=2,
            head1x1={"active": True, "out_channels": 3, "groups": 1},
            kernel_sizes=[2, 3],
            dilations=[2, 5],
            activation="ReLU",
            gating_mode=["gated", "none"],
            secondary_activation=["Hardswish", None],
        ),
        stack(2, 1, 2, [4], input_size=4, head_bias=True),
    ],
    "passed_on": [
        new_stack(
            2,
            {"out_channels": 1, "kernel_size": 3, "bias": False, "head_dilation": 4},
            layer1x1={"active": False, "groups": 1},
            kernel_sizes=[2, 2],
            dilations=[1, 6],
            activation="Sigmoid",
            gating_mode="gated",
            secondary_activation="Sigmoid",
        )
    ],
    "behind": [stack(3, 2, 3, [1, 4])],
}
HEADS = {"behind": {"channels": 3, "out_channels": 1, "kernel_sizes": [3, 2], "activation": "Tanh"}}


def weights(stacks, head):
    """Number of weights."""
    count = 0
    for of in stacks:
        inner = of.get("bottleneck", of["channels"])
        count += of["channels"] * of["input_size"]
        layers = len(of["dilations"])
        kernels = of.get("kernel_sizes", [of.get("kernel_size")] * layers)
        modes = of.get("gating_mode", ["gated" if of.get("gated") else "none"] * layers)
        modes = [modes] * layers if isinstance(modes, str) else modes
        for kernel, mode in zip(kernels, modes):
            outputs = inner * (2 if mode == "gated" else 1)
            count += outputs * (of["channels"] * kernel + 1 + of["condition_size"])
            if of.get("layer1x1", {"active": True})["active"]:
                count += of["channels"] * (inner + 1)
            if of.get("head1x1", {"active": False})["active"]:
                count += of["head1x1"]["out_channels"] * (inner + 1)
        sums = of["head1x1"]["out_channels"] if of.get("head1x1", {"active": False})["active"] else inner
        new = of.get("head") or {"out_channels": of["head_size"], "kernel_size": 1, "bias": of["head_bias"]}
        count += new["out_channels"] * (sums * new["kernel_size"] + new["bias"])
    if head:
        size = (stacks[-1].get("head") or {}).get("out_channels") or stacks[-1]["head_size"]
        for at, kernel in enumerate(head["kernel_sizes"]):
            outputs = head["out_channels"] if at + 1 == len(head["kernel_sizes"]) else head["channels"]
            count += outputs * (size * kernel + 1)
            size = outputs
    return count + 1


def model(name, rng):
    stacks, head = CASES[name], HEADS.get(name)
    values = rng.uniform(-0.7, 0.7, weights(stacks, head)).astype(np.float32)
    values[-1] = 0.5
    config = {"layers": stacks, "head": head, "head_scale": 0.5}
    return {"version": "0.7.0", "architecture": "WaveNet", "config": config, "weights": values.tolist(), "sample_rate": 48000}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nam", required=True, type=Path)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("output", type=Path)
    options = arguments.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        source, runner = Path(folder) / "runner.cpp", Path(folder) / "runner"
        source.write_text(RUNNER)
        sources = sorted(options.nam.glob("NAM/*.cpp")) + sorted(options.nam.glob("NAM/*/*.cpp"))
        includes = [f"-I{options.nam}", "-I/usr/include/eigen3", "-I/usr/include/nlohmann"]
        subprocess.run(["c++", "-std=c++20", "-O1", *includes, source, *sources, "-o", runner], check=True)
        models = {name: model(name, rng) for name in CASES}
        parts = [{"max_value": 0.5, "model": models["gated"]}, {"max_value": 1.0, "model": models["kernels"]}]
        models["container"] = {
            "version": "0.7.0",
            "architecture": "SlimmableContainer",
            "config": {"submodels": parts},
            "weights": [],
            "sample_rate": 48000,
        }
        for name, of_name in models.items():
            path = options.output / f"{name}.nam"
            path.write_text(json.dumps(of_name) + "\n")
            x = rng.uniform(-1, 1, SAMPLES).astype(np.float32)
            x[:20] = 0.0
            text = "\n".join(repr(float(value)) for value in x)
            printed = subprocess.run([runner, path], input=text, text=True, check=True, capture_output=True).stdout
            y = np.array([float(line) for line in printed.split()], np.float32)
            assert y.shape == x.shape and np.abs(y).max() > 0.05, (name, y.shape, np.abs(y).max())
            save_file({"input": x, "output": y}, options.output / f"{name}.golden.safetensors")
            print(name, len(of_name["weights"]), np.abs(y).max())


if __name__ == "__main__":
    main()
