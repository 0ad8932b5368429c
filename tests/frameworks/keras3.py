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
