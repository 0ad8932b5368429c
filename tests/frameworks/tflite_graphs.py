"""Writes TFLite models of single operators and of variables, and records the outputs of LiteRT's interpreter.

    pip install -r tests/frameworks/tflite.requirements.txt
    python tests/frameworks/tflite_graphs.py write                     the files in tests/frameworks/tflite
    python tests/frameworks/tflite_graphs.py check --seed 1 --count 50 --tidegate target/release/tidegate

TensorFlow's converter makes such graphs only from whole networks, and chooses their scales. Here weights, scales, zero
points, shapes and inputs are drawn from a seed. Files, tensors and the kernels of the interpreter are those of
tflite_models.py. `check` generates other graphs and runs each through `tidegate run`; the integers must be
bit-identical.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from safetensors.numpy import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tflite")
SAMPLE_SEED = 5
TOLERANCE = 1e-5
TYPES = {"f4": schema.TensorType.FLOAT32, "i1": schema.TensorType.INT8, "u1": schema.TensorType.UINT8, "i2": schema.TensorType.INT16, "i4": schema.TensorType.INT32}
RESOURCE = schema.TensorType.RESOURCE
NONE, RELU = 0, 1


class Graph:
    """A model under construction. Tensors are numbered in the order in which they are added."""

    def __init__(self, rng, floats=False):
        self.rng, self.floats = rng, floats
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.operatorCodes, self.model.buffers, self.model.subgraphs = [], [schema.BufferT()], []
        self.graph = self.subgraph(b"main")

    def subgraph(self, name):
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators, graph.inputs, graph.outputs = name, [], [], [], []
        self.model.subgraphs.append(graph)
        return graph

    def tensor(self, shape, of="i1", scales=None, zero_point=0, data=None, dimension=0, graph=None):
        graph = graph or self.graph
        if self.floats and of != RESOURCE and (of == "i1" or scales is not None):
            data = data if data is None else (data / (64 if of == "i1" else 8000)).astype("f4")
            of, scales = "f4", None
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = list(shape), TYPES.get(of, of), 0
        tensor.name = b"%s_%d" % (graph.name, len(graph.tensors))
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        if scales is not None:
            scales = np.atleast_1d(scales)
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = [float(scale) for scale in scales]
            tensor.quantization.zeroPoint = [int(zero_point)] * len(scales)
            tensor.quantization.quantizedDimension = dimension
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def value(self, shape, zero_point=None, scale=None, of="i1"):
        """A computed tensor with random quantization."""
        scale = np.float32(self.rng.uniform(0.01, 0.05)) if scale is None else scale
        zero_point = int(self.rng.integers(-128, 128)) if zero_point is None else zero_point
        return self.tensor(shape, of, scale, zero_point)

    def constant(self, values, of="i4"):
        values = np.array(values, of)
        return self.tensor(values.shape, of, data=values)

    def shape(self, tensor):
        return list(self.graph.tensors[tensor].shape)

    def quantization(self, tensor):
        of = self.graph.tensors[tensor].quantization
        if of is None:
            return np.float32(1), 0
        return np.float32(of.scale[0]), of.zeroPoint[0]

    def operator(self, name, inputs, outputs, version=1, graph=None, **options):
        code = getattr(schema.BuiltinOperator, name)
        known = [of.builtinCode for of in self.model.operatorCodes]
        if code not in known:
            of = schema.OperatorCodeT()
            of.builtinCode, of.deprecatedBuiltinCode, of.version = code, min(code, 127), version
            self.model.operatorCodes.append(of)
            known.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = known.index(code), list(inputs), list(outputs)
        if options:
            name = options.pop("options")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = getattr(schema, f"{name}T")()
            for option, value in options.items():
                assert hasattr(operator.builtinOptions, option), option
                setattr(operator.builtinOptions, option, value)
        (graph or self.graph).operators.append(operator)
        return outputs[0] if outputs else None

    def content(self, input, output):
        self.graph.inputs, self.graph.outputs = [input], [output]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def curve(self, x, name, scale, zero_point):
        return self.operator(name, [x], [self.value(self.shape(x), zero_point, scale)])


def curve(rng, name, scale, zero_point):
    """A function of one value, for each of the 256 integers."""
    graph = Graph(rng)
    x = graph.value([1, 256], scale=np.float32(rng.uniform(0.005, 0.1)))
    return graph.content(x, graph.curve(x, name, scale, zero_point)), np.arange(-128, 128).reshape(1, 1, 256)


def depthwise(rng, **options):
    """A depthwise convolution over an image, with one scale for each filter."""
    graph, options = Graph(rng), dict(multiplier=1, stride=1, dilation=1, padding=0, fused=NONE) | options
    height, width, channels = (int(size) for size in rng.integers([4, 4, 1], [9, 9, 8]))
    x = graph.value([1, height, width, channels])
    return graph.content(x, depthwise_of(graph, x, kernel=rng.integers(1, 4, 2), **options)), draw(rng, [3, 1, height * width * channels])


def draw(rng, shape):
    return rng.integers(-128, 128, shape)


def depthwise_of(graph, x, kernel, multiplier=1, stride=1, dilation=1, padding=1, fused=NONE):
    rng, (_, height, width, channels) = graph.rng, graph.shape(x)
    filters, kernel = channels * multiplier, [int(size) for size in kernel]
    scales = rng.uniform(0.002, 0.02, filters).astype("f4")
    weights = graph.tensor([1, *kernel, filters], "i1", scales, 0, draw(rng, [1, *kernel, filters]).astype("i1"), 3)
    biases = graph.tensor([filters], "i4", graph.quantization(x)[0] * scales, 0, draw(rng, filters).astype("i4") * 40)
    placed = lambda size, k: -(-size // stride) if padding == 0 else (size - (k - 1) * dilation - 1) // stride + 1
    y = graph.value([1, placed(height, kernel[0]), placed(width, kernel[1]), filters])
    return graph.operator(
        "DEPTHWISE_CONV_2D", [x, weights, biases], [y], 3, options="DepthwiseConv2DOptions", padding=padding,
        strideW=stride, strideH=stride, depthMultiplier=multiplier, fusedActivationFunction=fused,
        dilationWFactor=dilation, dilationHFactor=dilation,
    )


def multiplier(scale):
    fraction, exponent = np.frexp(float(scale))
    return int(np.floor(fraction * 2**31 + 0.5)), int(exponent)


def requantized(x, scale):
    """TFLite's product with a scale, rounded twice."""
    factor, exponent = multiplier(scale)
    product = ((x << max(exponent, 0)) * factor + (1 << 30)) >> 31
    divisor = 1 << max(-exponent, 0)
    return np.sign(product) * ((np.abs(product) + divisor // 2) // divisor)


def requantized_once(x, scale):
    factor, exponent = multiplier(scale)
    return (x * factor + (1 << (30 - exponent))) >> (31 - exponent)


def telling(rng, name):
    """A product that another precision of its scales would change, or a sum that another rounding would."""
    while True:
        state = rng.bit_generator.state
        graph = Graph(rng)
        tensors, values = constant_of(graph, name, [1, 256, 5], [5])
        (a, zero_a), (b, zero_b), (c, zero_c) = (graph.quantization(tensor) for tensor in tensors)
        x, values = np.arange(-128, 128)[:, None] - zero_a, values.astype(int) - zero_b
        if name == "MUL":
            of = [requantized(x * values, quotient) for quotient in (a * b / c, float(a) * float(b) / float(c))]
        else:
            a, b, c = float(a), float(b), float(c)
            unit = 2 * max(a, b)
            terms = requantized(x << 20, a / unit) + requantized(values << 20, b / unit)
            of = [requantize(terms, unit / (2**20 * c)) for requantize in (requantized, requantized_once)]
        if np.any(np.diff([np.clip(one + zero_c, -128, 127) for one in of], axis=0)):
            rng.bit_generator.state = state
            return by_constant(rng, name, 5)


def by_constant(rng, name, channels, fused=NONE, first=False):
    """A product or sum with a constant for each channel, for each of the 256 integers."""
    graph = Graph(rng)
    (x, by, y), _ = constant_of(graph, name, [1, 256, channels], [channels] if channels > 1 else [])
    options = dict(MUL="MulOptions", ADD="AddOptions", SUB="SubOptions")[name]
    graph.operator(name, [by, x] if first else [x, by], [y], 2, options=options, fusedActivationFunction=fused)
    inputs = np.repeat(np.arange(-128, 128), channels)
    return graph.content(x, y), inputs.reshape(1, 1, -1)


def of_two(rng, name, fused=NONE):
    """A product, sum or difference of a value and its requantized self, for each of the 256 integers."""
    graph = Graph(rng)
    x = graph.value([1, 256], scale=np.float32(rng.uniform(0.01, 0.05)))
    other = graph.operator("QUANTIZE", [x], [graph.value([1, 256])], 2, options="QuantizeOptions")
    a, b = graph.quantization(x)[0], graph.quantization(other)[0]
    spread = a * b * rng.uniform(40, 200) if name == "MUL" else max(a, b) * rng.uniform(0.6, 2)
    y = graph.value([1, 256], scale=np.float32(spread))
    graph.operator(name, [x, other], [y], 2, options=f"{name.title()}Options", fusedActivationFunction=fused)
    return graph.content(x, y), np.arange(-128, 128).reshape(1, 1, 256)


def repeated(rng, name, of_rows):
    """Features times a factor for each row, or plus a row that is repeated."""
    graph = Graph(rng)
    rows, size = (int(size) for size in rng.integers(3, 8, 2))
    x = graph.value([1, rows, size])
    if of_rows:
        flat = graph.operator("RESHAPE", [x, graph.constant([1, rows * size])], [graph.value([1, rows * size], *graph.quantization(x)[::-1])],
                              newShape=[1, rows * size], options="ReshapeOptions")
        weights = graph.tensor([rows, rows * size], "i1", 0.01, 0, draw(rng, [rows, rows * size]).astype("i1"))
        factors = graph.operator("FULLY_CONNECTED", [flat, weights, -1], [graph.value([1, rows])], 4, options="FullyConnectedOptions")
        shape = [1, rows, 1]
        other = graph.operator("RESHAPE", [factors, graph.constant(shape)], [graph.value(shape, *graph.quantization(factors)[::-1])],
                               newShape=shape, options="ReshapeOptions")
    else:
        other = graph.operator("MEAN", [x, graph.constant([1])], [graph.value([1, 1, size])], 2, options="ReducerOptions", keepDims=True)
    a, b = graph.quantization(x)[0], graph.quantization(other)[0]
    y = graph.value([1, rows, size], scale=np.float32(100 * a * b if name == "MUL" else 2 * max(a, b)))
    graph.operator(name, [x, other], [y], 2, options=f"{name.title()}Options")
    return graph.content(x, y), levels(rng, graph, x, 40)


def telling_difference(rng):
    """A difference that changes if its second term is negated before it is rounded instead of after.

    The scales are those with ties: the second term times its scale is a whole number but for the last bits.
    """
    while True:
        least = 8 * (2 * int(rng.integers(0, 8)) + 1)
        product = int(rng.integers(least // 2 + 1, least))
        b, unit = np.float32(product / least + rng.integers(-4, 5) * 2.0**-24), 2.0
        graph = Graph(rng)
        x = graph.value([1, 256], 0, np.float32(1))
        # Its least value is -least, for many values of x.
        other = graph.operator("QUANTIZE", [x], [graph.value([1, 256], least - 128, b)], 2, options="QuantizeOptions")
        y = graph.value([1, 256], 0, np.float32(unit))
        graph.operator("SUB", [x, other], [y], 2, options="SubOptions", fusedActivationFunction=NONE)
        of_x = np.arange(-128, 128)
        of_other = np.maximum(requantized(of_x, 1 / float(b)), -least)
        first, second = requantized(of_x << 20, 1 / unit), requantized(of_other << 20, float(b) / unit)
        of = [requantized(first + term, 2.0**-20) for term in (-second, requantized(-of_other << 20, float(b) / unit))]
        if np.any(of[0] != of[1]):
            return graph.content(x, y), of_x.reshape(1, 1, 256)


def pool(rng, name, padding, stride=1, fused=NONE, floats=False):
    """A pool over an image, whose values are above and below zero."""
    graph = Graph(rng, floats)
    height, width, channels = (int(size) for size in rng.integers([4, 4, 1], [9, 9, 8]))
    kernel = [int(size) for size in rng.integers(2, 4, 2)]
    x = graph.value([1, height, width, channels])
    return graph.content(x, pool_of(graph, x, name, kernel, padding, stride, fused)), levels(rng, graph, x)


def pool_of(graph, x, name, kernel, padding=1, stride=1, fused=NONE):
    """The output has the quantization of the input, as the interpreter requires."""
    _, height, width, channels = graph.shape(x)
    placed = lambda size, k: -(-size // stride) if padding == 0 else (size - k) // stride + 1
    scale, zero_point = graph.quantization(x)
    y = graph.value([1, placed(height, kernel[0]), placed(width, kernel[1]), channels], zero_point, scale)
    return graph.operator(
        name, [x], [y], 2, options="Pool2DOptions", padding=padding, strideW=stride, strideH=stride,
        filterHeight=kernel[0], filterWidth=kernel[1], fusedActivationFunction=fused,
    )


def levels(rng, graph, x, count=12):
    """Inputs with noise around a level each, so that their means are many."""
    size = int(np.prod(graph.shape(x)))
    noise = draw(rng, [count, size]) // int(rng.integers(1, 5)) + draw(rng, [count, 1])
    values = np.clip(noise, -128, 127).reshape(count, 1, size)
    return values.astype("f4") / 64 if graph.floats else values


def mean(rng, rows, keep, other=True):
    """A mean over the rows of a sequence, or over the pixels of an image. Its output may have another quantization."""
    graph = Graph(rng)
    shape = [1, *(int(size) for size in rng.integers(3, 12, len(rows))), int(rng.integers(1, 8))]
    x = graph.value(shape)
    left = [1, *([1] * len(rows) if keep else []), shape[-1]]
    y = graph.value(left) if other else graph.value(left, graph.quantization(x)[1], graph.quantization(x)[0])
    graph.operator("MEAN", [x, graph.constant(rows)], [y], 2, options="ReducerOptions", keepDims=keep)
    return graph.content(x, y), levels(rng, graph, x, 40)


def leaky_relu(rng, alpha):
    """A leaky ReLU, for each of the 256 integers."""
    graph = Graph(rng)
    x, y = graph.value([1, 256]), graph.value([1, 256])
    graph.operator("LEAKY_RELU", [x], [y], 2, options="LeakyReluOptions", alpha=alpha)
    return graph.content(x, y), np.arange(-128, 128).reshape(1, 1, 256)


def maximum(rng, rows):
    """The maximum over the rows of a sequence."""
    graph = Graph(rng)
    x = graph.value([1, rows, 5])
    y = graph.value([1, 5], graph.quantization(x)[1], graph.quantization(x)[0])
    graph.operator("REDUCE_MAX", [x, graph.constant([1])], [y], 2, options="ReducerOptions", keepDims=False)
    return graph.content(x, y), draw(rng, [8, 1, rows * 5])


def part(rng, first, behind):
    """A part of the rows of a sequence, and its mean."""
    graph = Graph(rng)
    x = graph.value([1, 12, 5])
    y = graph.value([1, behind - first, 5], graph.quantization(x)[1], graph.quantization(x)[0])
    begin, end, strides = (graph.constant(list) for list in ([0, first, 0], [1, behind, 5], [1, 1, 1]))
    graph.operator("STRIDED_SLICE", [x, begin, end, strides], [y], 2, options="StridedSliceOptions")
    z = graph.value([1, 5])
    graph.operator("MEAN", [y, graph.constant([1])], [z], 2, options="ReducerOptions", keepDims=False)
    return graph.content(x, z), draw(rng, [8, 1, 60])


def part_of_rows(rng, floats=False):
    """Some features of each row, without the dimension in front of the rows."""
    graph = Graph(rng, floats)
    x = graph.value([1, 12, 5])
    y, z = (graph.value(shape, graph.quantization(x)[1], graph.quantization(x)[0]) for shape in ([12, 3], [1, 36]))
    begin, end, strides = (graph.constant(list) for list in ([0, 0, 1], [1, 12, 4], [1, 1, 1]))
    graph.operator("STRIDED_SLICE", [x, begin, end, strides], [y], 2, options="StridedSliceOptions", shrinkAxisMask=1)
    graph.operator("RESHAPE", [y, graph.constant([1, 36])], [z], options="ReshapeOptions", newShape=[1, 36])
    inputs = draw(rng, [8, 1, 60])
    return graph.content(x, graph.curve(z, "TANH", 1 / 128, 0)), inputs.astype("f4") / 64 if floats else inputs


def transposed(rng):
    """Some rows of a transposed matrix, and their mean."""
    graph = Graph(rng)
    x = graph.value([1, 6, 4])
    y, z = (graph.tensor(shape, "i1", *graph.quantization(x)) for shape in ([1, 4, 6], [1, 2, 6]))
    graph.operator("TRANSPOSE", [x, graph.constant([0, 2, 1])], [y], 2, options="TransposeOptions")
    graph.operator("SLICE", [y, graph.constant([0, 1, 0]), graph.constant([1, 2, -1])], [z], 2, options="SliceOptions")
    means = graph.value([1, 6])
    graph.operator("MEAN", [z, graph.constant([1])], [means], 2, options="ReducerOptions", keepDims=False)
    return graph.content(x, means), draw(rng, [8, 1, 24])


def padded(rng, behind, floats=False):
    """An image with zeros around it, and a layer that reads it."""
    graph = Graph(rng, floats)
    height, width, channels = (int(size) for size in rng.integers([4, 4, 1], [7, 7, 5]))
    x = graph.value([1, height, width, channels])
    around = [[0, 0], *([int(size) for size in rng.integers(0, 3, 2)] for _ in range(2)), [0, 0]]
    if behind == "MAX_POOL_2D":
        around[3] = [1, 2]
    shape = [size + sum(by) for size, by in zip(graph.shape(x), around)]
    y = graph.tensor(shape, "i1", *graph.quantization(x))
    graph.operator("PAD", [x, graph.constant(around)], [y], 2, options="PadOptions")
    y = pool_of(graph, y, behind, [2, 2]) if behind == "MAX_POOL_2D" else depthwise_of(graph, y, [3, 2], stride=2)
    return graph.content(x, y), levels(rng, graph, x)


def constant_of(graph, name, shape, constant):
    """A value, a constant and their result, and the integers of the constant."""
    rng = graph.rng
    x = graph.value(shape)
    values = draw(rng, constant).astype("i1")
    scale = np.float32(rng.uniform(0.01, 0.05))
    spread = {"MUL": graph.quantization(x)[0] * scale * rng.uniform(40, 200)}.get(name, scale * rng.uniform(0.6, 2))
    y = graph.value(shape, scale=np.float32(spread))
    by = graph.tensor(constant, "i1", scale, int(rng.integers(-128, 128)), values)
    return (x, by, y), values


def filters(rng, rank, floats=False):
    """Two layers of filters over time, whose state is a tensor, and a dense layer between them."""
    graph = Graph(rng, floats)
    features = int(rng.integers(3, 30))
    x = graph.value([1, features])
    y = filters_of(graph, x, rank)
    y = dense_of(graph, y, int(rng.integers(2, 9)))
    return graph.content(x, filters_of(graph, y, 1)), drawn(rng, [2, 24, features], floats)


def drawn(rng, shape, floats):
    return draw(rng, shape).astype("f4") / 64 if floats else draw(rng, shape)


def dense_of(graph, x, units):
    rng, (_, size) = graph.rng, graph.shape(x)
    scale = np.float32(rng.uniform(0.002, 0.01))
    weights = graph.tensor([units, size], "i1", scale, 0, draw(rng, [units, size]).astype("i1"))
    return graph.operator("FULLY_CONNECTED", [x, weights, -1], [graph.value([1, units])], 4, options="FullyConnectedOptions")


def filters_of(graph, x, rank, count=None, steps=None, **options):
    """The scales spread the results over 16 bits and the outputs over 8."""
    rng, (_, features) = graph.rng, graph.shape(x)
    units, memory = (int(size) for size in rng.integers([2, 1], [11, 13]))
    count, memory, of_x = count or units * rank, steps or memory, graph.quantization(x)[0]
    units = count // rank
    of_feature, of_time = (np.float32(scale) for scale in rng.uniform([0.002, 0.0001], [0.01, 0.001]))
    feature = graph.tensor([count, features], "i1", of_feature, 0, draw(rng, [count, features]).astype("i1"))
    weights = rng.integers(-2000, 2001, [count, memory]).astype("i2")
    time = graph.tensor([count, memory], "i2", of_time, 0, weights)
    of_state = np.float32(of_x * of_feature * np.sqrt(features) * rng.uniform(0.5, 4))
    state = graph.tensor([1, memory * count], "i2", of_state)
    graph.graph.tensors[state].isVariable = True
    bias = graph.tensor([units], "i4", of_state * of_time, 0, draw(rng, units).astype("i4") * 1000)
    y = graph.value([1, units], -128, np.float32(of_state * of_time * np.sqrt(memory * rank) * rng.uniform(5e4, 2e5)))
    options = dict(fusedActivationFunction=RELU) | options
    return graph.operator("SVDF", [x, feature, time, bias, state], [y], 3, options="SVDFOptions", rank=rank, **options)


class Rings(Graph):
    """A graph with variables, each of which holds the last rows of a stream."""

    def __init__(self, rng, form, floats=False):
        super().__init__(rng, floats)
        self.form, self.behind = form, []
        self.start = self.subgraph(b"NoOp")
        self.operator("CALL_ONCE", [], [], options="CallOnceOptions", initSubgraphIndex=1)

    def handle(self, name, graph):
        handle = self.tensor([], RESOURCE, graph=graph)
        return self.operator("VAR_HANDLE", [], [handle], graph=graph, options="VarHandleOptions", container=b"", sharedName=name)

    def like(self, x, rows):
        """A tensor with the quantization of `x` and this number of rows, for values that are only moved."""
        scale, zero_point = self.quantization(x)
        shape = self.shape(x)
        return self.tensor([shape[0], rows, *shape[2:]], "i1", scale, zero_point)

    def slice(self, x, first, rows):
        """`rows` rows from row `first` on, which counts from the end if it is negative."""
        end = [0, first + rows or 2**31 - 1, 0, 0]
        given = [self.constant(values) for values in ([0, first, 0, 0], end, [1, 1, 1, 1])]
        y = self.like(x, rows)
        return self.operator("STRIDED_SLICE", [x, *given], [y], 2, options="StridedSliceOptions", beginMask=13, endMask=13)

    def joined(self, parts, axis):
        shape = self.shape(parts[0])
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        y = self.tensor(shape, "i1", *self.quantization(parts[0]))
        return self.operator("CONCATENATION", parts, [y], 2, options="ConcatenationOptions", axis=axis, fusedActivationFunction=NONE)

    def ring(self, x, length):
        """The last `length` rows of `x`. The variable holds all of them, or all but the new ones."""
        new, name = self.shape(x)[1], b"v%d" % len(self.graph.tensors)
        rows = length if self.form == "all" else length - new
        shape = [1, rows, *self.shape(x)[2:]]
        zeros = np.full(shape, self.quantization(x)[1], "i1")
        self.operator("ASSIGN_VARIABLE", [self.handle(name, self.start), self.tensor(shape, data=zeros, graph=self.start)], [], graph=self.start)
        handle = self.handle(name, self.graph)
        old = self.operator("READ_VARIABLE", [handle], [self.like(x, rows)])
        if self.form == "all":
            old = self.slice(old, new, rows - new)
        y = self.joined([old, x], 1)
        self.behind.append((handle, y if self.form == "all" else self.slice(y, -rows, rows)))
        return y

    def conv(self, x, filters, fused=RELU):
        _, height, _, channels = self.shape(x)
        scales = self.rng.uniform(0.002, 0.01, filters).astype("f4")
        weights = self.tensor([filters, height, 1, channels], "i1", scales, 0, draw(self.rng, [filters, height, channels]).astype("i1"))
        biases = self.tensor([filters], "i4", self.quantization(x)[0] * scales, 0, draw(self.rng, filters).astype("i4") * 40)
        y = self.value([1, 1, 1, filters])
        return self.operator(
            "CONV_2D", [x, weights, biases], [y], 3, options="Conv2DOptions", padding=1, strideW=1, strideH=1,
            fusedActivationFunction=fused, dilationWFactor=1, dilationHFactor=1,
        )

    def split(self, x, sizes, name="SPLIT_V"):
        """Its channels in parts of these sizes, which are equal for SPLIT."""
        shape = self.shape(x)
        parts = [self.tensor([*shape[:3], size], "i1", *self.quantization(x)) for size in sizes]
        inputs = [self.constant(3), x] if name == "SPLIT" else [x, self.constant(sizes), self.constant(3)]
        options = dict(SPLIT="SplitOptions", SPLIT_V="SplitVOptions")[name]
        self.operator(name, inputs, parts, 2, options=options, numSplits=len(sizes))
        return parts

    def dense(self, x, units):
        size = int(np.prod(self.shape(x)))
        flat = self.tensor([1, size], "i1", *self.quantization(x))
        self.operator("RESHAPE", [x, self.constant([1, size])], [flat], options="ReshapeOptions", newShape=[1, size])
        scale = np.float32(self.rng.uniform(0.002, 0.01))
        weights = self.tensor([units, size], "i1", scale, 0, draw(self.rng, [units, size]).astype("i1"))
        biases = self.tensor([units], "i4", self.quantization(x)[0] * scale, 0, draw(self.rng, units).astype("i4") * 40)
        return self.operator("FULLY_CONNECTED", [flat, weights, biases], [self.value([1, units])], 4, options="FullyConnectedOptions")

    def finished(self, x, y):
        for handle, value in self.behind:
            self.operator("ASSIGN_VARIABLE", [handle, value], [])
        return self.content(x, y)


def rings(rng, form, new, floats=False, split="SPLIT_V"):
    """A streaming network of convolutions whose calls take `new` rows."""
    graph = Rings(rng, form, floats)
    features, filters, calls = (int(size) for size in rng.integers([2, 2, 8], [9, 6, 12]))
    input = graph.value([1, new, features])
    x = graph.tensor([1, new, 1, features], "i1", *graph.quantization(input))
    graph.operator("RESHAPE", [input, graph.constant([1, new, 1, features])], [x], options="ReshapeOptions", newShape=[1, new, 1, features])
    x = graph.conv(graph.ring(x, new + int(rng.integers(1, 4))), 2 * filters)
    ring = graph.ring(x, 5)
    one, other = graph.split(ring, [filters, filters], split)
    short = int(rng.integers(1, 5))
    one = depthwise_of(graph, graph.slice(one, -short, short), [short, 1])
    other = depthwise_of(graph, other, [5, 1])
    quantization = graph.graph.tensors[one].quantization
    graph.graph.tensors[other].quantization = quantization
    x = graph.conv(graph.joined([one, other], 3), filters)
    y = graph.dense(graph.ring(x, int(rng.integers(2, 5))), 3)
    if floats:
        return graph.finished(input, y), draw(rng, [3, calls, new * features]).astype("f4") / 64
    scale, zero_point = graph.quantization(y)
    output = graph.tensor(graph.shape(y), "u1", scale, zero_point + 128)
    graph.operator("QUANTIZE", [y], [output], 2, options="QuantizeOptions")
    return graph.finished(input, output), draw(rng, [3, calls, new * features])


def outer_product(rng):
    """A column times a row, both of which are repeated."""
    graph = Graph(rng, floats=True)
    x = graph.value([1, 16])
    factors = []
    for shape in ([1, 4, 1], [1, 1, 4]):
        weights = graph.tensor([4, 16], "i1", 0.03, 0, draw(rng, [4, 16]).astype("i1"))
        y = graph.operator("FULLY_CONNECTED", [x, weights, -1], [graph.value([1, 4])], options="FullyConnectedOptions")
        reshape = dict(newShape=shape, options="ReshapeOptions")
        factors.append(graph.operator("RESHAPE", [y, graph.constant(shape)], [graph.value(shape)], **reshape))
    return graph.content(x, graph.operator("MUL", factors, [graph.value([1, 4, 4])], options="MulOptions"))


def filters_of_one_state(rng):
    """Two layers of filters that keep their results in the same tensor."""
    graph = Graph(rng)
    x = graph.value([1, 8])
    y = filters_of(graph, filters_of(graph, x, 1, 8, 4), 1, 8, 4)
    first, second = graph.graph.operators
    second.inputs[4] = first.inputs[4]
    return graph.content(x, y)


def refused(rng, fault):
    """A graph with one variable that is no ring buffer, or is not initialized as one, or another graph that is refused."""
    if fault == "outer_product":
        return outer_product(rng)
    if fault == "filters_of_one_state":
        return filters_of_one_state(rng)
    graph = Rings(rng, "old")
    x = graph.value([1, 1, 1, 4])
    seen = graph.ring(x, 3)
    handle, value = graph.behind[0]
    call, start = graph.graph.operators[0].builtinOptions, graph.start
    if fault == "unassigned":
        graph.behind = []
    elif fault == "assigned_twice":
        graph.behind.append((handle, value))
    elif fault == "oldest_rows":
        graph.behind = [(handle, graph.slice(seen, 0, 2))]
    elif fault == "calls_itself":
        call.initSubgraphIndex = 0
    elif fault == "calls_nothing":
        call.initSubgraphIndex = 9
    elif fault == "uninitialized":
        start.operators = []
    elif fault == "initial_value":
        data = graph.model.buffers[start.tensors[start.operators[-1].inputs[1]].buffer]
        data.data = data.data ^ 1
    elif fault == "computed_initial_value":
        zeros = start.operators[-1].inputs[1]
        graph.operator("RELU", [zeros], [graph.tensor([1, 2, 1, 4], graph=start)], graph=start)
    elif fault == "state_of_a_cell":
        read = schema.BuiltinOperator.READ_VARIABLE
        codes = [of.builtinCode for of in graph.model.operatorCodes]
        seen = next(of.outputs[0] for of in graph.graph.operators if codes[of.opcodeIndex] == read)
    elif fault == "doubled":
        for _ in range(24):
            seen = graph.joined([seen, seen], 1)
        seen = graph.slice(seen, -3, 3)
    elif fault == "gap":
        seen = graph.joined([graph.slice(seen, 0, 1), graph.slice(seen, -1, 1)], 1)
    else:
        raise ValueError(fault)
    return graph.finished(x, graph.conv(seen, 2))


REFUSED = [
    "unassigned", "assigned_twice", "oldest_rows", "calls_itself", "calls_nothing", "uninitialized", "initial_value",
    "computed_initial_value", "state_of_a_cell", "gap", "doubled", "outer_product",
    "filters_of_one_state",
]

# By name: function and its arguments.
SAMPLE = [
    ("integer_logistic", curve, dict(name="LOGISTIC", scale=1 / 256, zero_point=-128)),
    ("integer_tanh", curve, dict(name="TANH", scale=1 / 128, zero_point=0)),
    ("integer_depthwise", depthwise, dict(padding=1, fused=RELU)),
    ("integer_depthwise_multiplier", depthwise, dict(multiplier=3)),
    ("integer_depthwise_strides", depthwise, dict(stride=2)),
    ("integer_depthwise_dilation", depthwise, dict(dilation=2, multiplier=2)),
    ("integer_multiply", by_constant, dict(name="MUL", channels=5)),
    ("integer_multiply_all", by_constant, dict(name="MUL", channels=1, fused=RELU, first=True)),
    ("integer_add", by_constant, dict(name="ADD", channels=5, fused=RELU)),
    ("integer_subtract", by_constant, dict(name="SUB", channels=3)),
    ("integer_rings", rings, dict(form="old", new=1)),
    ("integer_rings_of_3", rings, dict(form="old", new=3)),
    ("integer_rings_of_4", rings, dict(form="all", new=4)),
    ("integer_rings_of_all", rings, dict(form="all", new=1)),
    ("integer_multiply_precise", telling, dict(name="MUL")),
    ("float_rings", rings, dict(form="old", new=2, floats=True)),
    ("integer_add_precise", telling, dict(name="ADD")),
    ("integer_rings_of_halves", rings, dict(form="old", new=2, split="SPLIT")),
    ("integer_add_two", of_two, dict(name="ADD", fused=RELU)),
    ("integer_multiply_two", of_two, dict(name="MUL")),
    ("integer_subtract_two", of_two, dict(name="SUB", fused=RELU)),
    ("integer_subtract_precise", telling_difference, {}),
    ("integer_max_pool", pool, dict(name="MAX_POOL_2D", padding=0, stride=2, fused=RELU)),
    ("integer_average_pool", pool, dict(name="AVERAGE_POOL_2D", padding=0)),
    ("integer_average_pool_strides", pool, dict(name="AVERAGE_POOL_2D", padding=1, stride=2, fused=RELU)),
    ("integer_mean", mean, dict(rows=[1, 2], keep=False)),
    ("integer_mean_of_rows", mean, dict(rows=[1], keep=True, other=False)),
    ("integer_pad", padded, dict(behind="DEPTHWISE_CONV_2D")),
    ("integer_pad_channels", padded, dict(behind="MAX_POOL_2D")),
    ("float_pad", padded, dict(behind="DEPTHWISE_CONV_2D", floats=True)),
    ("float_pad_channels", padded, dict(behind="MAX_POOL_2D", floats=True)),
    ("integer_hard_swish", curve, dict(name="HARD_SWISH", scale=0.03, zero_point=-115)),
    ("integer_exp", curve, dict(name="EXP", scale=0.05, zero_point=-128)),
    ("integer_leaky_relu", leaky_relu, dict(alpha=0.3)),
    ("integer_maximum", maximum, dict(rows=9)),
    ("integer_part", part, dict(first=2, behind=9)),
    ("integer_part_of_rows", part_of_rows, {}),
    ("float_part_of_rows", part_of_rows, dict(floats=True)),
    ("integer_filters", filters, dict(rank=1)),
    ("integer_filters_of_rank_2", filters, dict(rank=2)),
    ("float_filters", filters, dict(rank=3, floats=True)),
    ("integer_transpose", transposed, {}),
    ("integer_multiply_rows", repeated, dict(name="MUL", of_rows=True)),
    ("integer_add_repeated", repeated, dict(name="ADD", of_rows=False)),
]


def outputs(content, inputs):
    """The outputs of each sequence of calls: [sequences, calls, ...]. Those of uint8 are less by 128."""
    rows = []
    for sequence in inputs:
        # Resetting the variables of an interpreter leaves out resource variables.
        made = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        made.allocate_tensors()
        source, target = made.get_input_details()[0], made.get_output_details()[0]
        for call in sequence:
            made.set_tensor(source["index"], call.reshape(source["shape"]).astype(source["dtype"]))
            made.invoke()
            row = made.get_tensor(target["index"]).ravel()
            rows.append((row.astype(int) - 128).astype(np.int8) if row.dtype == np.uint8 else row)
    rows = np.array(rows)
    return rows.reshape(len(inputs), -1, rows.shape[-1])


def case(rng, function, options):
    content, inputs = function(rng, **options)
    inputs = inputs if inputs.dtype == np.float32 else inputs.astype(np.int8)
    return content, inputs, outputs(content, inputs)


def write():
    for index, (name, function, options) in enumerate(SAMPLE):
        content, inputs, given = case(np.random.default_rng([SAMPLE_SEED, index]), function, options)
        with open(os.path.join(FOLDER, f"{name}.tflite"), "wb") as file:
            file.write(content)
        save_file({"input": np.ascontiguousarray(inputs)}, os.path.join(FOLDER, f"{name}.in.safetensors"))
        save_file({"output": np.ascontiguousarray(given)}, os.path.join(FOLDER, f"{name}.out.safetensors"))
        print(name, len(content), inputs.shape, given.shape, "values:", len(np.unique(given)))
    for index, fault in enumerate(REFUSED):
        with open(os.path.join(FOLDER, f"refused_{fault}.tflite"), "wb") as file:
            file.write(refused(np.random.default_rng([SAMPLE_SEED, index]), fault))


def check(seed, count, tidegate, only):
    values = 0
    sample = [of for of in SAMPLE if of[0].startswith(only)]
    for index in range(count):
        name, function, options = sample[index % len(sample)]
        content, inputs, given = case(np.random.default_rng([seed, index]), function, options)
        made = Interpreter(model_content=content)
        source, target = made.get_input_details()[0], made.get_output_details()[0]
        with tempfile.TemporaryDirectory() as folder:
            model, there, back = (os.path.join(folder, name) for name in ("x.tflite", "in.npy", "out.npy"))
            with open(model, "wb") as file:
                file.write(content)
            for sequence, expected in zip(inputs, given):
                # A step of a streaming model is a row of its input.
                streams = function in (rings, filters)
                np.save(there, sequence.reshape(-1, source["shape"][-1]) if streams else sequence)
                subprocess.run([tidegate, "run", model, "--input", there, "--output", back], check=True)
                got, values = np.load(back), values + expected.size
                if target["dtype"] == np.float32:
                    same = np.abs(got - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max())
                else:
                    scale, zero_point = target["quantization"]
                    middle = zero_point - 128 * (target["dtype"] == np.uint8)
                    same = np.array_equal(got, (expected.astype("f4") - middle) * np.float32(scale))
                if not same:
                    sys.exit(f"seed {seed}, {index} ({name}): {np.sum(got != expected)} of {got.size} differ")
    print(f"{count} models of seed {seed}, {values} values: integers the same, floats within {TOLERANCE}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write")
    checked = commands.add_parser("check")
    checked.add_argument("--seed", type=int, default=1)
    checked.add_argument("--count", type=int, default=20)
    checked.add_argument("--only", default="", help="only graphs whose names begin with this")
    checked.add_argument("--tidegate", required=True)
    given = parser.parse_args()
    if given.command == "write":
        write()
    else:
        check(given.seed, given.count, given.tidegate, given.only)
