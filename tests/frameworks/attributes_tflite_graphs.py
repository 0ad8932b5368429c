"""Graphs with one operator of interest for attributes_tflite.py, in floats or in int8.

A function returns the content of a file. `options` are those of the operator, by their names in the schema, where they
differ from the function's own.
"""

from ai_edge_litert.schema_py_generated import BuiltinOperator
from tflite_graphs import NONE, depthwise_of, draw, filters_of

# Scales that let the integers reach 6.
SCALE, OUTPUT_SCALE = 0.06, 0.09


def activation(graph, name):
    x = graph.value([1, 8], 5, SCALE)
    scale, zero_point = dict(LOGISTIC=(1 / 256, -128), TANH=(1 / 128, 0)).get(name, (OUTPUT_SCALE, -20))
    return graph.content(x, graph.curve(x, name, scale, zero_point))


def with_options(graph, name, **options):
    """An activation that has options."""
    given = dict(LEAKY_RELU=dict(options="LeakyReluOptions", alpha=0.2), GELU=dict(options="GeluOptions", approximate=False))[name]
    x, y = graph.value([1, 8], 5, SCALE), graph.value([1, 8], -20, OUTPUT_SCALE)
    return graph.content(x, graph.operator(name, [x], [y], 2 if name == "LEAKY_RELU" else 1, **given | options))


def of_floats(graph, name, **options):
    """An activation without an integer form."""
    return with_options(graph, name, **options) if name == "GELU" else activation(graph, name)


def maximum(graph, name, **options):
    given = dict(keepDims=False) | options
    x = graph.value([1, 7, 5], 5, SCALE)
    y = graph.value([1, 1, 5] if given["keepDims"] else [1, 5], 5, SCALE)
    graph.operator(name, [x, graph.constant([1])], [y], 2, options="ReducerOptions", **given)
    return graph.content(x, y)


def by_constant(graph, name, **options):
    x, y = graph.value([1, 4, 5], 5, SCALE), graph.value([1, 4, 5], -20, OUTPUT_SCALE)
    by = graph.tensor([5], "i1", 0.03, -4, draw(graph.rng, [5]).astype("i1"))
    graph.operator(name, [x, by], [y], 2, **of_arithmetic(name, options))
    return graph.content(x, y)


def of_two(graph, name, **options):
    x, y = graph.value([1, 4, 5], 5, SCALE), graph.value([1, 4, 5], -20, OUTPUT_SCALE)
    graph.operator(name, [x, graph.curve(x, "TANH", 1 / 128, 0)], [y], 2, **of_arithmetic(name, options))
    return graph.content(x, y)


def of_arithmetic(name, options):
    return dict(options=f"{name.title()}Options", fusedActivationFunction=NONE) | options


