"""Writes TFLite models with every option of the supported operators at other values, and records LiteRT's outputs.

    pip install -r tests/frameworks/tflite.requirements.txt
    python tests/frameworks/attributes_tflite.py           writes tests/frameworks/attributes/tflite.zip

The models are those of tests/frameworks/tflite and the graphs of attributes_tflite_graphs.py, with one field of an
operator's options changed. The fields are those of the schema: one without a value here ends the script. A model that
LiteRT does not run has no output: its import must fail. Inputs and outputs of int8 are recorded as real values.
"""

import os
import sys
import tempfile
from importlib.metadata import version

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from attributes_file import write
from attributes_tflite_graphs import (
    activation, by_constant, concatenation, depthwise, filters, maximum, mean, of_floats, of_two, one, pad, part, pool, variables, with_options)
from tflite_graphs import Graph, Rings

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tflite")
# Operators, the sample that has them, and the values of their options.
OPS = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("float_last", dict(
        fusedActivationFunction=[0, 1, 2, 3, 5], cellClip=[0.01], projClip=[0.2], timeMajor=[True],
        asymmetricQuantizeInputs=[True], diagonalRecurrentTensors=[True])),
    "FULLY_CONNECTED": ("float_last", dict(
        fusedActivationFunction=[0, 1, 2, 3, 4, 5], weightsFormat=[1], keepNumDims=[True],
        asymmetricQuantizeInputs=[True], quantizedBiasType=[4], quantSpec=[])),
    "STRIDED_SLICE": ("float_last", dict(
        # The sample takes the last step and removes its dimension.
        beginMask=[0], endMask=[7], ellipsisMask=[1], newAxisMask=[1], shrinkAxisMask=[], offset=[True])),
    "SOFTMAX": ("float_last", dict(beta=[0.5])),
    "CONV_2D": ("float_conv", dict(
        # These change the shapes of the tensors behind the operator; the samples in tests/frameworks/tflite have both.
        padding=[], strideW=[], strideH=[],
        fusedActivationFunction=[0, 2, 3, 4, 5], dilationWFactor=[3],
        dilationHFactor=[3], quantizedBiasType=[4])),
    "RESHAPE": ("float_conv_alone", dict(newShape=[[1, -1]])),
    "WHILE": ("float_while_rnn", dict(condSubgraphIndex=[0, 2], bodySubgraphIndex=[0, 1])),
    "GATHER": ("float_words_pool", dict(axis=[1], batchDims=[1])),
}
FUSED = dict(fusedActivationFunction=[1, 2, 3, 4, 5])
POWERS_OF_TWO = dict(potScaleInt16=[False])
POOL = FUSED | dict(padding=[0], strideW=[2], strideH=[3], filterWidth=[3], filterHeight=[2])
# Functions of graphs in floats only.
FLOATS = (one, of_floats)
# Operators, what their row of the table says of them, the function that builds their graph, and the values of their
# options.
GRAPHS = [
    *[(name, "", activation, {}) for name in ("LOGISTIC", "TANH", "RELU", "RELU6", "HARD_SWISH")],
    ("MUL", "", by_constant, FUSED),
    ("ADD", "", by_constant, FUSED | POWERS_OF_TWO),
    ("SUB", "", by_constant, FUSED | POWERS_OF_TWO),
    ("MUL", "computed", of_two, FUSED),
    ("ADD", "computed", of_two, FUSED | POWERS_OF_TWO),
    ("SUB", "computed", of_two, FUSED | POWERS_OF_TWO),
    ("DEPTHWISE_CONV_2D", "", depthwise, FUSED | dict(
        padding=[1], strideW=[2], strideH=[3], depthMultiplier=[3], dilationWFactor=[2], dilationHFactor=[3])),
    ("AVERAGE_POOL_2D", "", pool, POOL),
    ("MAX_POOL_2D", "", pool, POOL),
    ("MEAN", "", mean, dict(keepDims=[True])),
    ("PAD", "", pad, {}),
    ("PACK", "", one, dict(axis=[1], valuesCount=[2])),
    ("UNPACK", "", one, dict(axis=[1], num=[2])),
    ("CONCATENATION", "", concatenation, FUSED | dict(axis=[-1, 2])),
    ("SPLIT", "", variables, dict(numSplits=[1, 4])),
    ("SPLIT_V", "", variables, dict(numSplits=[1, 4])),
    ("CONCATENATION", "variables", variables, FUSED | dict(axis=[-3])),
    ("STRIDED_SLICE", "variables", variables, dict(
        # A dimension less would be no input of the convolution behind it.
        beginMask=[15], endMask=[15], ellipsisMask=[2], newAxisMask=[1], shrinkAxisMask=[], offset=[True])),
    ("CALL_ONCE", "", variables, dict(initSubgraphIndex=[0, 3])),
    ("VAR_HANDLE", "", variables, dict(container=[b"c"], sharedName=[b"another", b""])),
    ("READ_VARIABLE", "", variables, {}),
    ("ASSIGN_VARIABLE", "", variables, {}),
    ("EXP", "", activation, {}),
    ("LEAKY_RELU", "", with_options, dict(alpha=[0.4])),
    ("ELU", "", of_floats, {}),
    ("GELU", "", of_floats, dict(approximate=[True])),
    ("REDUCE_MAX", "", maximum, dict(keepDims=[True])),
    ("SVDF", "", filters, dict(rank=[2], fusedActivationFunction=[0, 2, 3, 4, 5], asymmetricQuantizeInputs=[True])),
    ("SLICE", "", part, {}),
]
CALLS = 8


