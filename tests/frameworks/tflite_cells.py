"""Writes TFLite models whose recurrent layers a converter has taken apart, and records the outputs of LiteRT.

    pip install -r tests/frameworks/tflite.requirements.txt
    python tests/frameworks/tflite_cells.py write                     the files in tests/frameworks/tflite
    python tests/frameworks/tflite_cells.py check --seed 1 --count 20 --tidegate target/release/tidegate

Keras 3 has no fused LSTM in TFLite: its layers become a `WHILE` with a graph for the condition and one for a step. A
layer with `unroll=True` becomes the single operators of all of its steps, with the states as inputs and outputs of the
model if it has an `initial_state`, as in DTLN. Files and tensors are those of tflite_models.py: `input` is [sequences, steps, features], and
`output` [sequences, rows, classes]. States that are outputs are fed back to the inputs. `check` generates other networks
and runs each through `tidegate run`.
"""

import argparse
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from safetensors.numpy import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tflite")
TOLERANCE = 2e-6
SAMPLE_SEED, SEQUENCES = 11, 3
L = keras.layers


def drawn(rng, model, gain=1.2):
    model.set_weights([rng.normal(0, gain / np.sqrt(w.shape[0]) if w.ndim > 1 else 0.4, w.shape).astype("f4") for w in model.get_weights()])
    return model


def network(rng, layers, steps, features, batch=1, **weights):
    x = inputs = keras.Input((steps, features), batch_size=batch)
    for layer in layers:
        x = layer(x)
    return drawn(rng, keras.Model(inputs, x), **weights)


def saved(model, folder):
    """The model as Keras 3 exports it for serving, with one sequence in a batch."""
    shape = model.inputs[0].shape
    model.export(folder, input_signature=[keras.InputSpec(dtype="float32", shape=shape)], verbose=False)
    return tf.lite.TFLiteConverter.from_saved_model(folder)


def loops(rng, layers, steps=6, features=3, exported=False, half=False, hybrid=False, calls=1, batch=1):
    """A network of recurrent layers, each of which becomes a loop or its unrolled steps."""
    # With small weights, the roundings of activations stay small.
    model = network(rng, layers(), steps, features, batch=batch, gain=0.3 if hybrid else 1.2)
    with tempfile.TemporaryDirectory() as folder:
        converter = saved(model, folder) if exported else tf.lite.TFLiteConverter.from_keras_model(model)
        if half or hybrid:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if half:
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert(), rng.normal(0, 1, (SEQUENCES, calls * steps, features)).astype("f4")


class InstantLayerNormalization(tf_keras.layers.Layer):
    """That of DTLN."""

    def build(self, shape):
        self.gamma = self.add_weight(shape=shape[-1:], name="gamma")
        self.beta = self.add_weight(shape=shape[-1:], name="beta")

    def call(self, x):
        mean = tf.math.reduce_mean(x, axis=[-1], keepdims=True)
        variance = tf.math.reduce_mean(tf.math.square(x - mean), axis=[-1], keepdims=True)
        return (x - mean) / tf.math.sqrt(variance + 1e-7) * self.gamma + self.beta


def kernel(x, states, units, size, layers):
    """DTLN's separation kernel: the states of all layers are slices of one tensor."""
    hidden, cells = [], []
    for layer in range(layers):
        x, h, c = tf_keras.layers.LSTM(units, return_sequences=True, unroll=True, return_state=True)(
            x, initial_state=[states[:, layer, :, 0], states[:, layer, :, 1]]
        )
        hidden.append(h)
        cells.append(c)
    mask = tf_keras.layers.Activation("sigmoid")(tf_keras.layers.Dense(size)(x))
    hidden, cells = (tf.reshape(tf.stack(of, axis=0), [1, layers, units]) for of in (hidden, cells))
    return mask, tf.stack([hidden, cells], axis=-1)


