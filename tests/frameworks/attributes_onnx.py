"""Writes ONNX graphs with every attribute of the supported operators at other values than the default, and records the
outputs of ONNX's reference evaluator or, where it lacks an operator's attribute, of ONNX Runtime.

    pip install -r tests/frameworks/onnx.requirements.txt
    python tests/frameworks/attributes_onnx.py              writes tests/frameworks/attributes/onnx.zip

The attributes are those of all versions of the operator from opset 7 on, as the package `onnx` lists them: one without a
value here ends the script. A constant result is added to the input, so that the graph has an output to compare.
"""

import sys
import zlib

import numpy as np
import onnx
import onnxruntime
from attributes_file import write
from onnx import TensorProto, defs, helper, numpy_helper

NEWEST = 21
F, I = TensorProto.FLOAT, TensorProto.INT64


def numbers(*shape):
    return np.random.default_rng(zlib.crc32(repr(shape).encode())).normal(0, 0.7, shape).astype("f4")


def ints(*values):
    return np.array(values, "i8")


SEQUENCE, STEP, COLUMN, IMAGE = (4, 1, 3), (2, 3), (3, 1), (1, 2, 6, 5)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(op, directions=1, **more):
    rows = GATES[op] * 2
    weights = {"W": numbers(directions, rows, 3), "R": numbers(directions, rows, 2), "B": numbers(directions, 2 * rows)}
    return dict(dict(shape=SEQUENCE, weights=weights), **more)