def depthwise(graph, _, **options):
    """The shape of the output follows from the options."""
    given = dict(padding=0, strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1, depthMultiplier=1) | options
    x = graph.value([1, 7, 6, 2], 5, SCALE)
    y = depthwise_of(graph, x, [3, 2], padding=1)
    operator = graph.graph.operators[-1]
    for option, value in given.items():
        setattr(operator.builtinOptions, option, value)

    def length(size, kernel, stride, dilation):
        return -(-(size if given["padding"] == 0 else size - (kernel - 1) * dilation) // stride)

    height = length(7, 3, given["strideH"], given["dilationHFactor"])
    width = length(6, 2, given["strideW"], given["dilationWFactor"])
    graph.graph.tensors[y] = graph.graph.tensors.pop(graph.value([1, height, width, 2], -20, OUTPUT_SCALE))
    return graph.content(x, y)


def concatenation(graph, _, **options):
    given = dict(options="ConcatenationOptions", axis=3, fusedActivationFunction=NONE) | options
    shape = [1, 1, 1, 5]
    x = graph.value(shape, 5, SCALE)
    shape[given["axis"]] *= 2
    return graph.content(x, graph.operator("CONCATENATION", [x, x], [graph.value(shape, 5, SCALE)], 2, **given))


def pool(graph, name, **options):
    """The shape of the output follows from the options."""
    given = dict(padding=1, strideW=1, strideH=1, filterWidth=2, filterHeight=3, fusedActivationFunction=NONE) | options
    x = graph.value([1, 7, 6, 2], 5, SCALE)

    def length(size, kernel, stride):
        return -(-(size if given["padding"] == 0 else size - kernel + 1) // stride)

    shape = [length(7, given["filterHeight"], given["strideH"]), length(6, given["filterWidth"], given["strideW"])]
    y = graph.value([1, *shape, 2], 5, SCALE)
    return graph.content(x, graph.operator(name, [x], [y], 2, options="Pool2DOptions", **given))


def mean(graph, name, **options):
    given = dict(keepDims=False) | options
    x = graph.value([1, 4, 5], 5, SCALE)
    y = graph.value([1, 1, 5] if given["keepDims"] else [1, 5], -20, OUTPUT_SCALE)
    return graph.content(x, graph.operator(name, [x, graph.constant([1])], [y], 2, options="ReducerOptions", **given))


def pad(graph, name, **_):
    x, y = graph.value([1, 3, 4, 2], 5, SCALE), graph.value([1, 6, 4, 3], 5, SCALE)
    graph.operator(name, [x, graph.constant([[0, 0], [1, 2], [0, 0], [0, 1]])], [y], 2, options="PadOptions")
    return graph.content(x, y)


def one(graph, name, **options):
    """A value that is packed or unpacked alone."""
    x, given = graph.value([1, 1, 8]), dict(axis=0) | options
    more = dict(options="PackOptions", valuesCount=1) if name == "PACK" else dict(options="UnpackOptions", num=1)
    y = graph.value([1, 1, 1, 8] if name == "PACK" else [1, 8])
    graph.operator(name, [x], [y], **more | given)
    return graph.content(x, graph.curve(y, "TANH", None, None))


def operators(graph, name, of):
    """The operators of this name in a graph of the model."""
    codes = [code.builtinCode for code in graph.model.operatorCodes]
    return [found for found in of.operators if codes[found.opcodeIndex] == getattr(BuiltinOperator, name)]


def variables(graph, name, **options):
    """Three rings of three rows of two channels, a slice of one, and a variable that is read behind its assignment.

    The options are those of the first operator of this name, of the last VAR_HANDLE, and of the slice. `container` is
    that of a variable wherever it is named.
    """
    x = graph.value([1, 1, 1, 6], 5, SCALE)
    rings = [graph.ring(part, 3) for part in graph.split(x, [2, 2, 2], "SPLIT_V" if name == "SPLIT_V" else "SPLIT")]
    for handle, value in graph.behind:
        graph.operator("ASSIGN_VARIABLE", [handle, value], [])
    # Graph 1 does nothing, and graph 3 is graph 2.
    graph.model.subgraphs[1:] = [graph.subgraph(b"nothing"), graph.start, graph.start]
    operators(graph, "CALL_ONCE", graph.graph)[0].builtinOptions.initSubgraphIndex = 2
    handles = operators(graph, "VAR_HANDLE", graph.graph)
    first, other = [handle.builtinOptions.sharedName for handle in handles[:2]]
    read = graph.like(rings[0], 2)
    graph.operator("READ_VARIABLE", [graph.handle(first, graph.graph)], [read])
    part = graph.slice(rings[0], -2, 2)
    cut = graph.graph.operators[-1]
    if options.get("beginMask") == 15:
        graph.graph.tensors[part].shape[1] = 3
    outputs = [depthwise_of(graph, ring, [graph.shape(ring)[1], 1]) for ring in [*rings, part, read]]
    for output in outputs:
        graph.graph.tensors[output].quantization = graph.graph.tensors[outputs[0]].quantization
    y = graph.joined(outputs, 3)
    found = operators(graph, name, graph.graph)
    changed = [cut if name == "STRIDED_SLICE" else found[-1 if name == "VAR_HANDLE" else 0]]
    if "container" in options:
        handles = [handle for of in (graph.graph, graph.start) for handle in operators(graph, name, of)]
        changed = [handle for handle in handles if handle.builtinOptions.sharedName == first]
    if options.get("sharedName") == b"another":
        options["sharedName"] = other
    for operator in changed:
        for option, value in options.items():
            assert hasattr(operator.builtinOptions, option), option
            setattr(operator.builtinOptions, option, value)
    return graph.content(x, y)


def filters(graph, name, rank=1, **options):
    """Eight filters over time."""
    x = graph.value([1, 5], 5, SCALE)
    return graph.content(x, filters_of(graph, x, rank, 8, **options))


def part(graph, name):
    """Two of four rows."""
    x, y = graph.value([1, 4, 5], 5, SCALE), graph.value([1, 2, 5], 5, SCALE)
    graph.operator(name, [x, graph.constant([0, 1, 0]), graph.constant([1, 2, -1])], [y], 2, options="SliceOptions")
    return graph.content(x, y)