def dtln(rng, half, units=5, size=7, layers=2, hybrid=False, echo=False):
    """One of the two networks of DTLN, or the second one of its echo cancellation, which also reads the loopback."""
    frame = tf_keras.Input(batch_shape=(1, 1, size))
    states = tf_keras.Input(batch_shape=(1, layers, units, 2))
    inputs = [frame, states]
    if half == 1:
        mask, after = kernel(frame, states, units, size, layers)
        model = tf_keras.Model(inputs, [mask, after])
    else:
        encoded = tf_keras.layers.Conv1D(6, 1, use_bias=False)(frame)
        seen = InstantLayerNormalization()(encoded)
        if echo:
            other = tf_keras.Input(batch_shape=(1, 1, size))
            inputs = [frame, states, other]
            more = InstantLayerNormalization()(tf_keras.layers.Conv1D(6, 1, use_bias=False)(other))
            seen = tf_keras.layers.Concatenate()([seen, more])
        mask, after = kernel(seen, states, units, 6, layers)
        shown = tf_keras.layers.Multiply()([encoded, mask])
        decoded = tf_keras.layers.Conv1D(size, 1, padding="causal", use_bias=False)(shown)
        model = tf_keras.Model(inputs, [decoded, after])
    converter = tf.lite.TFLiteConverter.from_keras_model(drawn(rng, model, 0.3 if hybrid else 1.2))
    if hybrid:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert(), rng.normal(0, 1, (SEQUENCES, 3 if hybrid else 8, size * (2 if echo else 1))).astype("f4")


def ports(rng, cell, units=4, features=3, stacked=1, names=True):
    """Layers of one step whose states are inputs and outputs of their own. Without names, outputs only have numbers."""
    x = frame = keras.Input((1, features), batch_size=1)
    inputs, outputs = [frame], {}
    for layer in range(stacked):
        states = [keras.Input((units + layer,), batch_size=1, name=f"in_{of}{layer}") for of in ("hc" if cell is L.LSTM else "h")]
        x, *after = cell(units + layer, return_sequences=True, return_state=True, unroll=True)(x, initial_state=states)
        inputs += states
        outputs |= {state.name.replace("in", "out"): new for state, new in zip(states, after)}
    outputs = dict(y=L.Dense(2)(x)) | outputs
    model = drawn(rng, keras.Model(inputs, outputs if names else list(outputs.values())))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 8, features)).astype("f4")


def words(rng, layers, dtype="int32", steps=7, whole=False, hybrid=False):
    """Layers behind a table of words. Keras declares its input as floats unless told otherwise."""
    x = inputs = keras.Input((steps,), batch_size=1, dtype=dtype)
    for layer in [L.Embedding(20, 16 if hybrid else 5), *layers()]:
        x = layer(x)
    converter = tf.lite.TFLiteConverter.from_keras_model(drawn(rng, keras.Model(inputs, x), 0.3 if hybrid else 1.2))
    if hybrid:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert(), rng.integers(0, 20, (SEQUENCES, 1, steps) if whole else (SEQUENCES, steps, 1)).astype("f4")


def two_inputs(rng):
    """A layer of two inputs whose output has the shape of one of them, as a simple recurrent layer's state has."""
    inputs = [keras.Input((size,), batch_size=1, name=name) for name, size in (("x", 3), ("y", 4))]
    model = drawn(rng, keras.Model(inputs, L.Dense(4, activation="tanh")(L.Concatenate()(inputs))))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 4, 7)).astype("f4")


def dense(rng):
    """A layer whose weights are in int8 beside floats."""
    model = network(rng, [L.Dense(32)], 1, 32)
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert(), rng.normal(0, 1, (SEQUENCES, 8, 32)).astype("f4")


