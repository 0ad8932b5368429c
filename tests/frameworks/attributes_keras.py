"""Writes layers of Keras with every constructor argument at other values than the default, and records their outputs.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/keras3.requirements.txt
    venv/bin/python tests/frameworks/attributes_keras.py keras3        writes tests/frameworks/attributes/keras3.zip
    venv/bin/python tests/frameworks/attributes_keras.py keras2        the same with tf_keras

The arguments are those of the constructors' signatures: an argument without a value here ends the script. The archive has
the models as Keras saves them, and cases.json: class, attribute, value, file, input and output of each.
"""

import importlib
import inspect
import json
import os
import sys
import tempfile
import warnings
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
from attributes_file import write  # noqa: E402

WHICH = sys.argv[1]
keras = importlib.import_module({"keras3": "keras", "keras2": "tf_keras"}[WHICH])
L = keras.layers

# Values of arguments that many classes have.
COMMON = {
    "activation": ["relu", "softsign"], "recurrent_activation": ["hard_sigmoid", "tanh"], "use_bias": [False],
    "seed": [7], "dropout": [0.5], "recurrent_dropout": [0.5], "units": [2], "filters": [3], "name": ["other"],
    "trainable": [False], "dtype": ["float64"], "unit_forget_bias": [False], "return_sequences": [False],
    "return_state": [], "go_backwards": [True], "stateful": [True], "unroll": [True], "implementation": [1],
    "zero_output_for_mask": [True], "reset_after": [False], "use_cudnn": [False], "time_major": [], "padding": ["same"],
    "strides": [2], "dilation_rate": [2], "groups": [2], "data_format": ["channels_first"], "epsilon": [0.1],
    "momentum": [0.5], "center": [False], "scale": [False], "rate": [0.9], "noise_shape": [[None, 1, 1]],
    "synchronized": [True], "renorm": [True], "renorm_clipping": [{"rmax": 2.0}], "renorm_momentum": [0.5],
    "fused": [False], "virtual_batch_size": [1], "lora_rank": [2], "lora_alpha": [2],
    "quantization_config": [], "autocast": [False], "keepdims": [True], "depth_multiplier": [2], "kernel_size": [3],
    "pool_size": [3], "axis": [1], "rms_scaling": [True], "input_shape": [], "sparse": [],
}
# Arguments of training, by the ends of their names. All of a class are set at once.
ENDS = {"_initializer": "ones", "_regularizer": "l2", "_constraint": "non_neg"}
# Arguments that a constructor takes for a layer's base class.
BASE = ["name", "trainable", "dtype"]
SEQUENCE = [6, 4]
RECURRENT = dict(units=3, return_sequences=True)
TRAINING = {"training": [True]}


def conv(kernel, **more):
    return dict(dict(filters=4, kernel_size=kernel), **more)


