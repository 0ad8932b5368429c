"""Weights, inputs and f64 outputs of a case, from a seed made of its name. All files of the case are written from them.

The gates are in the order of PyTorch and Tidegate: LSTM i f g o, GRU r z n (reset after the product).
"""

import zlib

import numpy as np
from safetensors.numpy import load_file

GATES = {"lstm": 4, "gru": 3}
EPSILON = 1e-5
# With a gain of 1 a normalized LSTM is chaotic: every f32 run diverges from f64.
RECURRENT_GAIN = 0.3
KEPT = 0.9


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class Network:
    """`layers[l][d]`: input_weights, recurrent_weights, input_bias, recurrent_bias, and gains if the network is normalized."""

    def __init__(self, case):
        self.case = case
        random = np.random.default_rng(zlib.crc32(case.name.encode()))
        rows, bound = GATES[case.cell] * case.hidden, case.hidden**-0.5
        uniform = lambda *shape: random.uniform(-bound, bound, shape).astype(np.float32)
        near = lambda value, size: (value * random.uniform(0.8, 1.2, size)).astype(np.float32)
        self.layers = []
        for layer in range(case.layers):
            features = case.input if layer == 0 else case.output
            self.layers.append([])
            for _ in range(case.directions):
                tensors = {
                    "input_weights": uniform(rows, features),
                    "recurrent_weights": uniform(rows, case.hidden),
                    "input_bias": uniform(rows),
                    "recurrent_bias": uniform(rows),
                }
                if case.normed:
                    tensors |= {"input_gain": near(1.0, rows), "recurrent_gain": near(RECURRENT_GAIN, rows),
                                "cell_gain": near(1.0, case.hidden), "cell_bias": uniform(case.hidden)}
                self.layers[-1].append(tensors)
        self.x = self._input(random)
        # Calibration data for integers, drawn like the input.
        self.calibration = self._input(random)
        shape = (case.time, case.batch, 1)
        self.mask = (random.random(shape) < KEPT).astype(np.float32) if case.masked else None

    def _input(self, random):
        case = self.case
        shape = (case.time, case.batch, case.input)
        if case.pixels:
            return (random.random(shape) * (random.random(shape) < 0.2)).astype(np.float32)
        return random.uniform(-1, 1, shape).astype(np.float32)

    def outputs(self):
        """`[time, batch, output]` in f64."""
        x = self.x.astype(np.float64)
        for layer in self.layers:
            sides = [self._layer(layer[0], x)]
            if self.case.bidirectional:
                sides.append(self._layer(layer[1], x[::-1])[::-1])
            x = np.concatenate(sides, axis=-1)
        return x

    def _layer(self, tensors, x):
        case = self.case
        t = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        cell = {"lstm": self._normed if case.normed else self._lstm, "gru": self._gru}[case.cell]
        h, c, all_h = np.zeros((x.shape[1], case.hidden)), np.zeros((x.shape[1], case.hidden)), []
        for step, x_t in enumerate(x):
            new_h, new_c = cell(t, x_t, h, c)
            if self.mask is not None:
                keep = self.mask[step] > 0
                new_h, new_c = np.where(keep, new_h, h), np.where(keep, new_c, c)
            h, c = new_h, new_c
            all_h.append(h)
        return np.stack(all_h)

    @staticmethod
    def _lstm(t, x, h, c):
        sums = x @ t["input_weights"].T + h @ t["recurrent_weights"].T + t["input_bias"] + t["recurrent_bias"]
        i, f, g, o = np.split(sums, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    @staticmethod
    def _normed(t, x, h, c):
        def norm(a):
            return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + EPSILON)

        sums = norm(x @ t["input_weights"].T) * t["input_gain"] + norm(h @ t["recurrent_weights"].T) * t["recurrent_gain"]
        i, f, g, o = np.split(sums + t["input_bias"] + t["recurrent_bias"], 4, axis=-1)
        c = norm(sigmoid(f) * c + sigmoid(i) * np.tanh(g)) * t["cell_gain"] + t["cell_bias"]
        return sigmoid(o) * np.tanh(c), c

    @staticmethod
    def _gru(t, x, h, c):
        from_x = x @ t["input_weights"].T + t["input_bias"]
        from_h = h @ t["recurrent_weights"].T + t["recurrent_bias"]
        (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3, axis=-1), np.split(from_h, 3, axis=-1)
        z = sigmoid(xz + hz)
        return z * h + (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn), c


class Deployed:
    """A network from its authors, with frames of a sound and the outputs that onnxruntime had for them."""

    def __init__(self, case, data):
        tensors = load_file(data / "deployed" / "reference.safetensors")
        self.case, self.path = case, data / "deployed" / case.file
        self.x, self.y = (tensors[name].reshape(case.time, 1, -1) for name in case.tensors)

    def outputs(self):
        """`[time, 1, output]`"""
        return self.y
