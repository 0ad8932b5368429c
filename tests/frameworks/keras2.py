"""Writes models with Keras 2 and records their outputs.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/keras2.requirements.txt
    venv/bin/python tests/frameworks/keras2.py FOLDER [SEED]

`model.save` writes NAME.h5, `model.save_weights` NAME.h5 or NAME.weights.h5; keras_golden.py describes the files beside
them. The sample in tests/frameworks/keras2 is a part of seed 1 (`--sample`).

The same script runs with older versions of Keras. Under TensorFlow 1.15 (Python 3.7,
keras2.tensorflow1.requirements.txt) it also writes models with CuDNNLSTM and CuDNNGRU. These layers run only on a GPU,
so their outputs are computed by LSTM and GRU layers into which Keras itself loads the weights. That sample is
tests/frameworks/keras2_tensorflow1. With the environment variable TIDEGATE_KERAS=keras, the script uses the package
`keras` over Theano or TensorFlow 1.
"""

import json
import logging
import os
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")
logging.getLogger("tensorflow").setLevel(logging.ERROR)

import h5py  # noqa: E402, F401
import numpy as np  # noqa: E402
from keras_golden import Chance, Net, each, expected, options, rows, spread, write  # noqa: E402
from keras_models import MODELS, OUTSIDE, Kit, alone  # noqa: E402

ALONE = os.environ.get("TIDEGATE_KERAS") == "keras"
OLD = ALONE
if ALONE:
    import keras
else:
    import tensorflow as tf

    OLD = tf.__version__.startswith("1.")
    if OLD:
        keras = tf.keras
    else:
        import tf_keras as keras
VERSION = keras.__version__


def cudnn(name, build):
    """A model with cuDNN layers, and the same model with portable layers; `build(k, lstm, gru)` builds either."""

    def both(k):
        v1 = tf.compat.v1.keras.layers
        c, L = k.chance, k.layers
        seed = c.rng.get_state()
        model = build(k, v1.CuDNNLSTM, v1.CuDNNGRU)
        c.rng.set_state(seed)
        lstm = lambda units, **args: L.LSTM(units, recurrent_activation="sigmoid", **args)
        gru = lambda units, **args: L.GRU(units, recurrent_activation="sigmoid", reset_after=True, **args)
        return Net(model, native=build(k, lstm, gru), sequences=2 if model.input_shape[1] else 1)

    return both


def cudnn_one(which, last):
    def build(k, lstm, gru):
        c = k.chance
        layer = (lstm if which == "lstm" else gru)(c.size(3), return_sequences=not last)
        return k.sequential([c.size(4, 8) if last else None, c.size()], layer)

    return build


def cudnn_stack(k, lstm, gru):
    c, L = k.chance, k.layers
    return k.sequential(
        [c.size(4, 8), c.size()], lstm(c.size(3), return_sequences=True), L.Dropout(0.2), gru(c.size(3)),
        L.Dense(c.size(2, 5), activation="softmax"),
    )


def cudnn_bidirectional(k, lstm, gru):
    c, L = k.chance, k.layers
    return k.sequential(
        [c.size(4, 8), c.size()], L.Bidirectional(lstm(c.size(3), return_sequences=True)),
        L.Bidirectional(gru(c.size(3)), merge_mode=c.pick("sum", "concat")), L.Dense(2, activation="softmax"),
    )


def cudnn_backwards(k, lstm, gru):
    c = k.chance
    return k.sequential([c.size(4, 8), c.size()], lstm(c.size(3), return_sequences=True), gru(c.size(3), go_backwards=True))


def cudnn_stateful(k, lstm, gru):
    c, L = k.chance, k.layers
    return k.sequential([c.size(2, 4), c.size()], lstm(c.size(3), stateful=True), L.Dense(2), batch=1)


CUDNN = {
    "cudnn_lstm": cudnn_one("lstm", True),
    "cudnn_lstm_stream": cudnn_one("lstm", False),
    "cudnn_gru": cudnn_one("gru", True),
    "cudnn_gru_stream": cudnn_one("gru", False),
    "cudnn_stack": cudnn_stack,
    "cudnn_bidirectional": cudnn_bidirectional,
    "cudnn_backwards": cudnn_backwards,
    "cudnn_stateful": cudnn_stateful,
}


def models():
    """The models that this Keras supports; fewer for older versions, whose files differ little."""
    if not OLD:
        return dict(MODELS, double=alone("GRU", dtype="float64"))
    names = [
        "lstm", "lstm_stream", "lstm_activations", "lstm_stateful", "gru", "gru_reset_before", "gru_reset_after",
        "gru_backwards_sequence", "stack", "bidirectional_concat", "bidirectional_mul_last", "cells", "cells_stacked",
        "time_distributed", "masking", "embedding_mask", "two_outputs", "two_inputs", "nested", "keywords_conv1d",
        "keywords_conv2d", "conv_lstm_2d", "trained", "weights", "weights_json",
    ]
    if VERSION < "2.1":
        names = [name for name in names if "reset" not in name and "cells" not in name]
    some = {name: MODELS[name] for name in names}
    return some if ALONE else dict(some, **{name: cudnn(name, build) for name, build in CUDNN.items()})


def fresh():
    if keras.backend.backend() == "theano":
        return
    keras.backend.clear_session()
    if not ALONE and OLD:
        # A pruned graph needs no kernels for the parts that do not run.
        graph = tf.compat.v1.GraphOptions(place_pruned_graph=True)
        config = tf.compat.v1.ConfigProto(graph_options=graph)
        keras.backend.set_session(tf.compat.v1.Session(config=config))


def save(net, name, folder):
    # The last versions of Keras 2 write a file of this name as Keras 3 does.
    file = name + (".weights.h5" if net.arch == "json" else ".h5")
    if net.arch is not None:
        net.model.save_weights(os.path.join(folder, file))
    else:
        net.model.save(os.path.join(folder, file))
    return file


def main():
    given = options(__doc__)
    for name, build in each(models(), given, OUTSIDE):
        fresh()
        chance = Chance(given.seed, name)
        net = build(Kit(keras, chance, three=False))
        model = net.model
        if ALONE:
            spread(model, chance, keras.backend.int_shape)
        else:
            names, sizes = [w.name for w in model.weights], [keras.backend.int_shape(w) for w in model.weights]
            model.set_weights(chance.weights(names, sizes))
        shapes = [keras.backend.int_shape(x)[1:] for x in model.inputs]
        if net.compiled:
            model.compile("adam", "mse")
            x = [chance.normal([1] + list(shape)) for shape in shapes]
            model.fit(x, chance.normal([1] + list(model.output_shape[1:])), verbose=0)
        file = save(net, name, given.folder)
        computes = model
        if net.native:
            computes = net.native
            computes.load_weights(os.path.join(given.folder, file))
        inputs = rows(net, chance, shapes)

        def predict(values):
            x = values if len(values) > 1 else values[0]
            # Without compiling, where this Keras can run uncompiled models.
            y = computes.predict(x, batch_size=1, verbose=0) if OLD else computes(x, training=False)
            return y if isinstance(y, list) else [y]

        outputs = expected(net, inputs, shapes, predict)
        arch = net.arch
        if arch in ("json", "listed"):
            arch = json.loads(model.to_json())
        elif arch is not None:
            arch = dict({"framework": "keras2"}, **arch)
        write(given.folder, name, file, net, inputs, outputs, {"framework": "keras2", "keras": VERSION}, arch)


main()
