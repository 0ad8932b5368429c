"""Writes models with Keras 3 and records their outputs.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/keras3.requirements.txt
    venv/bin/python tests/frameworks/keras3.py FOLDER [SEED]

`model.save` writes NAME.keras, or NAME.h5 as Keras 2 did; `model.save_weights` writes NAME.weights.h5. keras_golden.py
describes the files beside them. The sample in tests/frameworks/keras3 is a part of seed 1 (`--sample`). KERAS_BACKEND
selects the backend: TensorFlow takes a minute, JAX several, and NumPy loses masks.
"""

import json
import os
import warnings

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")

import keras  # noqa: E402
from absl import logging  # noqa: E402
from keras_golden import Chance, Net, each, expected, options, rows, write  # noqa: E402
from keras_models import MODELS, OUTSIDE, Kit, alone, bidirectional  # noqa: E402

logging.set_verbosity(logging.ERROR)


def normalized(k):
    """Preprocessing layers within the model, with their statistics among the weights."""
    c, L = k.chance, k.layers
    size = c.size()
    norm = L.Normalization(mean=list(map(float, c.normal([size]))), variance=[float(abs(v)) + 0.5 for v in c.normal([size])])
    model = k.sequential([c.size(4, 8), size], L.Rescaling(c.pick(0.5, 2.0), offset=-0.25), norm, L.GRU(c.size(3)))
    return Net(model)


def grouped(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(8, 12), 4], L.Conv1D(2 * c.size(1, 3), 3, groups=2, activation="silu"), L.GRU(c.size(3)), L.Dense(2)
    )
    return Net(model)


def depthwise(k):
    """Depthwise convolutions."""
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(8, 12), c.size(2, 6)], L.DepthwiseConv1D(3, depth_multiplier=c.pick(1, 2), padding="valid"),
        L.SeparableConv1D(c.size(3, 6), 2, activation="relu"), L.LSTM(c.size(3)), L.Dense(2),
    )
    return Net(model)


def gated(k):
    """Activations that only Keras 3 has."""
    c, L = k.chance, k.layers
    names = ["silu", "gelu", "leaky_relu", "hard_tanh", "relu6", "celu", "swish", "hard_silu", "mish"]
    layers = [L.Dense(c.size(3), activation=name) for name in names]
    return Net(k.sequential([None, c.size()], *layers))


def functional_json(k):
    """A weights file of a functional model, with the architecture in Keras's own JSON."""
    c, L = k.chance, k.layers
    x = k.input(c.size(4, 8), c.size())
    y = L.Concatenate()([L.LSTM(c.size(3))(x), L.GRU(c.size(3), go_backwards=True)(x)])
    return Net(k.functional(x, L.Dense(3, activation="softmax")(y)), arch="json")


def attended(k, x, units):
    """A recurrent layer over all steps, and a score for each of them."""
    h = k.layers.GRU(units, return_sequences=True)(x)
    return h, k.layers.Dense(1, activation="tanh")(h)


def attention_repeated(k):
    """The usual recipe: the shares of the steps are repeated for each feature and multiply the sequence."""
    c, L = k.chance, k.layers
    x, units = k.input(c.size(4, 8), c.size()), c.size(3)
    h, score = attended(k, x, units)
    shares = L.Permute([2, 1])(L.RepeatVector(units)(L.Activation("softmax")(L.Flatten()(score))))
    return Net(k.functional(x, L.Dense(3)(L.GlobalAveragePooling1D()(L.Multiply()([h, shares])))), sequences=2)


def attention_dot(k):
    """Shares by a softmax over the steps, as products of matrices and of a single feature."""
    c, L = k.chance, k.layers
    x, units = k.input(c.size(4, 8), c.size()), c.size(3)
    h, score = attended(k, x, units)
    shares = L.Softmax(axis=1)(score)
    both = [L.Flatten()(L.Dot(axes=1)([shares, h])), L.GlobalMaxPooling1D()(L.Multiply()([shares, h]))]
    return Net(k.functional(x, L.Dense(3)(L.Concatenate()(both))), sequences=2)


def attention_query(k):
    """The scores are the products of all steps with a query, which is one of them; as in keyword spotting."""
    c, L = k.chance, k.layers
    x, units = k.input(c.size(5, 8), c.size()), c.size(3)
    h = L.Bidirectional(L.LSTM(units, return_sequences=True))(x)
    shares = L.Softmax()(L.Dot(axes=[1, 2])([L.Dense(2 * units)(h[:, 2, :]), h]))
    return Net(k.functional(x, L.Dense(3)(L.Dot(axes=[1, 1])([shares, h]))), sequences=2)