def pools(rng):
    """Pools over an image of steps, and the mean over all steps of an LSTM."""
    x = inputs = keras.Input((8, 6), batch_size=1)
    image = L.Reshape((8, 6, 1))(x)
    image = L.Conv2D(3, 3, activation="relu")(image)
    image = L.MaxPooling2D(2, strides=1, padding="same")(image)
    image = L.AveragePooling2D((2, 3), strides=(2, 1), padding="same")(image)
    x = L.Concatenate()([L.GlobalAveragePooling2D()(image), L.GlobalAveragePooling1D()(L.LSTM(4, return_sequences=True)(x))])
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(x)))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 8, 6)).astype("f4")


def parts(rng):
    """A factor for each channel of an image, a part of its rows, and their maximum."""
    x = inputs = keras.Input((9, 5), batch_size=1)
    image = L.Conv2D(4, 3, activation="exponential")(L.Reshape((9, 5, 1))(x))
    gains = L.Conv2D(4, 1, activation="sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(image))
    rows = L.Cropping1D((2, 1))(L.Reshape((7, 12))(L.Multiply()([image, gains])))
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(L.GlobalMaxPooling1D()(rows))), 0.5)
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 9, 5)).astype("f4")


def legacy(rng, layers):
    """A network of Keras 2, which has fused LSTMs in TFLite."""
    x = inputs = tf_keras.Input((6, 3), batch_size=1)
    for layer in layers(tf_keras.layers):
        x = layer(x)
    model = drawn(rng, tf_keras.Model(inputs, x))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 6, 3)).astype("f4")


def convolved():
    """A convolution in front of recurrent layers, and activations between them."""
    head = [L.Conv1D(4, 3, strides=2, activation="leaky_relu"), L.GRU(5, return_sequences=True)]
    return [*head, L.Dense(3, activation="elu"), L.SimpleRNN(4), L.Dense(2, activation="gelu")]


def unrolled_by_hand(rng, order=range(5), initial=0.0, cells=1):
    """The steps of a cell in this order, with an initial value of its states. With several cells, each step has its own."""
    x = inputs = keras.Input((5, 3), batch_size=1)
    all_cells = [L.GRUCell(4) for _ in range(cells)]
    h = L.Lambda(lambda x: tf.fill([1, 4], initial))(x)
    for turn, step in enumerate(order):
        h, _ = all_cells[turn % cells](x[:, step], [h])
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(h)))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 5, 3)).astype("f4")


def beside_a_window(rng, **more):
    """A recurrent layer behind a layer that waits for all steps, in the order of operators."""
    x = inputs = keras.Input((6, 3), batch_size=1)
    x = L.Concatenate()([L.Dense(3)(L.Flatten()(x)), L.LSTM(4, **more)(x)])
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(x)))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 6, 3)).astype("f4")


def beside_conv(rng):
    """A convolution beside a recurrent layer over the same steps."""
    x = inputs = keras.Input((6, 3), batch_size=1)
    sides = [L.Conv1D(4, 3, padding="same", activation="relu")(x), L.GRU(3, return_sequences=True)(x)]
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(L.Concatenate()(sides))))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 6, 3)).astype("f4")


def gated(rng, padding="causal", dilation=2, steps=7, depthwise=False, sequences=True):
    """Two dilated convolutions of the same steps, as in WaveNet, between which the converter splits the steps."""
    x = inputs = keras.Input((steps, 4), batch_size=1)
    sizes = dict(kernel_size=2, padding=padding, dilation_rate=dilation)
    for _ in range(2):
        both = [L.DepthwiseConv1D(**sizes) if depthwise else L.Conv1D(4, **sizes) for _ in range(2)]
        gate = L.Activation("sigmoid")(both[0](x))
        x = L.Add()([x, L.Dense(4)(L.Multiply()([gate, L.Activation("tanh")(both[1](x))]))])
    x = L.Dense(2)(L.GRU(3, return_sequences=sequences)(x))
    model = drawn(rng, keras.Model(inputs, x))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, steps, 4)).astype("f4")


