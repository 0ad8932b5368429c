"""Writes graphs that TensorFlow 2 froze (convert_variables_to_constants_v2); tf1_graph.py writes those of sessions.

    pip install -r tf1_graph.txt
    python tf2_graph.py OUT [--seed N] [--only NAME,...]

Each network is written by Keras 2 (tf_keras) and by Keras 3.
"""

import argparse
import os
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from safetensors.numpy import save_file
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

CASES = {}


class Sizes:
    """Sizes of a case, drawn from its generator."""

    def __init__(self, rng):
        self.features = int(rng.integers(2, 9))
        self.units = int(rng.integers(2, 12))
        self.steps = int(rng.integers(3, 9))


def of(name, layers, opened=False, windowed=False):
    """A Keras model of these layers, built with both versions of Keras."""
    for keras_name, module in [("keras2", tf_keras), ("keras3", keras)]:
        CASES["tf2_%s_%s" % (keras_name, name)] = (module, layers, opened or windowed, windowed)


of("lstm", lambda k, s: [k.layers.LSTM(s.units, return_sequences=True)])
of("lstm_last", lambda k, s: [k.layers.LSTM(s.units), k.layers.Dense(3, activation="softmax")])
of("lstm_open", lambda k, s: [k.layers.LSTM(s.units, return_sequences=True)], opened=True)
of("gru", lambda k, s: [k.layers.GRU(s.units, return_sequences=True)])
of("gru_before", lambda k, s: [k.layers.GRU(s.units, reset_after=False), k.layers.Dense(4)])
of("simple", lambda k, s: [k.layers.SimpleRNN(s.units, return_sequences=True)])
of("stack", lambda k, s: [k.layers.LSTM(s.units, return_sequences=True), k.layers.GRU(4), k.layers.Dense(2)])
of("cells", lambda k, s: [k.layers.RNN([k.layers.LSTMCell(s.units), k.layers.GRUCell(3)], return_sequences=True)])
of("bidirectional", lambda k, s: [k.layers.Bidirectional(k.layers.LSTM(s.units, return_sequences=True))])
of("bidirectional_last", lambda k, s: [k.layers.Bidirectional(k.layers.GRU(s.units)), k.layers.Dense(2)])
of("bidirectional_open", lambda k, s: [k.layers.Bidirectional(k.layers.LSTM(s.units, return_sequences=True))],
   windowed=True)
of("unrolled", lambda k, s: [k.layers.GRU(s.units, unroll=True), k.layers.Dense(2)])
of("conv", lambda k, s: [k.layers.Conv1D(4, 2, activation="relu"), k.layers.BatchNormalization(),
                         k.layers.LSTM(s.units), k.layers.Dropout(0.3), k.layers.Dense(3, activation="softmax")])
of("causal_conv", lambda k, s: [k.layers.Conv1D(4, 3, padding="causal", activation="relu"),
                                k.layers.Conv1D(3, 2, padding="causal", dilation_rate=2), k.layers.GRU(s.units)])
of("separable_conv", lambda k, s: [k.layers.SeparableConv1D(4, 3, padding="same"), k.layers.Dense(3)])
of("dilated_image", lambda k, s: [k.layers.Reshape((s.steps, s.features, 1)),
                                  k.layers.Conv2D(3, 2, dilation_rate=2, padding="same"),
                                  k.layers.Reshape((s.steps, -1)), k.layers.LSTM(3)])
of("dense_in_time", lambda k, s: [k.layers.Dense(5, activation="tanh"), k.layers.GRU(s.units, return_sequences=True),
                                  k.layers.Dense(2)])


def write(folder, name, seed):
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    module, layers, opened, windowed = CASES[name]
    sizes = Sizes(rng)
    module.backend.clear_session()
    model = module.Sequential(layers(module, sizes))
    model.build((1, sizes.steps, sizes.features))
    for each in model.weights:
        low, high = (0.3, 1.5) if each.name.split(":")[0].endswith(("variance", "gamma")) else (-0.8, 0.8)
        if "seed" not in each.name:
            each.assign(rng.uniform(low, high, each.shape).astype(np.float32))
    x = rng.uniform(-1.5, 1.5, [1, sizes.steps, sizes.features]).astype(np.float32)
    y = model(x, training=False).numpy()
    steps = None if opened else sizes.steps
    given = tf.TensorSpec([1, steps, sizes.features], tf.float32, name="features")
    function = tf.function(lambda features: model(features, training=False)).get_concrete_function(given)
    frozen = convert_variables_to_constants_v2(function).graph.as_graph_def()
    with open(os.path.join(folder, name + ".pb"), "wb") as file:
        file.write(frozen.SerializeToString())
    tensors = {"input": x, "output": np.ascontiguousarray(y)}
    if windowed:
        tensors["window"] = np.array([sizes.steps], np.float32)
    save_file(tensors, os.path.join(folder, name + ".safetensors"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    names = arguments.only.split(",") if arguments.only else sorted(CASES)
    for name in names:
        write(arguments.folder, name, arguments.seed)
        print(name, flush=True)


if __name__ == "__main__":
    sys.exit(main())