ALPHAS = dict(activations=["LeakyRelu", "HardSigmoid", "Tanh"], activation_alpha=[0.2, 0.3])
PERM = (2, 0, 1)
# Operator: base, and for each attribute the changes to the base: `given` are the node's attributes, `opset` its version,
# `weights` its constant inputs after X. `constant`: the operator has no other input than constants.
OPS = {
    "LSTM": (
        recurrent("LSTM", given=dict(hidden_size=2)),
        dict(
            activations=[dict(given=dict(activations=["Sigmoid", "Relu", "Tanh"]))],
            activation_alpha=[dict(given=dict(ALPHAS, activation_beta=[0.4]))],
            activation_beta=[dict(given=dict(activations=["HardSigmoid", "Tanh", "Tanh"], activation_alpha=[0.3], activation_beta=[0.1]))],
            clip=[dict(given=dict(clip=0.3))],
            direction=[dict(given=dict(direction="reverse")), recurrent("LSTM", 2, given=dict(direction="bidirectional"))],
            hidden_size=[dict(given=dict(hidden_size=3), wrong=True)],
            input_forget=[dict(given=dict(input_forget=1))],
            layout=[dict(given=dict(layout=1), shape=(1, 4, 3))],
        ),
    ),
    "GRU": (
        recurrent("GRU"),
        dict(
            activations=[dict(given=dict(activations=["Sigmoid", "Relu"]))],
            activation_alpha=[dict(given=dict(activations=["Sigmoid", "LeakyRelu"], activation_alpha=[0.3]))],
            activation_beta=[dict(given=dict(activations=["HardSigmoid", "Tanh"], activation_alpha=[0.3], activation_beta=[0.1]))],
            clip=[dict(given=dict(clip=0.3))],
            direction=[dict(given=dict(direction="reverse")), recurrent("GRU", 2, given=dict(direction="bidirectional"))],
            hidden_size=[dict(given=dict(hidden_size=3), wrong=True)],
            linear_before_reset=[dict(given=dict(linear_before_reset=1))],
            layout=[dict(given=dict(layout=1), shape=(1, 4, 3))],
        ),
    ),
    "RNN": (
        recurrent("RNN"),
        dict(
            activations=[dict(given=dict(activations=["Relu"]))],
            activation_alpha=[dict(given=dict(activations=["LeakyRelu"], activation_alpha=[0.3]))],
            activation_beta=[dict(given=dict(activations=["HardSigmoid"], activation_alpha=[0.3], activation_beta=[0.1]))],
            clip=[dict(given=dict(clip=0.3))],
            direction=[dict(given=dict(direction="reverse")), recurrent("RNN", 2, given=dict(direction="bidirectional"))],
            hidden_size=[dict(given=dict(hidden_size=3), wrong=True)],
            layout=[dict(given=dict(layout=1), shape=(1, 4, 3))],
        ),
    ),
    "Conv": (
        dict(shape=IMAGE, weights=dict(W=numbers(4, 2, 3, 2))),
        dict(
            auto_pad=[dict(given=dict(auto_pad=pad)) for pad in ("VALID", "SAME_UPPER", "SAME_LOWER")],
            dilations=[dict(given=dict(dilations=[2, 1]))], pads=[dict(given=dict(pads=[1, 0, 0, 1]))],
            strides=[dict(given=dict(strides=[2, 1]))], kernel_shape=[dict(given=dict(kernel_shape=[3, 2]))],
            group=[dict(given=dict(group=2), weights=dict(W=numbers(4, 1, 3, 2)))],
        ),
    ),
    "ConvTranspose": (
        dict(shape=IMAGE, weights=dict(W=numbers(2, 4, 3, 2))),
        dict(
            auto_pad=[dict(given=dict(auto_pad="VALID")), dict(given=dict(auto_pad="SAME_UPPER", strides=[2, 1]))],
            dilations=[dict(given=dict(dilations=[2, 1]))], pads=[dict(given=dict(pads=[1, 0, 2, 1]))],
            strides=[dict(given=dict(strides=[2, 3]))], kernel_shape=[dict(given=dict(kernel_shape=[3, 2]))],
            group=[dict(given=dict(group=2), weights=dict(W=numbers(2, 2, 3, 2)))],
            output_padding=[dict(given=dict(strides=[2, 1], output_padding=[1, 0]))],
            output_shape=[dict(given=dict(strides=[2, 1], output_shape=[14, 6]))],
        ),
    ),
    "MaxPool": (
        dict(shape=IMAGE, given=dict(kernel_shape=[3, 2])),
        dict(
            auto_pad=[dict(given=dict(kernel_shape=[3, 2], auto_pad=pad)) for pad in ("VALID", "SAME_UPPER", "SAME_LOWER")],
            ceil_mode=[dict(given=dict(kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1))],
            dilations=[dict(given=dict(kernel_shape=[3, 2], dilations=[2, 1]))],
            kernel_shape=[dict(given=dict(kernel_shape=[2, 2]))],
            pads=[dict(given=dict(kernel_shape=[3, 2], pads=[1, 0, 0, 1]))],
            storage_order=[dict(given=dict(kernel_shape=[3, 2], storage_order=1))],
            strides=[dict(given=dict(kernel_shape=[3, 2], strides=[2, 1]))],
        ),
    ),
    "AveragePool": (
        dict(shape=IMAGE, given=dict(kernel_shape=[3, 2])),
        dict(
            auto_pad=[dict(given=dict(kernel_shape=[3, 2], auto_pad=pad)) for pad in ("VALID", "SAME_UPPER", "SAME_LOWER")],
            ceil_mode=[dict(given=dict(kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1))],
            count_include_pad=[dict(given=dict(kernel_shape=[3, 2], pads=[1, 0, 0, 1], count_include_pad=1))],
            dilations=[dict(given=dict(kernel_shape=[3, 2], dilations=[2, 1]))],
            kernel_shape=[dict(given=dict(kernel_shape=[2, 2]))],
            pads=[dict(given=dict(kernel_shape=[3, 2], pads=[1, 0, 0, 1]))],
            strides=[dict(given=dict(kernel_shape=[3, 2], strides=[2, 1]))],
        ),
    ),
    "GlobalAveragePool": (dict(shape=IMAGE), {}),
    "GlobalMaxPool": (dict(shape=IMAGE), {}),
    "BatchNormalization": (
        dict(shape=(2, 3), weights=dict(s=numbers(3), b=numbers(3) + 1, m=numbers(3), v=np.abs(numbers(3)) + 0.5)),
        dict(
            epsilon=[dict(given=dict(epsilon=0.3))], momentum=[dict(given=dict(momentum=0.1))],
            spatial=[dict(given=dict(spatial=0), opset=8, wrong=True)],
            training_mode=[dict(given=dict(training_mode=1), wrong=True)],
        ),
    ),
    "LayerNormalization": (
        dict(shape=STEP, weights=dict(s=numbers(3), b=numbers(3))),
        dict(
            axis=[dict(given=dict(axis=0), weights=dict(s=numbers(2, 3), b=numbers(2, 3)))],
            epsilon=[dict(given=dict(epsilon=0.3))], stash_type=[dict(given=dict(stash_type=16), wrong=True)],
        ),
    ),
    "RMSNormalization": (
        dict(shape=STEP, weights=dict(s=numbers(3)), opset=23),
        dict(
            axis=[dict(given=dict(axis=0), weights=dict(s=numbers(2, 3)))],
            epsilon=[dict(given=dict(epsilon=0.3))], stash_type=[dict(given=dict(stash_type=16), wrong=True)],
        ),
    ),
    "Einsum": (
        dict(shape=STEP, weights=dict(W=numbers(3, 4)), given=dict(equation="ij,jk->ik")),
        dict(equation=[
            dict(given=dict(equation="ij,jk->ki")), dict(given=dict(equation="ij,kj->ik"), weights=dict(W=numbers(4, 3))),
        ]),
    ),
    "Gemm": (
        dict(shape=COLUMN, weights=dict(B=numbers(1, 4), C=numbers(4))),
        dict(
            alpha=[dict(given=dict(alpha=0.3))], beta=[dict(given=dict(beta=0.3))],
            transA=[dict(given=dict(transA=1), weights=dict(B=numbers(3, 4), C=numbers(4)))],
            transB=[dict(given=dict(transB=1), weights=dict(B=numbers(4, 1), C=numbers(4)))],
        ),
    ),
    "MatMul": (dict(shape=STEP, weights=dict(B=numbers(3, 4))), {}),
    "Softmax": (dict(shape=COLUMN), dict(axis=[dict(given=dict(axis=0)), dict(given=dict(axis=0), opset=11)])),
    "LogSoftmax": (dict(shape=COLUMN), dict(axis=[dict(given=dict(axis=0)), dict(given=dict(axis=0), opset=11)])),
    "InstanceNormalization": (
        dict(shape=(1, 3, 4), weights=dict(scale=numbers(3), B=numbers(3))), dict(epsilon=[dict(given=dict(epsilon=0.3))])),
    "PRelu": (dict(shape=STEP, weights=dict(slope=numbers(3))), {}),
    "ScatterND": (
        dict(shape=COLUMN, weights=dict(at=np.array([[1]], "i8"), new=numbers(1, 1))),
        dict(reduction=[dict(given=dict(reduction="add"), opset=18)]),
    ),
    "LeakyRelu": (dict(shape=STEP), dict(alpha=[dict(given=dict(alpha=0.3))])),
    "Elu": (dict(shape=STEP), dict(alpha=[dict(given=dict(alpha=0.3))])),
    "ThresholdedRelu": (dict(shape=STEP), dict(alpha=[dict(given=dict(alpha=0.3))])),
    "HardSigmoid": (dict(shape=STEP), dict(alpha=[dict(given=dict(alpha=0.3))], beta=[dict(given=dict(beta=0.1))])),
    "Selu": (dict(shape=STEP), dict(alpha=[dict(given=dict(alpha=0.3))], gamma=[dict(given=dict(gamma=0.3))])),
    "Gelu": (dict(shape=STEP), dict(approximate=[dict(given=dict(approximate="tanh"))])),
    "Clip": (
        dict(shape=STEP, weights=dict(a=np.float32(0), b=np.float32(6))),
        dict(
            min=[dict(given=dict(min=-1.0, max=1.0), opset=10, weights={}), dict(given=dict(min=-0.5), opset=10, weights={})],
            max=[dict(given=dict(min=0.0, max=1.0), opset=10, weights={}), dict(given=dict(max=0.5), opset=10, weights={})],
        ),
    ),
    "Transpose": (dict(shape=(2, 3, 4)), dict(perm=[dict(given=dict(perm=PERM))])),
    "Reshape": (dict(shape=STEP, weights=dict(to=ints(3, 2))), dict(allowzero=[dict(given=dict(allowzero=1))])),
    "Flatten": (dict(shape=(2, 3, 2)), dict(axis=[dict(given=dict(axis=2))])),
    "Squeeze": (dict(shape=(1, 2, 1)), dict(axes=[dict(given=dict(axes=[0]), opset=11)])),
    "Unsqueeze": (dict(shape=STEP, weights=dict(axes=ints(0))), dict(axes=[dict(given=dict(axes=[2]), opset=11, weights={})])),
    "Concat": (dict(shape=STEP, reads=2, given=dict(axis=1)), dict(axis=[dict(given=dict(axis=0))])),
    "Split": (
        dict(shape=(4, 6), outputs=2, given=dict(num_outputs=2)),
        dict(
            axis=[dict(given=dict(axis=1, num_outputs=2))], num_outputs=[dict(given=dict(num_outputs=3), outputs=3)],
            split=[dict(given=dict(split=[1, 3]), opset=11)],
        ),
    ),
    "Slice": (
        dict(shape=(4, 6), weights=dict(starts=ints(1), ends=ints(3))),
        dict(
            starts=[dict(given=dict(starts=[0], ends=[3]), opset=9, weights={})],
            ends=[dict(given=dict(starts=[1], ends=[4]), opset=9, weights={})],
            axes=[dict(given=dict(starts=[1], ends=[3], axes=[1]), opset=9, weights={})],
        ),
    ),
    "Gather": (dict(shape=(3, 3), weights=dict(at=ints(2, 0))), dict(axis=[dict(given=dict(axis=1))])),
    "Pad": (
        dict(shape=(3, 3), weights=dict(pads=ints(0, 1, 1, 0))),
        dict(
            mode=[dict(given=dict(mode=mode)) for mode in ("reflect", "edge", "wrap")],
            pads=[dict(given=dict(pads=[1, 0, 0, 0]), opset=10, weights={})],
            value=[dict(given=dict(pads=[0, 1, 1, 0], value=0.5), opset=10, weights={})],
        ),
    ),
    "Cast": (dict(shape=STEP, given=dict(to=F)), dict(
        to=[dict(given=dict(to=TensorProto.DOUBLE), cast=True), dict(given=dict(to=I), cast=True)],
        saturate=[dict(given=dict(to=F, saturate=0))], round_mode=[dict(given=dict(to=F, round_mode="nearest"), opset=24)])),
    "Dropout": (dict(shape=STEP, opset=11), dict(ratio=[dict(given=dict(ratio=0.9), opset=11)], seed=[dict(given=dict(seed=3), opset=13)])),
    "Identity": (dict(shape=STEP), {}),
    "Expand": (dict(shape=(1, 3), weights=dict(to=ints(2, 3))), {}),
    "ReverseSequence": (
        dict(shape=SEQUENCE, weights=dict(lens=ints(4))),
        dict(
            batch_axis=[dict(given=dict(batch_axis=2), weights=dict(lens=ints(4, 4, 4)))],
            time_axis=[dict(given=dict(time_axis=1, batch_axis=0), shape=(1, 4, 3))],
        ),
    ),
    "Tile": (dict(shape=STEP, weights=dict(times=ints(1, 2))), {}),
    "Shape": (dict(constant=[("X", None)], add=(1, 2)), dict(start=[dict(given=dict(start=1))], end=[dict(given=dict(end=1))])),
    "Mod": (
        dict(constant=[("a", ints(-7, 7)), ("b", ints(3, -3))], add=(2,)),
        dict(fmod=[dict(given=dict(fmod=1)), dict(given=dict(fmod=1), constant=[("a", numbers(2)), ("b", numbers(2) + 2)])]),
    ),
    "ConstantOfShape": (dict(constant=[("to", ints(2))], add=(2,)), dict(
        value=[dict(given=dict(value=helper.make_tensor("v", F, [1], [0.5])))])),
    "Constant": (
        dict(constant=[], add=(1,), given=dict(value=helper.make_tensor("v", F, [1], [0.5]))),
        dict(
            value=[dict(given=dict(value=helper.make_tensor("v", F, [1], [0.25])))], value_float=[dict(given=dict(value_float=0.25))],
            value_floats=[dict(given=dict(value_floats=[0.25]))], value_int=[dict(given=dict(value_int=3))],
            value_ints=[dict(given=dict(value_ints=[3]))], sparse_value=[], value_string=[dict(given=dict(value_string="x"), wrong=True)],
            value_strings=[dict(given=dict(value_strings=["x"]), wrong=True)],
        ),
    ),
    "If": (None, {}),
}
for name in ("ReduceMean", "ReduceSum", "ReduceMax"):
    early = 11 if name == "ReduceSum" else 17
    OPS[name] = (
        dict(shape=COLUMN, weights=dict(axes=ints(1))),
        dict(
            axes=[dict(given=dict(axes=[0]), opset=early, weights={})], keepdims=[dict(given=dict(keepdims=0))],
            noop_with_empty_axes=[dict(given=dict(noop_with_empty_axes=1), weights={})],
        ),
    )