def weighed(rng, sequences=False, both=False, whole=False):
    """A factor for each step, and one for each feature."""
    x = inputs = keras.Input((6, 3), batch_size=1)
    x = L.Conv1D(4, 3, padding="same")(x) if whole else L.Dense(4)(x)
    x = L.Multiply()([x, L.Dense(1, activation="sigmoid")(x)])
    if whole:
        x = L.Multiply()([x, L.Dense(4, activation="sigmoid")(L.GlobalAveragePooling1D(keepdims=True)(x))])
    layer = L.GRU(3, return_sequences=sequences)
    x = L.GlobalMaxPooling1D()(x) if whole else (L.Bidirectional(layer) if both else layer)(x)
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(x)))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 6, 3)).astype("f4")


def distributed(rng, k, kind="LSTM", order=None, sequences=False, **more):
    """Convolutions of the image at each step, in front of a recurrent layer. Keras 3 repeats them for each step."""
    of = k.layers
    x = inputs = k.Input((4, 6, 5, 1), batch_size=1)
    if order:
        x = of.Lambda(lambda x: tf.stack([x[:, step] for step in order], 1))(x)
    for layer in [of.Conv2D(3, 3, activation="relu"), of.MaxPooling2D(2), of.Flatten(), of.Dense(4, activation="tanh")]:
        x = of.TimeDistributed(layer)(x)
    layer = getattr(of, kind)(4, return_sequences=sequences, **more)
    x = (of.Bidirectional(layer) if kind == "GRU" else layer)(x)
    model = drawn(rng, k.Model(inputs, of.Dense(2)(x)))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 4, 6, 5, 1)).astype("f4")


def first_step(rng):
    """A convolution at each step, and the first step itself, whose slice both share."""
    x = inputs = keras.Input((4, 6), batch_size=1)
    apart = L.TimeDistributed
    y = apart(L.Flatten())(apart(L.Conv1D(3, 2))(apart(L.Reshape((3, 2)))(x)))
    y = L.Add()([L.LSTM(6)(y), L.Lambda(lambda x: tf.transpose(x, [1, 0, 2])[0])(x)])
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(y)))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 4, 6)).astype("f4")


def other_rows(rng):
    """The rows of a reversed sequence, cut into other rows."""
    x = inputs = keras.Input((6, 4), batch_size=1)
    x = L.LSTM(3)(L.Reshape((4, 6))(L.Lambda(lambda x: tf.reverse(x, [1]))(x)))
    model = drawn(rng, keras.Model(inputs, x))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 6, 4)).astype("f4")


def residual(rng, blocks=30):
    """Layers around which each step is added, so that the ways to an output double with each, and the last step."""
    x = inputs = keras.Input((4, 3), batch_size=1)
    x = L.SimpleRNN(3, return_sequences=True)(x)
    for _ in range(blocks):
        x = L.Add()([x, L.Dense(3, activation="relu")(x)])
    model = drawn(rng, keras.Model(inputs, L.Dense(2)(x[:, -1])), 0.3)
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 4, 3)).astype("f4")


def with_state(rng):
    """The last output of an unrolled LSTM, and its last cell state."""
    x = inputs = keras.Input((5, 3), batch_size=1)
    y, _, c = L.LSTM(4, return_state=True, unroll=True)(x)
    model = drawn(rng, keras.Model(inputs, [y, c]))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert(), rng.normal(0, 1, (SEQUENCES, 5, 3)).astype("f4")


def recurrent(*kinds, sequences=True, **more):
    """Layers of these kinds, the last of which returns all steps or the last one."""
    def layers():
        count = len(kinds)
        made = [of(3 + k, return_sequences=k + 1 < count or sequences, **more) for k, of in enumerate(kinds)]
        return [*made, L.Dense(2)]
    return layers


def both_ways():
    return [L.Bidirectional(L.LSTM(3, return_sequences=True, unroll=True)), L.TimeDistributed(L.Dense(2, activation="tanh"))]