# Class: arguments, shape of the input, and the values of its other arguments.
LAYERS = {
    "Dense": (dict(units=3), SEQUENCE, {}),
    "LSTM": (RECURRENT, SEQUENCE, {}),
    "GRU": (RECURRENT, SEQUENCE, {}),
    "SimpleRNN": (RECURRENT, SEQUENCE, {}),
    "ConvLSTM1D": (conv(2, return_sequences=True), [4, 6, 2], {"groups": []}),
    "ConvLSTM2D": (conv(2, return_sequences=True), [3, 5, 5, 2], {"groups": []}),
    "ConvLSTM3D": (conv(2, return_sequences=True), [2, 3, 3, 3, 1], {"groups": []}),
    "Conv1D": (conv(2), SEQUENCE, {"padding": ["same", "causal"]}),
    "Conv2D": (conv(2), [6, 5, 2], {}),
    "DepthwiseConv1D": (dict(kernel_size=2), SEQUENCE, {"padding": ["same", "causal"]}),
    "DepthwiseConv2D": (dict(kernel_size=2), [6, 5, 2], {}),
    "SeparableConv1D": (conv(2), SEQUENCE, {"padding": ["same", "causal"]}),
    "SeparableConv2D": (conv(2), [6, 5, 2], {}),
    "MaxPooling1D": ({}, SEQUENCE, {}),
    "MaxPooling2D": ({}, [6, 5, 2], {}),
    "AveragePooling1D": (dict(pool_size=2), SEQUENCE, {}),
    "AveragePooling2D": (dict(pool_size=2), [6, 5, 2], {}),
    "GlobalMaxPooling1D": ({}, SEQUENCE, {}),
    "GlobalMaxPooling2D": ({}, [6, 5, 2], {}),
    "GlobalAveragePooling1D": ({}, SEQUENCE, {}),
    "GlobalAveragePooling2D": ({}, [6, 5, 2], {}),
    "ZeroPadding1D": ({}, SEQUENCE, {"padding": [[0, 2]]}),
    "ZeroPadding2D": ({}, [6, 5, 2], {"padding": [[[0, 1], [2, 0]]]}),
    "Flatten": ({}, SEQUENCE, {}),
    "Reshape": (dict(target_shape=[3, 8]), SEQUENCE, {"target_shape": [[8, 3]]}),
    "Permute": (dict(dims=[1, 2]), SEQUENCE, {"dims": [[2, 1]]}),
    "RepeatVector": (dict(n=2), [4], {"n": [3]}),
    "BatchNormalization": ({}, SEQUENCE, {}),
    "LayerNormalization": ({}, SEQUENCE, {}),
    "Normalization": (
        dict(mean=[0.1, 0.2, 0.3, 0.4], variance=[1.0, 2.0, 3.0, 4.0]), SEQUENCE,
        {"mean": [[1.0, 2.0, 3.0, 4.0]], "variance": [[4.0, 3.0, 2.0, 1.0]], "invert": [True], "axis": [1]},
    ),
    "Rescaling": (dict(scale=2.0), SEQUENCE, {"scale": [0.5, [1.0, 2.0, 3.0, 4.0]], "offset": [0.25]}),
    "PReLU": (dict(shared_axes=[1]), [4, 4], {"shared_axes": [[1, 2], [2], None]}),
    "ReLU": ({}, SEQUENCE, {"max_value": [0.5, 6.0], "negative_slope": [0.2], "threshold": [0.1]}),
    "LeakyReLU": ({}, SEQUENCE, {"alpha": [0.1], "negative_slope": [0.1]}),
    "ELU": ({}, SEQUENCE, {"alpha": [0.5]}),
    "ThresholdedReLU": ({}, SEQUENCE, {"theta": [0.3]}),
    "Softmax": ({}, SEQUENCE, {}),
    "Activation": (dict(activation="tanh"), SEQUENCE, {}),
    "Masking": ({}, SEQUENCE, {"mask_value": [0.5]}),
    "Embedding": (
        dict(input_dim=5, output_dim=3), [6],
        {"input_dim": [6], "output_dim": [2], "mask_zero": [True], "input_length": [6], "weights": []},
    ),
    "Dropout": (dict(rate=0.5), SEQUENCE, {}),
    "SpatialDropout1D": (dict(rate=0.5), SEQUENCE, {}),
    "GaussianDropout": (dict(rate=0.5), SEQUENCE, {}),
    "GaussianNoise": (dict(stddev=0.5), SEQUENCE, {"stddev": [0.9]}),
    "AlphaDropout": (dict(rate=0.5), SEQUENCE, {}),
    "ActivityRegularization": ({}, SEQUENCE, {"l1": [0.5], "l2": [0.5]}),
    "Bidirectional": (
        dict(layer=("LSTM", dict(units=3, return_sequences=True))), SEQUENCE,
        {
            "layer": [("GRU", dict(units=3, return_sequences=True)), ("LSTM", dict(units=3))],
            "merge_mode": ["sum", "mul", "ave"], "weights": [],
            "backward_layer": [("LSTM", dict(units=3, return_sequences=True, go_backwards=True, activation="relu"))],
        },
    ),
    "TimeDistributed": (dict(layer=("Dense", dict(units=3))), SEQUENCE, {"layer": [("Dense", dict(units=2))]}),
    "RNN": (
        dict(cell=("LSTMCell", dict(units=3)), return_sequences=True), SEQUENCE,
        {"cell": [("GRUCell", dict(units=3)), ("SimpleRNNCell", dict(units=3))]},
    ),
    "Concatenate": ({}, SEQUENCE, {}),
    "Add": ({}, SEQUENCE, {}),
    "Multiply": ({}, SEQUENCE, {}),
    "Average": ({}, SEQUENCE, {}),
    "Maximum": ({}, SEQUENCE, {}),
    "Subtract": ({}, SEQUENCE, {}),
    "Dot": (dict(axes=1), SEQUENCE, {"axes": [2, [1, 1]], "normalize": [True]}),
    "Attention": ({}, SEQUENCE, {"use_scale": [True], "score_mode": ["concat"]}),
}
MERGES = ["Concatenate", "Add", "Multiply", "Average", "Maximum", "Subtract", "Dot", "Attention"]
# Layers without weights that pass on their input: a model needs another layer.
PASSING = [
    "Permute", "Dropout", "SpatialDropout1D", "GaussianDropout", "GaussianNoise", "AlphaDropout", "ActivityRegularization",
]
# Layers that a model may call with `training=True`.
TRAINED = ["Dropout", "BatchNormalization", "GaussianNoise", "LSTM", "GRU", "SimpleRNN", "Bidirectional"]