for name in ("Abs", "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Exp", "Neg", "HardSwish", "Mish"):
    OPS[name] = (dict(shape=STEP), {})
for name in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    OPS[name] = (dict(shape=STEP, weights=dict(B=np.abs(numbers(3)) + 0.1 if name != "Max" else np.zeros(3, "f4"))), {})
OPS["Pow"] = (dict(shape=STEP, weights=dict(B=np.float32(2))), {})
for name in ("Equal", "Less", "Greater", "GreaterOrEqual", "LessOrEqual"):
    OPS[name] = (dict(constant=[("a", numbers(2)), ("b", numbers(2, 1)[:, 0])], add=(2,)), {})
OPS["Not"] = (dict(constant=[("a", np.array([True, False]))], add=(2,)), {})
OPS["And"] = OPS["Or"] = (dict(constant=[("a", np.array([True, False])), ("b", np.array([True, True]))], add=(2,)), {})
OPS["Where"] = (dict(constant=[("a", np.array([True, False])), ("b", numbers(2)), ("c", numbers(2) + 1)], add=(2,)), {})
OPS["Range"] = (dict(constant=[("a", np.int64(1)), ("b", np.int64(3)), ("c", np.int64(1))], add=(2,)), dict(
    stash_type=[dict(given=dict(stash_type=1), wrong=True)]))