def hard():
    """Activations that take several operators, and the seeds of dropout, which are variables that nothing reads."""
    return [L.LSTM(4, activation="relu", recurrent_activation="hard_sigmoid", dropout=0.2, unroll=True), L.Dense(2)]


def mixed():
    """An unrolled layer behind a convolution and in front of a loop."""
    head = [L.Conv1D(4, 2, activation="relu"), L.GRU(4, return_sequences=True, unroll=True)]
    return [*head, L.Dense(3, activation="tanh"), L.LSTM(4), L.Dense(2)]


# By name: function and its arguments.
SAMPLE = [
    ("float_while_lstm", loops, dict(layers=recurrent(L.LSTM))),
    ("float_while_gru", loops, dict(layers=recurrent(L.GRU))),
    ("float_while_gru_reset_before", loops, dict(layers=recurrent(L.GRU, sequences=False, reset_after=False))),
    ("float_while_rnn", loops, dict(layers=recurrent(L.SimpleRNN))),
    ("float_while_stack", loops, dict(layers=recurrent(L.LSTM, L.GRU, L.SimpleRNN))),
    ("float_while_backwards", loops, dict(layers=recurrent(L.LSTM, sequences=False, go_backwards=True))),
    ("float_while_bidirectional", loops, dict(layers=lambda: [L.Bidirectional(L.SimpleRNN(3, return_sequences=True)), L.Dense(2)])),
    ("float_while_stateful", loops, dict(layers=recurrent(L.LSTM, stateful=True), calls=2)),
    ("float_while_half", loops, dict(layers=recurrent(L.LSTM), half=True)),
    ("float_while_one_step", loops, dict(layers=recurrent(L.LSTM), steps=1)),
    ("float_ports_mask", dtln, dict(half=1)),
    ("float_ports_echo", dtln, dict(half=2, echo=True)),
    ("float_ports_lstm", ports, dict(cell=L.LSTM)),
    ("float_ports_gru", ports, dict(cell=L.GRU, stacked=2)),
    ("float_two_inputs", two_inputs, {}),
    ("states_lstm", ports, dict(cell=L.LSTM, names=False)),
    ("float_pools", pools, {}),
    ("float_layer_norm", loops, dict(layers=lambda: [L.LayerNormalization(), L.SimpleRNN(3, return_sequences=True)])),
    ("hybrid_dense", dense, {}),
    ("hybrid_while_lstm", loops, dict(layers=lambda: [L.LSTM(16, return_sequences=True)], features=16, steps=3, hybrid=True)),
    ("hybrid_ports_mask", dtln, dict(half=1, units=16, size=16, layers=1, hybrid=True)),
    ("float_while_conv", loops, dict(layers=convolved, steps=11)),
    ("float_parts", parts, {}),
    ("float_fused_bidirectional", legacy, dict(layers=lambda k: [k.Bidirectional(k.LSTM(3, return_sequences=True)), k.Dense(2)])),
    ("float_while_empty_part", legacy, dict(layers=lambda k: [k.GRU(4, reset_after=False), k.Dense(2)])),
    ("float_unrolled_lstm", loops, dict(layers=recurrent(L.LSTM, unroll=True))),
    ("float_unrolled_stack", loops, dict(layers=recurrent(L.LSTM, L.GRU, L.SimpleRNN, sequences=False, unroll=True))),
    ("float_unrolled_gru_reset_before", loops, dict(layers=recurrent(L.GRU, sequences=False, unroll=True, reset_after=False))),
    ("float_unrolled_bidirectional", loops, dict(layers=both_ways)),
    # Its states start at zeros that a FILL makes.
    ("float_unrolled_batch", loops, dict(layers=recurrent(L.LSTM, sequences=False, unroll=True), batch=None)),
    ("float_unrolled_hard", loops, dict(layers=hard)),
    ("float_unrolled_by_hand", unrolled_by_hand, {}),
    ("refused_unrolled_order", unrolled_by_hand, dict(order=[0, 2, 1, 3, 4])),
    ("refused_unrolled_part", unrolled_by_hand, dict(order=range(4))),
    ("refused_unrolled_initial", unrolled_by_hand, dict(initial=0.5)),
    ("refused_unrolled_weights", unrolled_by_hand, dict(cells=2)),
    ("float_words_while", words, dict(layers=recurrent(L.LSTM), dtype="float32")),
    ("float_words_unrolled", words, dict(layers=recurrent(L.GRU, sequences=False, unroll=True))),
    ("float_words_pool", words, dict(layers=lambda: [L.GlobalAveragePooling1D(), L.Dense(2)], whole=True)),
    ("float_while_beside_a_window", beside_a_window, {}),
    ("float_unrolled_beside_a_window", beside_a_window, dict(unroll=True)),
    ("float_while_residual", residual, {}),
    ("float_while_both_last", loops, dict(layers=lambda: [L.Bidirectional(L.GRU(3, return_sequences=True)), L.Lambda(lambda x: x[:, -1]), L.Dense(2)])),
    ("refused_unrolled_state", with_state, {}),
    ("float_while_conv_both_ways", loops, dict(layers=lambda: [L.Conv1D(4, 3), L.Bidirectional(L.LSTM(3, return_sequences=True)), L.Dense(2)])),
    ("float_while_conv_norm", loops, dict(layers=lambda: [
        L.Conv1D(4, 3), L.LayerNormalization(), L.ReLU(), L.GRU(3, return_sequences=True), L.Dense(2)])),
    ("float_while_repeat", loops, dict(layers=lambda: [L.LSTM(4), L.RepeatVector(5), L.GRU(3, return_sequences=True), L.Dense(2)])),
    ("float_while_tags", loops, dict(layers=lambda: [
        L.Bidirectional(L.GRU(3, return_sequences=True)), L.TimeDistributed(L.Dense(3, activation="softmax"))])),
    ("float_while_log", loops, dict(layers=lambda: [L.Lambda(lambda x: keras.ops.log(keras.ops.square(x) + 1e-3)), *recurrent(L.LSTM)()])),
    ("float_while_beside_conv", beside_conv, {}),
    ("float_while_hard_of_keras_2", legacy, dict(layers=lambda k: [
        k.LSTM(4, recurrent_activation="hard_sigmoid", return_sequences=True), k.Dense(2)])),
    ("float_gated_causal", gated, {}),
    ("float_gated_same", gated, dict(padding="same", dilation=3)),
    ("float_normed_steps", legacy, dict(layers=lambda k: [
        k.LayerNormalization(), k.LSTM(4, return_sequences=True), k.LayerNormalization(), k.Dense(2)])),
    ("float_normed_conv", legacy, dict(layers=lambda k: [
        k.Conv1D(4, 3, padding="same"), k.LayerNormalization(center=False, scale=False), k.GRU(3), k.LayerNormalization(), k.Dense(2)])),
    ("float_normed_then_scaled", legacy, dict(layers=lambda k: [
        k.LayerNormalization(scale=False, epsilon=1e-5), k.Rescaling(2.5), k.LSTM(4, return_sequences=True), k.Dense(2)])),
    ("refused_norm_of_all_steps", legacy, dict(layers=lambda k: [k.LayerNormalization(axis=[1, 2]), k.LSTM(4)])),
    ("float_distributed_last", distributed, dict(k=keras)),
    ("float_distributed_steps_of_keras_2", distributed, dict(k=tf_keras, sequences=True)),
    ("float_distributed_both_ways", distributed, dict(k=keras, kind="GRU", sequences=True)),
    ("refused_distributed_order", distributed, dict(k=keras, order=[0, 2, 1, 3])),
    ("float_weighed_steps", weighed, dict(sequences=True)),
    ("float_weighed_whole", weighed, dict(whole=True)),
    ("float_distributed_and_first_step", first_step, {}),
    ("refused_reversed_rows", other_rows, {}),
]

