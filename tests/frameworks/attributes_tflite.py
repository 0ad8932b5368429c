"""Writes TFLite models with every option of the supported operators at other values, and records LiteRT's outputs.

    pip install -r tests/frameworks/tflite.requirements.txt
    python tests/frameworks/attributes_tflite.py           writes tests/frameworks/attributes/tflite.zip

The models are those of tests/frameworks/tflite, with one field of an operator's options changed. The fields are those of
the schema: one without a value here ends the script. A model that LiteRT does not run has no output: its import must fail.
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

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tflite")
# Operators, the sample that has them, and the values of their options.
OPS = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("float_last", dict(
        fusedActivationFunction=[1], cellClip=[0.01], projClip=[0.2], timeMajor=[True], asymmetricQuantizeInputs=[True],
        diagonalRecurrentTensors=[True])),
    "FULLY_CONNECTED": ("float_last", dict(
        fusedActivationFunction=[0, 1, 2, 3, 5], weightsFormat=[1], keepNumDims=[True], asymmetricQuantizeInputs=[True],
        quantizedBiasType=[4], quantSpec=[])),
    "STRIDED_SLICE": ("float_last", dict(
        # The sample takes the last step and removes its dimension.
        beginMask=[0], endMask=[7], ellipsisMask=[1], newAxisMask=[1], shrinkAxisMask=[], offset=[True])),
    "SOFTMAX": ("float_last", dict(beta=[0.5])),
    "CONV_2D": ("float_conv", dict(
        # These change the shapes of the tensors behind the operator; the samples in tests/frameworks/tflite have both.
        padding=[], strideW=[], strideH=[],
        fusedActivationFunction=[0, 2, 3], dilationWFactor=[3],
        dilationHFactor=[3], quantizedBiasType=[4])),
    "RESHAPE": ("float_conv_alone", dict(newShape=[[1, -1]])),
}


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


def computed(content, seed):
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    given, wanted = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    x = np.random.default_rng(seed).normal(0, 1, given["shape"]).astype("f4")
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    return dict(x=x, y=interpreter.get_tensor(wanted["index"]))


def telling(content):
    """The first seed whose input has another output than the seed before: a ReLU may hide what the layers before it do."""
    outputs = [computed(content, seed)["y"] for seed in range(100)]
    return next(seed for seed in range(1, 100) if np.abs(outputs[seed] - outputs[seed - 1]).min() > 0.02)


def run(content, seed):
    """Input and output, or nothing if LiteRT refuses the model or ends the process, a fork of this one."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        if os.fork() == 0:
            try:
                np.savez(file.name, **computed(content, seed))
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

    def add(op, attribute, value, content, seed, base=None):
        result = run(content, seed)
        x, output = result if result else (base, np.zeros(0, "f4"))
        file = "%d.tflite" % len(cases)
        files[file] = content
        rows = x.reshape(x.shape[1], -1)
        cases.append(dict(
            cls=op, attribute=attribute, value=repr(value), file=file, input=rows.tolist(),
            output=output.reshape(-1).astype("f4").tolist()))
        return x

    for op, (name, values) in sorted(OPS.items()):
        seed = telling(packed(opened(name)))
        x = add(op, "", None, packed(opened(name)), seed)
        for field in sorted(vars(options_of(opened(name), op))):
            if field not in values:
                sys.exit("%s has an option %s without a value in this script" % (op, field))
            for value in values[field]:
                model = opened(name)
                setattr(options_of(model, op), field, value)
                add(op, schema_name(field), value, packed(model), seed, x)
    write("tflite", "LiteRT %s" % version("ai-edge-litert"), cases, files)


main()