OPS["Size"] = (dict(constant=[("X", None)], add=(2,)), {})
for name in ("Log", "Sqrt", "Reciprocal"):
    OPS[name] = (dict(constant=[("a", np.abs(numbers(2)) + 0.5)], add=(2,)), {})
OPS["ReduceProd"] = OPS["ReduceMin"] = (
    dict(constant=[("a", ints(2, 3))], add=(1,)),
    dict(
        axes=[dict(given=dict(axes=[0]), opset=17)], keepdims=[dict(given=dict(keepdims=0))],
        noop_with_empty_axes=[dict(given=dict(noop_with_empty_axes=1), add=(2,))],
    ),
)
# Attributes of no version of the operator, which must be refused.
UNKNOWN = "unheard_of"


def schema_attributes(op):
    found = set()
    for schema in defs.get_all_schemas_with_history():
        if schema.name == op and schema.domain == "" and not schema.deprecated:
            later = [s.since_version for s in defs.get_all_schemas_with_history()
                     if s.name == op and s.domain == "" and s.since_version > schema.since_version]
            if not later or min(later) > 7:
                found |= set(schema.attributes)
    return sorted(found)


def model_of(op, base, change):
    of = dict(dict(given={}, weights={}, outputs=1, reads=1, opset=NEWEST), **base)
    of.update(change)
    if op in GATES:
        # ONNX Runtime needs the attribute.
        of["given"] = dict(dict(hidden_size=2), **of["given"])
    weights = dict(of["weights"])
    if "constant" in of:
        shape = of["add"]
        names = [name for name, _ in of["constant"]]
        weights = {name: value for name, value in of["constant"] if value is not None}
        nodes = [helper.make_node(op, names, ["made"], **of["given"]), helper.make_node("Cast", ["made"], ["cast"], to=F),
                 helper.make_node("Add", ["X", "cast"], ["sum"])]
    else:
        shape = of["shape"]
        outputs = ["made"] + ["made%d" % k for k in range(1, of["outputs"])]
        nodes = [helper.make_node(op, ["X"] * of["reads"] + list(weights), outputs, **of["given"])]
        if of.get("cast"):
            nodes.append(helper.make_node("Cast", ["made"], ["cast"], to=F))
    # A graph without layers is not a model.
    nodes.append(helper.make_node("Tanh", [nodes[-1].output[0]], ["Y"]))
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    value = lambda name, shape: helper.make_tensor_value_info(name, F, shape)
    graph = helper.make_graph(nodes, "graph", [value("X", shape)], [value("Y", None)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", of["opset"])], ir_version=8), shape


def computed(model, given):
    """The output by the reference evaluator or, where it fails, by ONNX Runtime."""
    from onnx.reference import ReferenceEvaluator

    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(["Y"], {"X": given})[0]
    except Exception as error:
        print("ONNX Runtime refuses it:", str(error)[:150])
        return ReferenceEvaluator(model).run(["Y"], {"X": given})[0]


def main():
    cases, files = [], {}
    for op, (base, changes) in sorted(OPS.items()):
        if base is None:
            continue
        for attribute in schema_attributes(op):
            if attribute not in changes and not (op == "Concat" and attribute == "axis"):
                sys.exit("%s has an attribute %s without a value in this script" % (op, attribute))
        tries = [("", {}), (UNKNOWN, dict(given=dict(base.get("given", {}), unheard_of=1), wrong=True))]
        tries += [(attribute, change) for attribute, of in changes.items() for change in of]
        for attribute, change in tries:
            model, shape = model_of(op, base, change)
            given = numbers(*shape, 1)[..., 0]
            if change.get("wrong"):
                output = np.zeros(0, "f4")
            elif attribute == "layout":
                # Neither of the two supports it: the same numbers with transposed dimensions.
                other, _ = model_of(op, base, dict(given={}, shape=(shape[1], shape[0], shape[2])))
                output = computed(other, given.transpose(1, 0, 2)).transpose(2, 0, 1, 3)
            else:
                output = computed(model, given)
            assert np.isfinite(output).all(), (op, attribute)
            file = "%d.onnx" % len(cases)
            files[file] = model.SerializeToString()
            shown = change.get("given", {}).get(attribute, "")
            shown = "a tensor" if isinstance(shown, onnx.TensorProto) else repr(shown)
            cases.append(dict(
                cls=op, attribute=attribute, value=shown, file=file, shape=list(shape),
                input=given.reshape(1, -1).tolist(), output=np.asarray(output, "f4").reshape(-1).tolist(),
                output_shape=list(output.shape),
            ))
    write("onnx", "ONNX Runtime %s" % onnxruntime.__version__, cases, files)


main()