# Kinds that `check` makes in addition.
OTHERS = [
    ("float_while_lstm_last", loops, dict(layers=recurrent(L.LSTM, L.LSTM, sequences=False))),
    ("float_while_exported", loops, dict(layers=recurrent(L.LSTM), exported=True)),
    ("float_while_relu", loops, dict(layers=recurrent(L.LSTM, activation="relu"))),
    ("float_while_stateful_stack", loops, dict(layers=recurrent(L.LSTM, L.GRU, stateful=True), calls=2)),
    ("float_while_bidirectional_stack", loops, dict(layers=lambda: [L.Bidirectional(L.GRU(3, return_sequences=True)), L.LSTM(4), L.Dense(2)])),
    ("float_ports_frame", dtln, dict(half=2)),
    ("float_unrolled_rnn", loops, dict(layers=recurrent(L.SimpleRNN, L.SimpleRNN, unroll=True))),
    ("float_unrolled_long", loops, dict(layers=recurrent(L.GRU, sequences=False, unroll=True), steps=40)),
    ("float_distributed_gru_of_keras_2", distributed, dict(k=tf_keras, kind="GRU")),
    ("float_distributed_rnn", distributed, dict(k=keras, kind="SimpleRNN", sequences=True)),
    ("float_weighed_both_ways", weighed, dict(both=True)),
    ("float_normed_pool", legacy, dict(layers=lambda k: [
        k.Conv1D(5, 3), k.LayerNormalization(scale=False), k.GlobalAveragePooling1D(), k.LayerNormalization(), k.Dense(2)])),
    ("float_gated_even", gated, dict(steps=8)),
    ("float_gated_in_front", gated, dict(padding="same", sequences=False)),
    ("float_gated_depthwise", gated, dict(padding="same", depthwise=True)),
    ("float_unrolled_mixed", loops, dict(layers=mixed)),
    ("float_unrolled_bidirectional_stack", loops, dict(layers=lambda: [
        L.Bidirectional(L.GRU(3, return_sequences=True, unroll=True)), L.Bidirectional(L.LSTM(4, unroll=True)), L.Dense(2)])),
]


