"""A graph of ONNX in which values are rounded as in the integers of an image, at random: the reference for the difference
between the image and its graph.

The integers of an image round at these places (core/FORMAT.md). Let u be the unit of the result, q = 2^-15, p = 2^-12:

- A row over a matrix rounds its bias to half a unit of the finer sum, a shift to half a unit of the coarser sum and the
  product to half a unit of the result. A unit of either sum is at most half a unit of the result: together at most u, which is
  p before an activation with a table.
- Tables: 1.4 q for the sigmoid, 1.8 q for tanh. Their error depends on the argument, so it may have the same sign in each step.
- A product that loses fraction bits: half a unit of its result.
- The input: half its unit.
- Softmax: the exponent has 15 - lift fraction bits, where 2^lift ln 2 is at least the range of the arguments, which is a
  relative error of ln 2 · 2^(lift - 15); the powers and the quotient round to 2 q together.

Here each error is uniform between plus and minus these bounds, and those of tables are drawn once for each unit of a run. As
an error that is rounded away is not greater than its bound, the deviation of these graphs from the exact one is a conservative
measure of that of the image, step by step through the recurrence. Errors are small, so their effect is linear."""

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Q, P = 2.0**-15, 2.0**-12


class Errors:
    """Where errors come from during a run: the generator, and the units of the values of each layer."""

    draw = np.random.default_rng(0)
    units: dict = {}

    @classmethod
    def up_to(cls, bound, shape):
        return cls.draw.uniform(-bound, bound, shape)


def unit_of(op):
    """The unit of the output of the layer that an operator belongs to."""
    return Errors.units[op.onnx_node.name.rsplit("/", 1)[0]]


def sigmoid(x, table):
    return 1 / (1 + np.exp(-x)) + table


def steps(x, w, r, gates):
    """For each step the sums over the input, and the function of the state that gives the sums over it."""
    units = r.shape[2]
    over = x.astype(np.float64) @ w[0].T.astype(np.float64)
    return over, np.zeros((x.shape[1], units)), r[0].T.astype(np.float64), [slice(k * units, (k + 1) * units) for k in range(gates)]


class GRU(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b, hidden_size=None, linear_before_reset=0, **_):
        over, h, r, (z, s, n) = steps(x, w, r, 3)
        wide = h.shape
        wb, rb = np.split(b[0].astype(np.float64), 2)
        tables = [Errors.up_to(bound * Q, h.shape[1]) for bound in (1.4, 1.4, 1.8)]
        rows = []
        for a in over:
            def gate(part, state, own=wb):
                return a[:, part] + state @ r[:, part] + own[part] + Errors.up_to(P, wide)
            update, reset = sigmoid(gate(z, h), tables[0]), sigmoid(gate(s, h), tables[1])
            if linear_before_reset:
                product = reset * (h @ r[:, n] + rb[n] + Errors.up_to(P, wide)) + Errors.up_to(P / 2, wide)
                new = a[:, n] + wb[n] + Errors.up_to(P, wide) + product
            else:
                new = gate(n, reset * h + Errors.up_to(Q / 2, wide), wb + rb)
            h = update * h + (1 - update) * (np.tanh(new) + tables[2]) + Errors.up_to(Q / 2, wide)
            rows.append(h)
        return (np.stack(rows)[:, None].astype(np.float32),)