def opened(name):
    with open(os.path.join(FOLDER, name + ".tflite"), "rb") as file:
        return schema.ModelT.InitFromObj(schema.Model.GetRootAs(file.read(), 0))


def packed(model):
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def operator(model, name):
    number = getattr(schema.BuiltinOperator, name)
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    return next(op for op in model.subgraphs[0].operators if codes[op.opcodeIndex] == number)


def options_of(model, name):
    found = operator(model, name)
    if found.builtinOptions is None:
        assert name == "RESHAPE", name
        found.builtinOptions, found.builtinOptionsType = schema.ReshapeOptionsT(), schema.BuiltinOptions.ReshapeOptions
    return found.builtinOptions


def made_of(content):
    try:
        interpreter = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    except ValueError:
        # The reference kernels lack ELU.
        other = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(model_content=content, experimental_op_resolver_type=other)
    interpreter.allocate_tensors()
    return interpreter


def computed(content, seed, draw):
    """The input of each call and all outputs, as real values."""
    interpreter = made_of(content)
    given, wanted = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    x, y = draw(np.random.default_rng(seed), given), []
    for call in x:
        interpreter.set_tensor(given["index"], call)
        interpreter.invoke()
        y.append(real(interpreter.get_tensor(wanted["index"]), wanted))
    return dict(x=real(x, given), y=np.array(y))


def real(values, details):
    scale, zero_point = details["quantization"]
    return (values.astype("f4") - zero_point) * np.float32(scale) if values.dtype == np.int8 else values


def once(rng, details):
    if details["dtype"] == np.int32:
        # Words of the table of the samples.
        return rng.integers(0, 20, [1, *details["shape"]]).astype("i4")
    return rng.normal(0, 1, [1, *details["shape"]]).astype("f4")


def calls(rng, details):
    """Inputs whose outputs lie on both sides of every limit of a fused activation."""
    shape = [CALLS, *details["shape"]]
    if details["dtype"] == np.int8:
        return rng.integers(-128, 128, shape).astype("i1")
    return rng.normal(0, 4, shape).astype("f4")


def telling(content):
    """The first seed whose input has another output than the seed before: a ReLU may hide what the layers before it do."""
    outputs = [computed(content, seed, once)["y"] for seed in range(100)]
    return next(seed for seed in range(1, 100) if np.abs(outputs[seed] - outputs[seed - 1]).min() > 0.02)


def run(content, seed, draw):
    """Input and output, or nothing if LiteRT refuses the model or ends the process, a fork of this one."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        if os.fork() == 0:
            try:
                np.savez(file.name, **computed(content, seed, draw))
                os._exit(0)
            finally:
                os._exit(1)
        if os.wait()[1] != 0:
            return None
        found = np.load(file.name)
        return found["x"], found["y"]


def schema_name(field):
    """fusedActivationFunction -> fused_activation_function"""
    name = "".join("_" + c.lower() if c.isupper() else c for c in field)
    return name


def main():
    cases, files = [], {}

    def add(op, attribute, value, content, seed, draw=once, base=None):
        result = run(content, seed, draw)
        x, output = result if result else (base, np.zeros(0, "f4"))
        file = "%d.tflite" % len(cases)
        files[file] = content
        value = value.decode() if isinstance(value, bytes) else value
        cases.append(dict(
            cls=op, attribute=attribute, value=repr(value), file=file, input=x.reshape(len(x), -1).tolist(),
            output=output.reshape(-1).astype("f4").tolist()))
        return x

    def fields(op, found, values):
        """Options and values."""
        for field in sorted(vars(found)):
            if field not in values:
                sys.exit("%s has an option %s without a value in this script" % (op, field))
            yield from ((field, value) for value in values[field])

    for op, (name, values) in sorted(OPS.items()):
        seed = telling(packed(opened(name)))
        x = add(op, "", None, packed(opened(name)), seed)
        for field, value in fields(op, options_of(opened(name), op), values):
            model = opened(name)
            setattr(options_of(model, op), field, value)
            add(op, schema_name(field), value, packed(model), seed, base=x)

    def graph(op, function, floats, **options):
        rng = np.random.default_rng(1)
        return function(Rings(rng, "old", floats) if function is variables else Graph(rng, floats), op, **options)

    for op, kind, function, values in GRAPHS:
        for floats in (True,) if function in FLOATS else (True, False):
            kinds = ", ".join(filter(None, (kind, None if floats else "int8")))
            cls, content = f"{op} ({kinds})" if kinds else op, graph(op, function, floats)
            found = operator(schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0)), op).builtinOptions
            x = add(cls, "", None, content, 0, calls)
            for field, value in fields(op, found, values) if found else ():
                add(cls, schema_name(field), value, graph(op, function, floats, **{field: value}), 0, calls, x)
    write("tflite", "LiteRT %s" % version("ai-edge-litert"), cases, files)


main()