def rng(*of):
    return np.random.default_rng(zlib.crc32(repr(of).encode()))


def made(value):
    """A layer from its class and arguments, or the value itself."""
    return getattr(L, value[0])(**value[1]) if isinstance(value, tuple) else value


def signature(name):
    """The constructor's arguments by name, with those of the base class."""
    found = list(inspect.signature(getattr(L, name).__init__).parameters.values())[1:]
    names = [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return list(dict.fromkeys(names + BASE))


def values(name, argument, own):
    for found in (own, COMMON):
        if argument in found:
            return found[argument]
    sys.exit("%s has an argument %s without a value in this script" % (name, argument))


def case(folder, number, name, arguments, shape, call):
    """A model of one layer, or of two where it merges inputs: its file, input and output."""
    keras.utils.set_random_seed(1)
    keras.backend.clear_session()
    batch = dict(batch_size=1) if arguments.get("stateful") else {}
    x = keras.Input(shape, **batch)
    layer = getattr(L, name)(**{key: made(value) for key, value in arguments.items()})
    if name in MERGES:
        y = layer([x, L.Activation("tanh")(x)])
    else:
        y = layer(x, **call)
    y = y[0] if isinstance(y, (list, tuple)) else y
    if name in PASSING:
        y = L.Activation("tanh")(y)
    model = keras.Model(x, y)
    weights = []
    for variable in model.weights:
        last = variable.name.split("/")[-1].split(":")[0]
        shape_of = [int(size) for size in variable.shape]
        value = rng(last, shape_of).normal(0, 0.5, shape_of)
        weights.append(np.abs(value) + 0.5 if "variance" in last or "stddev" in last else value)
    if not name == "Normalization":
        model.set_weights(weights)
    file = "%d.%s" % (number, "keras" if WHICH == "keras3" else "h5")
    path = os.path.join(folder, file)
    model.save(path)
    given = rng("input", shape).normal(0, 1, [1] + shape).astype("f4")
    if name == "Embedding":
        given = np.floor(np.abs(given) * 2).clip(0, 4)
    if name == "Masking":
        given[0, 2:4] = 0.5
        given[0, 5] = 0
    output = np.asarray(model(given), "f4")
    with open(path, "rb") as read:
        return file, read.read(), given[0], output


def main():
    cases, files = [], {}
    with tempfile.TemporaryDirectory() as folder:

        def add(name, attribute, value, arguments, shape, call={}):
            try:
                file, content, given, output = case(folder, len(cases), name, arguments, shape, call)
            except Exception as error:
                print("%s %s=%r: Keras refuses it: %s" % (name, attribute, value, str(error).splitlines()[0][:80]))
                return
            files[file] = content
            given = given.reshape(len(given), -1) if given.ndim > 1 or name == "Embedding" else given[None]
            cases.append(dict(
                cls=name, attribute=attribute, value=repr(value), file=file, input=given.tolist(),
                output=output.reshape(-1).tolist(),
            ))

        for name, (base, shape, own) in LAYERS.items():
            if not hasattr(L, name):
                continue
            add(name, "", None, base, shape)
            arguments = signature(name)
            for end, value in ENDS.items():
                ended = [argument for argument in arguments if argument.endswith(end)]
                arguments = [argument for argument in arguments if argument not in ended]
                if ended:
                    add(name, "*" + end, value, dict(base, **dict.fromkeys(ended, value)), shape)
            for argument in arguments:
                for value in values(name, argument, own):
                    given = {key: of for key, of in dict(base, **{argument: value}).items() if of is not None}
                    add(name, argument, value, given, shape)
            if name in TRAINED:
                add(name, "call training", True, base, shape, dict(training=True))
                add(name, "call training", False, base, shape, dict(training=False))
    write(WHICH, "%s %s" % (keras.__name__, keras.__version__), cases, files)


main()