class LSTM(OpRun):
    op_domain = ""

    def _run(self, x, w, r, b, lens=None, h0=None, c0=None, peephole=None, hidden_size=None, **_):
        _, peak = self.steps(x, w, r, b, peephole, 0.0, 0.0)
        # The cell state has a power of two as its unit: 16 bits hold the range that the calibration has seen, which may be
        # twice that of this run.
        unit = 2.0 ** (np.ceil(np.log2(peak)) + 1) * Q
        return (self.steps(x, w, r, b, peephole, 1.0, unit)[0],)

    def steps(self, x, w, r, b, peephole, scale, unit):
        """The outputs, and the greatest cell state. `scale` multiplies every error but those of the cell state."""
        over, h, r, (i, o, f, g) = steps(x, w, r, 4)
        c, wide, peak = h.copy(), h.shape, 0.0
        b = np.sum(np.split(b[0].astype(np.float64), 2), axis=0)
        p = np.zeros((3, h.shape[1])) if peephole is None else peephole[0].reshape(3, -1).astype(np.float64)
        tables = [Errors.up_to(scale * bound * Q, h.shape[1]) for bound in (1.4, 1.4, 1.4, 1.8, 1.8)]
        # A peephole adds a product that is rounded.
        half = 0.0 if peephole is None else scale * P / 2
        rows = []
        for a in over:
            def gate(part, own=0.0):
                return a[:, part] + h @ r[:, part] + b[part] + own + Errors.up_to(scale * P, wide)
            enter = sigmoid(gate(i, p[0] * c + Errors.up_to(half, wide)), tables[0])
            keep = sigmoid(gate(f, p[2] * c + Errors.up_to(half, wide)), tables[1])
            # Both products are rounded to the unit of the cell state.
            c = keep * c + enter * (np.tanh(gate(g)) + tables[3]) + Errors.up_to(unit, wide)
            leave = sigmoid(gate(o, p[1] * c + Errors.up_to(half, wide)), tables[2])
            memory = np.tanh(c + Errors.up_to(scale * P / 2, wide)) + tables[4]
            h = leave * memory + Errors.up_to(scale * Q / 2, wide)
            rows.append(h)
            peak = max(peak, float(np.abs(c).max()))
        return np.stack(rows)[:, None].astype(np.float32), peak


class DequantizeLinear(OpRun):
    """That of version 17, which the evaluator lacks."""

    op_domain = ""

    def _run(self, x, scale, axis=1, **_):
        return (x.astype(np.float32) * scale.reshape([-1 if place == axis else 1 for place in range(x.ndim)]),)


class Add(OpRun):
    """The sums of a dense layer."""

    op_domain = ""

    def _run(self, a, b):
        return ((a + b + Errors.up_to(unit_of(self), a.shape)).astype(a.dtype),)


class Relu(OpRun):
    """The sums of a convolution with ReLU."""

    op_domain = ""

    def _run(self, x):
        return (np.maximum(x + Errors.up_to(unit_of(self), x.shape), 0).astype(x.dtype),)


class Softmax(OpRun):
    op_domain = ""

    def _run(self, x, axis=-1):
        x = x.astype(np.float64)
        lift = max(0.0, np.ceil(np.log2(np.ptp(x) / np.log(2))))
        e = np.exp(x - x.max(-1, keepdims=True)) * (1 + Errors.up_to(np.log(2) * 2.0**lift * Q, x.shape))
        return ((e / e.sum(-1, keepdims=True) + Errors.up_to(2 * Q, x.shape)).astype(np.float32),)


def scales(image, names):
    """The units of the values of an image, by the names of their nodes: its section 10."""
    content = image.to_bytes()
    for at in range(32, 32 + 16 * int.from_bytes(content[6:8], "little"), 16):
        start, length = (int.from_bytes(content[at + k : at + k + 4], "little") for k in (4, 8))
        if content[at] == 10:
            return dict(zip(names, np.frombuffer(content, "<f4", length // 4, start).tolist(), strict=True))
    raise AssertionError("an image in integers has scales")


def deviation(model, image, x, runs=8):
    """The standard deviation of what rounding does to each output, `[n, rows, classes]`."""
    exact = ReferenceEvaluator(model, new_ops=[DequantizeLinear]).run(None, {model.graph.input[0].name: x})[0]
    contents = image.inspect()
    Errors.draw = np.random.default_rng(1)
    Errors.units = scales(image, [layer["name"] for layer in contents["layers"]])
    noisy = ReferenceEvaluator(model, new_ops=[DequantizeLinear, GRU, LSTM, Add, Relu, Softmax])
    squares = []
    for _ in range(runs):
        rounded = x + Errors.up_to(contents["inputs"][0]["scale"] / 2, x.shape).astype(np.float32)
        squares.append(np.square(noisy.run(None, {model.graph.input[0].name: rounded})[0] - exact))
    return np.sqrt(np.mean(squares, axis=0))