def interpreter(content):
    try:
        made = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    except ValueError:
        # The reference kernels lack ELU.
        made = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    made.allocate_tensors()
    return made


def outputs(content, inputs):
    """The outputs of each sequence: [sequences, rows, classes]. Inputs other than those of frames are states."""
    all_rows = []
    for sequence in inputs:
        # Resetting the variables of an interpreter leaves out resource variables.
        made = interpreter(content)
        sources, targets = made.get_input_details(), made.get_output_details()
        frames, states = fed(made)
        shape = sources[frames[0]]["shape"]
        steps = int(np.prod(shape)) // (int(shape[-1]) if len(frames) > 1 else sequence.shape[-1])
        memory = {at: np.zeros(sources[at]["shape"], "f4") for at in states}
        rows = []
        for call in sequence.reshape(-1, steps, sequence.shape[-1]):
            first = 0
            for at in frames:
                width = sources[at]["shape"][-1] if len(frames) > 1 else call.shape[-1]
                part = np.ascontiguousarray(call[:, first:first + width], sources[at]["dtype"])
                made.set_tensor(sources[at]["index"], part.reshape(sources[at]["shape"]))
                first += width
            for at, value in memory.items():
                made.set_tensor(sources[at]["index"], value)
            made.invoke()
            shown = [k for k in range(len(targets)) if k not in states.values()]
            shown = [made.get_tensor(targets[k]["index"]) for k in shown]
            rows.append(np.concatenate([of.reshape(-1, of.shape[-1]) for of in shown], 1))
            memory = {at: made.get_tensor(targets[k]["index"]) for at, k in states.items()}
        all_rows.append(np.concatenate(rows))
    return np.array(all_rows)