def attention_layer(k):
    c, L = k.chance, k.layers
    x = k.input(c.size(4, 8), c.size())
    h = L.GRU(c.size(3), return_sequences=True)(x)
    value = L.Dense(c.size(3))(h[:, 1:, :])
    key = h[:, :-1]
    return Net(k.functional(x, L.GlobalAveragePooling1D()(L.Attention()([h, value, key]))), sequences=2)


def parts(k):
    c, L = k.chance, k.layers
    x = k.input(c.size(5, 8), c.size(4))
    h = L.LSTM(c.size(3), return_sequences=True)(x[:, :, 1:-1])
    last = L.Concatenate()([h[:, -1], L.GRU(3)(x[:, -3:, :]), x[:, 0, :]])
    return Net(k.functional(x, L.Dense(3)(last)), sequences=2)


def last_of_stream(k):
    c, L = k.chance, k.layers
    x = k.input(c.size(5, 8), c.size())
    return Net(k.functional(x, L.Dense(3)(L.LSTM(c.size(3), return_sequences=True)(x)[:, -1, :])), sequences=2)


def squeezed(k):
    """Features of all steps that are scaled by one value each."""
    c, L = k.chance, k.layers
    x, filters = k.input(c.size(5, 8), c.size()), c.size(3)
    y = L.Conv1D(filters, 3, padding="same", activation="relu")(x)
    scales = L.Dense(filters, activation="sigmoid")(L.Dense(2, activation="relu")(L.GlobalAveragePooling1D()(y)))
    return Net(k.functional(x, L.LSTM(c.size(3))(L.Multiply()([y, L.Reshape([1, filters])(scales)]))), sequences=2)


def columns(k):
    """A layer that reads each feature over all steps, as in LSTM-FCN."""
    c, L = k.chance, k.layers
    x = k.input(c.size(4, 8), c.size(2, 4))
    rest = L.GlobalAveragePooling1D()(L.Conv1D(c.size(3), 3, padding="same")(x))
    return Net(k.functional(x, L.Dense(3)(L.Concatenate()([L.LSTM(c.size(3))(L.Permute([2, 1])(x)), rest]))), sequences=2)


OVER_STEPS = [attention_repeated, attention_dot, attention_query, attention_layer, parts, last_of_stream, squeezed, columns]


# Models that are also written in the format of Keras 2.
LEGACY = ["lstm", "gru_reset_before", "gru_hard_sigmoid", "bidirectional_concat", "cells", "masking", "nested",
          "keywords_conv1d", "trained"]


def models():
    found = dict(
        MODELS, normalized=normalized, grouped=grouped, depthwise=depthwise, gated=gated, double=alone("GRU", dtype="float64"),
        weights_functional=functional_json, bidirectional_hard=bidirectional("GRU", "concat", True,
                                                                            recurrent_activation="hard_sigmoid"),
    )
    for name in LEGACY:
        found["legacy_" + name] = found[name]
    found.update((build.__name__, build) for build in OVER_STEPS)
    return found


# Too large for the sample, or already in that of Keras 2.
MORE_OUTSIDE = ["deep", "draft_listed", "draft_both_listed", "legacy_nested", "legacy_keywords_conv1d", "legacy_trained"]


def main():
    given = options(__doc__)
    for name, build in each(models(), given, OUTSIDE + MORE_OUTSIDE):
        keras.utils.clear_session()
        chance = Chance(given.seed, name)
        net = build(Kit(keras, chance, three=True))
        model = net.model
        model.set_weights(chance.weights([w.path for w in model.weights], [w.shape for w in model.weights]))
        shapes = [x.shape[1:] for x in model.inputs]
        if net.compiled:
            model.compile("adam", "mse")
            model.optimizer.build(model.trainable_variables)
        if net.arch is not None:
            file = name + ".weights.h5"
            model.save_weights(os.path.join(given.folder, file))
        else:
            file = name + (".h5" if name.startswith("legacy") else ".keras")
            model.save(os.path.join(given.folder, file))
        inputs = rows(net, chance, shapes)

        def predict(values):
            y = model(values if len(values) > 1 else values[0], training=False)
            return y if isinstance(y, (list, tuple)) else [y]

        outputs = expected(net, inputs, shapes, predict)
        arch = net.arch
        if arch in ("json", "listed"):
            arch = json.loads(model.to_json())
        elif arch is not None:
            arch = dict({"framework": "keras3"}, **arch)
        write(given.folder, name, file, net, inputs, outputs, {"framework": "keras3", "keras": keras.__version__}, arch)


main()