def fed(made):
    """The inputs that take frames, and for each other input the output that is its next value, by their positions."""
    sources, targets = made.get_input_details(), made.get_output_details()
    signature = made.get_signature_list().get("serving_default", dict(inputs=[], outputs=[]))
    # Outputs without names have the order of the states, behind the first.
    states = sorted((name for name in signature["inputs"] if name.startswith("in_")), key=lambda name: (name[4:], name[3] != "h"))
    numbered = [f"output_{k + 1}" for k in range(len(states))]
    after = [name.replace("in_", "out_") for name in states]
    after = after if set(after) <= set(signature["outputs"]) else numbered
    runner = made._get_full_signature_list().get("serving_default")
    place = lambda details, index: [of["index"] for of in details].index(index)
    fed = {place(sources, runner["inputs"][a]): place(targets, runner["outputs"][b]) for a, b in zip(states, after)}
    for at, source in enumerate(sources):
        same = [k for k, target in enumerate(targets) if list(target["shape"]) == list(source["shape"])]
        if len(source["shape"]) == 4 and same:
            fed[at] = same[0]
    return [at for at in range(len(sources)) if at not in fed], fed


def case(rng, function, options):
    keras.utils.set_random_seed(int(rng.integers(1 << 31)))
    content, inputs = function(rng, **options)
    return content, inputs, outputs(content, inputs)


def write(only):
    for index, (name, function, options) in enumerate(SAMPLE):
        if not name.startswith(only):
            continue
        content, inputs, given = case(np.random.default_rng([SAMPLE_SEED, index]), function, options)
        with open(os.path.join(FOLDER, f"{name}.tflite"), "wb") as file:
            file.write(content)
        if not name.startswith("refused"):
            save_file({"input": inputs}, os.path.join(FOLDER, f"{name}.in.safetensors"))
            save_file({"output": given}, os.path.join(FOLDER, f"{name}.out.safetensors"))
        print(name, len(content), inputs.shape, given.shape)


def check(seed, count, tidegate, only):
    """Other networks of the sample's kinds, within TOLERANCE of the largest value if that exceeds 1."""
    worst, values = 0.0, 0
    sample = [of for of in SAMPLE + OTHERS if of[0].startswith(only) and of[0].startswith("float") and of[1] is not two_inputs and not of[2].get("echo")]
    for index in range(count):
        name, function, options = sample[index % len(sample)]
        content, inputs, given = case(np.random.default_rng([seed, index]), function, options)
        with tempfile.TemporaryDirectory() as folder:
            model, there, back = (os.path.join(folder, name) for name in ("x.tflite", "in.npy", "out.npy"))
            with open(model, "wb") as file:
                file.write(content)
            for sequence, expected in zip(inputs, given):
                np.save(there, sequence)
                subprocess.run([tidegate, "run", model, "--input", there, "--output", back], check=True)
                got, values = np.load(back).ravel()[-expected.size:], values + expected.size
                off = np.abs(got - expected.ravel()).max() / max(1.0, np.abs(expected).max())
                worst = max(worst, off)
                if not off <= TOLERANCE:
                    sys.exit(f"seed {seed}, {index} ({name}): off by {off:e}")
    print(f"{count} models of seed {seed}, {values} values: within {worst:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("--only", default="", help="only models whose names begin with this")
    checked = commands.add_parser("check")
    checked.add_argument("--seed", type=int, default=1)
    checked.add_argument("--count", type=int, default=20)
    checked.add_argument("--only", default="", help="only models whose names begin with this")
    checked.add_argument("--tidegate", required=True)
    given = parser.parse_args()
    if given.command == "write":
        write(given.only)
    else:
        check(given.seed, given.count, given.tidegate, given.only)
