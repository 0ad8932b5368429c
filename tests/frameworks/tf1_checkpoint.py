"""Writes checkpoints with TensorFlow and records the outputs of the networks in them.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/tf1_checkpoint.requirements.txt
    venv/bin/python tests/frameworks/tf1_checkpoint.py FOLDER [SEED]

Each network is trained for a few steps by an optimizer, so that the optimizer's slots are in the file too, and saved by
`tf.compat.v1.train.Saver` as NAME.ckpt.*. The files beside it are NAME.json with the architecture if the names do not
determine it (`--arch`), and NAME.golden.safetensors with one input sequence [steps, features], the output, and in its
metadata `model`, `arch` and `window`. The sample in tests/frameworks/tf1_checkpoint is seed 1.

CudnnLSTM and CudnnGRU run only on a GPU. Their checkpoints hold the variables of the cells with which TensorFlow runs
them elsewhere, under other names; this script creates the variables with those names.

Under TensorFlow 1.15 (tf1_checkpoint.contrib.requirements.txt) the script writes networks with the cells of tf.contrib,
including those that stand in for cuDNN's, and with tf.layers. That sample is tests/frameworks/tf1_checkpoint_contrib.
"""

import argparse
import json
import os
import warnings

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tensorflow
from safetensors.numpy import save_file

tf = tensorflow.compat.v1
tf.disable_v2_behavior()
warnings.filterwarnings("ignore")
tf.logging.set_verbosity(tf.logging.ERROR)

RNN = tf.nn.rnn_cell
BATCH = 2


def size(rng, low=3, high=9):
    return int(rng.randint(low, high + 1))


class Net:
    """The result of a builder: tensors of the graph, and the description that a user would write."""

    def __init__(self, output, layers=None, window=None, feed=None, variables=None, lens=None, unused=(), ids=None):
        self.output, self.layers, self.window = output, layers, window
        self.feed, self.variables, self.lens, self.unused = feed, variables, lens, list(unused)
        # The inputs are integers below this number, fed through the placeholder.
        self.ids = ids


def layer(name, cls, prefix=None, inputs=None, take=None, tensors=None, **args):
    described = {"name": name, "class": cls}
    if take is not None:
        described["take"] = take
    if tensors is not None:
        described["tensors"] = tensors
    if args:
        described["args"] = args
    if inputs is not None:
        described["inputs"] = inputs
    if prefix is not None:
        described["prefix"] = prefix
    return described


def cell_net(make, cls, scope, **args):
    """One cell under dynamic_rnn with its constructor's arguments."""

    def build(x, rng):
        output, _ = tf.nn.dynamic_rnn(make(), x, dtype=x.dtype)
        return Net(output, [layer("rnn", cls, "rnn/" + scope, **args)])

    return build


def simple(cls, scope, number="num_units", **args):
    """A cell whose arguments are exactly those of its description; functions are given by name."""

    def build(x, rng):
        units = size(rng)
        given = {name: getattr(tf.nn, value) if name == "activation" else value for name, value in args.items()}
        cell = getattr(RNN, cls)(units, **given)
        output, _ = tf.nn.dynamic_rnn(cell, x, dtype=x.dtype)
        return Net(output, [layer("rnn", cls, "rnn/" + scope, **dict(args, **{number: units}))])

    return build


def partitioned(x, rng):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(3)):
        output, _ = tf.nn.dynamic_rnn(RNN.LSTMCell(6, use_peepholes=True, num_proj=5), x, dtype=x.dtype)
    return Net(output, [layer("rnn", "LSTMCell", "rnn/lstm_cell", num_units=6, use_peepholes=True, num_proj=5)])


def multi(x, rng):
    sizes = [size(rng) for _ in range(3)]
    output, _ = tf.nn.dynamic_rnn(RNN.MultiRNNCell([RNN.LSTMCell(n) for n in sizes]), x, dtype=x.dtype)
    calls = ["LSTMCell(%d)" % n for n in sizes]
    return Net(output, [layer("rnn", "MultiRNNCell", "rnn/multi_rnn_cell", cells=calls)])


def mixed(x, rng):
    a, b, c = (size(rng) for _ in range(3))
    cells = [RNN.BasicLSTMCell(a, forget_bias=0.5), RNN.GRUCell(b), RNN.BasicRNNCell(c)]
    output, _ = tf.nn.dynamic_rnn(RNN.MultiRNNCell(cells), x, dtype=x.dtype)
    calls = ["BasicLSTMCell(%d, forget_bias=0.5)" % a, "GRUCell(%d)" % b, "BasicRNNCell(%d)" % c]
    return Net(output, [layer("rnn", "MultiRNNCell", "rnn/multi_rnn_cell", cells=calls)])


def layers_apart(x, rng):
    """Two calls of dynamic_rnn in separate scopes: two layers of the description."""
    a, b = size(rng), size(rng)
    with tf.variable_scope("first"):
        hidden, _ = tf.nn.dynamic_rnn(RNN.GRUCell(a), x, dtype=x.dtype)
    with tf.variable_scope("second"):
        output, _ = tf.nn.dynamic_rnn(RNN.BasicLSTMCell(b), hidden, dtype=x.dtype)
    return Net(output, [layer("first", "GRUCell", "first/rnn/gru_cell"), layer("second", "BasicLSTMCell", "second/rnn")])


def residual(x, rng):
    units = int(x.shape[2])
    output, _ = tf.nn.dynamic_rnn(RNN.ResidualWrapper(RNN.LSTMCell(units)), x, dtype=x.dtype)
    return Net(output, [layer("rnn", "ResidualWrapper", "rnn", cell="LSTMCell(%d)" % units)])


def dropout(x, rng):
    keep = tf.placeholder_with_default(1.0, [])
    cell = RNN.DeviceWrapper(RNN.DropoutWrapper(RNN.GRUCell(5), output_keep_prob=keep), "/cpu:0")
    output, _ = tf.nn.dynamic_rnn(cell, x, dtype=x.dtype)
    return Net(output, [layer("rnn", "DropoutWrapper", "rnn", cell="GRUCell(5)", output_keep_prob=0.5)])


def static(x, rng):
    units = size(rng)
    outputs, _ = tf.nn.static_rnn(RNN.BasicLSTMCell(units), tf.unstack(x, axis=1), dtype=x.dtype)
    return Net(tf.stack(outputs, axis=1), [layer("rnn", "BasicLSTMCell", "rnn/basic_lstm_cell", num_units=units)])


def lengths(x, rng):
    lens = np.array([int(x.shape[1]) - 2, int(x.shape[1])], np.int32)
    output, _ = tf.nn.dynamic_rnn(RNN.LSTMCell(5), x, sequence_length=tf.constant(lens), dtype=x.dtype)
    return Net(output, [layer("rnn", "LSTMCell", "rnn/lstm_cell")], lens=lens)


def bidirectional(make, call, lens=None):
    def build(x, rng):
        steps = int(x.shape[1])
        length = None if lens is None else np.array([steps - 3, steps], np.int32)
        given = None if lens is None else tf.constant(length)
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(make(), make(), x, sequence_length=given, dtype=x.dtype)
        layers = [layer("rnn", "bidirectional_dynamic_rnn", "bidirectional_rnn", cell_fw=call, cell_bw=call)]
        return Net(tf.concat(outputs, 2), layers, window=steps, lens=length)

    return build


def static_bidirectional(x, rng):
    a, b = size(rng), size(rng)
    rows = tf.unstack(x, axis=1)
    outputs, _, _ = tf.nn.static_bidirectional_rnn(RNN.GRUCell(a), RNN.LSTMCell(b), rows, dtype=x.dtype)
    calls = {"cell_fw": "GRUCell(%d)" % a, "cell_bw": "LSTMCell(%d)" % b}
    layers = [layer("rnn", "static_bidirectional_rnn", "bidirectional_rnn", **calls)]
    return Net(tf.stack(outputs, axis=1), layers, window=int(x.shape[1]))


def stacked_bidirectional(x, rng):
    sizes = [size(rng), size(rng)]
    y = stack(x, lambda k: RNN.LSTMCell(sizes[k]), 2)
    calls = ["LSTMCell(%d)" % n for n in sizes]
    layers = [layer("rnn", "stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn", cells=calls)]
    return Net(y, layers, window=int(x.shape[1]))


def stack(x, make, count):
    """The computation of contrib's stack_bidirectional_dynamic_rnn, which it calls."""
    with tf.variable_scope("stack_bidirectional_rnn"):
        for k in range(count):
            with tf.variable_scope("cell_%d" % k):
                outputs, _ = tf.nn.bidirectional_dynamic_rnn(make(k), make(k), x, dtype=x.dtype)
                x = tf.concat(outputs, 2)
    return x


def dense(x, units, scope, activation=None):
    with tf.variable_scope(scope):
        kernel = tf.get_variable("kernel", [int(x.shape[-1]), units], x.dtype)
        bias = tf.get_variable("bias", [units], x.dtype)
    y = tf.tensordot(x, kernel, 1) + bias
    return y if activation is None else activation(y)


def classifier(x, rng):
    units, hidden, classes = size(rng), size(rng), size(rng)
    y, _ = tf.nn.dynamic_rnn(RNN.BasicLSTMCell(units), x, dtype=x.dtype)
    y = dense(dense(y, hidden, "dense", tf.nn.relu), classes, "dense_1", tf.nn.softmax)
    layers = [
        layer("rnn", "BasicLSTMCell", "rnn/basic_lstm_cell"),
        layer("dense", "Dense", activation="relu"),
        layer("dense_1", "Dense", activation="softmax"),
    ]
    return Net(y, layers)


def unused(x, rng):
    """A checkpoint that holds more than the network: a moving average, and a layer used only in training."""
    y, _ = tf.nn.dynamic_rnn(RNN.GRUCell(6), x, dtype=x.dtype)
    dense(y, 3, "auxiliary/dense")
    return Net(y, [layer("rnn", "GRUCell", "rnn")], unused=["auxiliary"])


def two_shards(x, rng):
    with tf.device("/cpu:1"):
        return mixed(x, rng)


def cudnn_lstm(count, both, scope="cudnn_lstm", head=False):
    def build(x, rng):
        units = size(rng)
        # The cell that corresponds to CudnnLSTM's checkpoints: an LSTM without a forget bias.
        make = lambda k: RNN.BasicLSTMCell(units, forget_bias=0.0, name="cudnn_compatible_lstm_cell")
        with tf.variable_scope(scope):
            if both:
                y = stack(x, make, count)
            else:
                y, _ = tf.nn.dynamic_rnn(RNN.MultiRNNCell([make(k) for k in range(count)]), x, dtype=x.dtype)
        window = int(x.shape[1]) if both else None
        # Slots of the opaque buffer are saved in the buffer's own layout.
        tf.get_variable(scope + "/opaque_kernel/Adam", [8 * units * units], x.dtype, trainable=False)
        if not head:
            return Net(y, window=window)
        cls = {"num_layers": count, "direction": "bidirectional" if both else "unidirectional"}
        layers = [layer("lstm", "CudnnLSTM", scope, **cls), layer("logits", "Dense", activation="softmax")]
        return Net(dense(y, 4, "logits", tf.nn.softmax), layers, window=window)

    return build


def cudnn_gru(count, both, scope="cudnn_gru"):
    """The variables have CudnnGRU's names. Keras's GRU with the reset behind the product computes the same equations.
    """

    def build(x, rng):
        units, steps, width, feed = size(rng), int(x.shape[1]), int(x.shape[2]), {}
        variables = []
        values = lambda *shape: rng.uniform(-0.6, 0.6, shape).astype(np.float32)
        y = x
        for k in range(count):
            outputs = []
            for direction in ("fw", "bw") if both else ("",):
                kernel, recurrent, biases = values(width, 3 * units), values(units, 3 * units), values(2, 3 * units)
                cell = tensorflow.keras.layers.GRU(units, reset_after=True, return_sequences=True,
                                                   recurrent_activation="sigmoid", go_backwards=direction == "bw")
                out = cell(y)
                outputs.append(tf.reverse(out, [1]) if direction == "bw" else out)
                feed[cell] = [kernel, recurrent, biases]
                # Keras's gate order is z, r, h, TensorFlow's r, u. TensorFlow keeps the sum of the two biases of a
                # gate.
                z, r, h = (slice(j * units, (j + 1) * units) for j in range(3))
                path = "rnn/multi_rnn_cell/cell_%d" % k
                if both:
                    path = "stack_bidirectional_rnn/cell_%d/bidirectional_rnn/%s" % (k, direction)
                path = "%s/%s/cudnn_compatible_gru_cell/" % (scope, path)
                total = biases[0] + biases[1]
                both_sides = np.concatenate([kernel, recurrent])
                for name, value in [
                    ("gates/kernel", np.concatenate([both_sides[:, r], both_sides[:, z]], 1)),
                    ("gates/bias", np.concatenate([total[r], total[z]])),
                    ("candidate/input_projection/kernel", kernel[:, h]),
                    ("candidate/input_projection/bias", biases[0][h]),
                    ("candidate/hidden_projection/kernel", recurrent[:, h]),
                    ("candidate/hidden_projection/bias", biases[1][h]),
                ]:
                    variables.append((tf.Variable(value, name=path + name), value))
            y = tf.concat(outputs, 2) if both else outputs[0]
            width = int(y.shape[2])
        return Net(y, window=steps if both else None, feed=feed, variables=variables)

    return build


CORE = {
    "basic_rnn": simple("BasicRNNCell", "basic_rnn_cell"),
    "basic_rnn_relu": simple("BasicRNNCell", "basic_rnn_cell", activation="relu"),
    "basic_lstm": simple("BasicLSTMCell", "basic_lstm_cell"),
    "basic_lstm_forget_0": simple("BasicLSTMCell", "basic_lstm_cell", forget_bias=0.0),
    "basic_lstm_relu": simple("BasicLSTMCell", "basic_lstm_cell", activation="relu", forget_bias=2.5),
    "gru": simple("GRUCell", "gru_cell"),
    "gru_softsign": simple("GRUCell", "gru_cell", activation="softsign"),
    "lstm": simple("LSTMCell", "lstm_cell"),
    "lstm_peepholes": simple("LSTMCell", "lstm_cell", use_peepholes=True),
    "lstm_projection": simple("LSTMCell", "lstm_cell", num_proj=4, proj_clip=0.4, cell_clip=0.9),
    "lstm_all": simple("LSTMCell", "lstm_cell", use_peepholes=True, num_proj=3, cell_clip=0.7, forget_bias=0.5),
    "partitioned": partitioned,
    "multi": multi,
    "multi_mixed": mixed,
    "layers_apart": layers_apart,
    "residual": residual,
    "dropout": dropout,
    "static": static,
    "lengths": lengths,
    "bidirectional_lstm": bidirectional(lambda: RNN.LSTMCell(5), "LSTMCell(5)"),
    "bidirectional_gru": bidirectional(lambda: RNN.GRUCell(4), "GRUCell(4)"),
    "bidirectional_lengths": bidirectional(lambda: RNN.BasicLSTMCell(6), "BasicLSTMCell(6)", lens=True),
    "bidirectional_static": static_bidirectional,
    "bidirectional_stack": stacked_bidirectional,
    "classifier": classifier,
    "unused": unused,
    "two_shards": two_shards,
    "double": simple("LSTMCell", "lstm_cell"),
    "cudnn_lstm_1": cudnn_lstm(1, False),
    "cudnn_lstm_2": cudnn_lstm(2, False),
    "cudnn_lstm_1_bidirectional": cudnn_lstm(1, True),
    "cudnn_lstm_2_bidirectional": cudnn_lstm(2, True),
    "cudnn_lstm_scope": cudnn_lstm(2, False, "model/encoder/cudnn_lstm"),
    "cudnn_lstm_classifier": cudnn_lstm(2, False, head=True),
    "cudnn_lstm_classifier_bidirectional": cudnn_lstm(1, True, head=True),
    "cudnn_gru_1": cudnn_gru(1, False),
    "cudnn_gru_2": cudnn_gru(2, False),
    "cudnn_gru_1_bidirectional": cudnn_gru(1, True),
    "cudnn_gru_2_bidirectional": cudnn_gru(2, True),
}


def contrib():
    """Cells that only TensorFlow 1 has."""
    c, cudnn = tensorflow.contrib.rnn, tensorflow.contrib.cudnn_rnn

    def of(cls, scope, module=c, number="num_units", units=None, **args):
        def build(x, rng):
            n = units or size(rng)
            given = {name: getattr(tf.nn, value) if name == "activation" else value for name, value in args.items()}
            output, _ = tf.nn.dynamic_rnn(getattr(module, cls)(n, **given), x, dtype=x.dtype)
            return Net(output, [layer("rnn", cls, "rnn/" + scope, **dict(args, **{number: n}))])

        return build

    def stack_of_contrib(make, call):
        def build(x, rng):
            y, _, _ = c.stack_bidirectional_dynamic_rnn([make(), make()], [make(), make()], x, dtype=x.dtype)
            layers = [layer("rnn", "stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn", cells=[call, call])]
            return Net(y, layers, window=int(x.shape[1]))

        return build

    def canonical(cls, scope, count, both):
        def build(x, rng):
            units = size(rng)
            make = lambda: getattr(cudnn, cls)(units)
            with tf.variable_scope(scope):
                if both:
                    cells = [make() for _ in range(count)], [make() for _ in range(count)]
                    y, _, _ = c.stack_bidirectional_dynamic_rnn(cells[0], cells[1], x, dtype=x.dtype)
                else:
                    y, _ = tf.nn.dynamic_rnn(RNN.MultiRNNCell([make() for _ in range(count)]), x, dtype=x.dtype)
            return Net(y, window=int(x.shape[1]) if both else None)

        return build

    models = {
        "lstm_block": of("LSTMBlockCell", "lstm_cell", use_peephole=True),
        "gru_block": of("GRUBlockCellV2", "gru_cell"),
        "layer_norm_lstm": of("LayerNormBasicLSTMCell", "layer_norm_basic_lstm_cell"),
        "coupled_lstm": of("CoupledInputForgetGateLSTMCell", "coupled_input_forget_gate_lstm_cell", use_peepholes=True),
        "glstm": of("GLSTMCell", "glstm_cell", units=6, number_of_groups=1),
        "nas": of("NASCell", "nas_cell", use_bias=True),
        "ugrnn": of("UGRNNCell", "ugrnn_cell"),
        "indrnn": of("IndRNNCell", "ind_rnn_cell"),
        "indy_lstm": of("IndyLSTMCell", "indy_lstm_cell"),
        "indy_gru": of("IndyGRUCell", "indy_gru_cell"),
        "sru": of("SRUCell", "sru_cell"),
        "stack_bidirectional": stack_of_contrib(lambda: RNN.LSTMCell(4), "LSTMCell(4)"),
    }
    for cell in ("LSTM", "GRU"):
        for count in (1, 2):
            for both in (False, True):
                name = "compatible_%s_%d%s" % (cell.lower(), count, "_bidirectional" if both else "")
                scope = "cudnn_" + cell.lower()
                models[name] = canonical("CudnnCompatible%sCell" % cell, scope, count, both)
    return models


def whole_layers():
    """Stateless layers around cells and alone, as tf.layers and its functions in TensorFlow 1 create them."""
    layers, contrib = tf.layers, tensorflow.contrib.layers

    def gru(x, units, scope):
        return tf.nn.dynamic_rnn(RNN.GRUCell(units), x, dtype=x.dtype, scope=scope)[0]

    def conv_gru(x, rng):
        a, b = size(rng), size(rng)
        y = layers.conv1d(x, a, 3, activation=tf.nn.relu)
        y = layers.batch_normalization(y)
        described = [layer("conv1d", "Conv1D", filters=a, kernel_size=3, activation="relu"),
                     layer("batch_normalization", "BatchNormalization"), layer("rnn", "GRUCell", "rnn/gru_cell")]
        return Net(gru(y, b, "rnn"), described)

    def conv_strided(x, rng):
        y = layers.conv1d(x, size(rng), 2, strides=2, use_bias=False, name="front")
        y = tf.nn.tanh(layers.batch_normalization(y, center=False, epsilon=0.01, name="front/norm"))
        return Net(y, [layer("front", "Conv1D", strides=2, use_bias=False),
                       layer("norm", "BatchNormalization", "front/norm", center=False, epsilon=0.01),
                       layer("tanh", "tanh")])

    def conv_same(x, rng):
        y = layers.conv1d(x, size(rng), 3, padding="same", dilation_rate=2)
        y = layers.conv1d(y, size(rng), 4, strides=3, padding="same", activation=tf.nn.elu)
        return Net(y, [layer("conv1d", "Conv1D", padding="same", dilation_rate=2),
                       layer("conv1d_1", "Conv1D", padding="SAME", strides=[3], activation="elu")], window=int(x.shape[1]))

    def spotter(x, rng):
        """A convolution over time and frequency, two GRUs, two dense layers: the CRNN of Hello Edge."""
        steps, width = int(x.shape[1]), int(x.shape[2])
        filters, units, hidden, classes = size(rng), size(rng), size(rng), size(rng)
        image = tf.reshape(x, [-1, steps, width, 1])
        y = layers.conv2d(image, filters, [3, 2], strides=(2, 1), activation=tf.nn.relu)
        y = layers.batch_normalization(y)
        features = int(y.shape[2]) * filters
        y = tf.reshape(y, [-1, int(y.shape[1]), features])
        y = gru(gru(y, units, "first"), units, "second")[:, -1]
        y = layers.dense(layers.dense(y, hidden, tf.nn.relu), classes, tf.nn.softmax)
        return Net(y, [
            layer("image", "reshape", shape=[-1, steps, width, 1]),
            layer("conv2d", "Conv2D", kernel_size=[3, 2], strides=[2, 1], activation="relu"),
            layer("batch_normalization", "BatchNormalization"),
            layer("features", "reshape", shape=[-1, int(steps - 1) // 2, features]),
            layer("first", "GRUCell", "first/gru_cell"),
            layer("second", "GRUCell", "second/gru_cell", take="last"),
            layer("dense", "Dense", units=hidden, activation="relu"),
            layer("dense_1", "Dense", activation="softmax"),
        ], window=steps)

    def spotter_same(x, rng):
        """The same with a zero-padded convolution and pooling."""
        steps, width = int(x.shape[1]), int(x.shape[2])
        image = tf.expand_dims(x, -1)
        y = layers.conv2d(image, size(rng), (4, 3), strides=(2, 2), padding="same", name="conv")
        y = layers.max_pooling2d(tf.nn.relu(y), (2, 2), (1, 1), padding="same")
        y = layers.conv2d(y, size(rng), (1, 2), padding="same", name="conv_b")
        y = layers.average_pooling2d(y, 2, 1, padding="same")
        y = tf.reshape(y, [-1, int(y.shape[1]), int(y.shape[2]) * int(y.shape[3])])
        y = layers.dense(gru(y, size(rng), "rnn")[:, -1], size(rng), name="logits")
        return Net(y, [
            layer("conv", "Conv2D", strides=[2, 2], padding="same"), layer("relu", "relu"),
            layer("pool", "MaxPooling2D", pool_size=[2, 2], strides=[1, 1], padding="same"),
            layer("conv_b", "Conv2D", padding="same"),
            layer("mean", "AveragePooling2D", pool_size=2, strides=1, padding="same"),
            layer("rnn", "GRUCell", take="last"), layer("logits", "Dense"),
        ], window=steps)

    def separable(x, rng):
        y = layers.separable_conv1d(x, size(rng), 3, depth_multiplier=2, activation=tf.nn.relu)
        return Net(gru(y, 4, "rnn"), [
            layer("separable_conv1d", "SeparableConv1D", depth_multiplier=2, activation="relu"), layer("rnn", "GRUCell")])

    def separable_image(x, rng):
        y = layers.conv2d(tf.expand_dims(x, -1), 3, 2, padding="same", name="conv")
        y = layers.separable_conv2d(y, size(rng), (3, 2), strides=2, padding="same", name="ds")
        y = layers.flatten(layers.batch_normalization(y, name="norm"))
        return Net(layers.dense(y, 5, name="out"), [
            layer("conv", "Conv2D", padding="same"), layer("ds", "SeparableConv2D", strides=[2, 2], padding="same"),
            layer("norm", "BatchNormalization"), layer("flatten", "Flatten"), layer("out", "Dense")], window=int(x.shape[1]))

    def pooled(x, rng):
        y = layers.max_pooling1d(layers.conv1d(x, size(rng), 2), 2, 1)
        y = layers.average_pooling1d(y, 2, 2)
        return Net(y, [layer("conv1d", "Conv1D"), layer("max", "MaxPooling1D", pool_size=2, strides=1),
                       layer("mean", "AveragePooling1D", pool_size=2, strides=2)])

    def mean_over_time(x, rng):
        y = tf.reduce_mean(gru(x, size(rng), "rnn"), 1)
        return Net(layers.dense(y, 4), [layer("rnn", "GRUCell"), layer("mean", "reduce_mean", axis=1), layer("dense", "Dense")],
                   window=int(x.shape[1]))

    def flattened(x, rng):
        y = layers.dense(layers.flatten(x), size(rng), tf.nn.sigmoid)
        y = layers.dense(layers.dropout(y, 0.4), size(rng), use_bias=False)
        return Net(y, [layer("flatten", "Flatten"), layer("dense", "Dense", activation="sigmoid"),
                       layer("dropout", "Dropout", rate=0.4), layer("dense_1", "Dense", use_bias=False)], window=int(x.shape[1]))

    def embedded(x, rng):
        words, width, units = size(rng, 10, 20), size(rng), size(rng)
        table = tf.get_variable("Model/embedding", [words, width], x.dtype)
        y = tf.nn.embedding_lookup(table, tf.cast(tf.squeeze(x, 2), tf.int32))
        y, _ = tf.nn.dynamic_rnn(RNN.BasicLSTMCell(units), y, dtype=x.dtype, scope="Model/RNN")
        # As in the tutorial: weights without a scope of their own.
        softmax_w = tf.get_variable("Model/softmax_w", [units, words], x.dtype)
        softmax_b = tf.get_variable("Model/softmax_b", [words], x.dtype)
        logits = tf.matmul(tf.reshape(y, [-1, units]), softmax_w) + softmax_b
        return Net(tf.reshape(logits, [-1, int(x.shape[1]), words]), [
            layer("words", "embedding_lookup", tensors={"params": "Model/embedding"}),
            layer("rnn", "BasicLSTMCell", "Model/RNN/basic_lstm_cell"),
            layer("rows", "reshape", shape=[-1, units]),
            layer("logits", "Dense", tensors={"kernel": "Model/softmax_w", "bias": "Model/softmax_b"}),
        ], ids=words)

    def embedded_parts(x, rng):
        words, width = size(rng, 10, 20), size(rng)
        table = tf.get_variable("table", [words, width], x.dtype, partitioner=tf.fixed_size_partitioner(3))
        y = tf.nn.embedding_lookup(table, tf.cast(tf.squeeze(x, 2), tf.int32), partition_strategy="div")
        return Net(gru(y, size(rng), "rnn"), [
            layer("words", "embedding_lookup", tensors={"params": "table"}, partition_strategy="div"),
            layer("rnn", "GRUCell")], ids=words)

    def raw(x, rng):
        """A cell under static_rnn and unnamed variables, as in many tutorials."""
        units, classes = size(rng), size(rng)
        outputs, _ = tf.nn.static_rnn(RNN.BasicLSTMCell(units, forget_bias=1.0), tf.unstack(x, axis=1), dtype=x.dtype)
        weights = {"out": tf.Variable(tf.random_normal([units, classes]))}
        biases = {"out": tf.Variable(tf.random_normal([classes]))}
        return Net(tf.matmul(outputs[-1], weights["out"]) + biases["out"], [
            layer("rnn", "BasicLSTMCell", take="last"),
            layer("out", "Dense", tensors={"kernel": "Variable", "bias": "Variable_1"})], window=int(x.shape[1]))

    def slim(x, rng):
        y = contrib.batch_norm(gru(x, size(rng), "rnn"), is_training=False)
        y = contrib.fully_connected(contrib.fully_connected(y, size(rng)), size(rng), activation_fn=None)
        return Net(y, [layer("rnn", "GRUCell"), layer("BatchNorm", "batch_norm"),
                       layer("fully_connected", "fully_connected"),
                       layer("fully_connected_1", "fully_connected", activation_fn=None)])

    def normalized(x, rng):
        y = contrib.layer_norm(gru(x, size(rng), "rnn"), begin_norm_axis=2)
        y = tensorflow.keras.layers.LayerNormalization(epsilon=0.1, center=False, name="last")(y)
        return Net(y, [layer("rnn", "GRUCell"), layer("LayerNorm", "layer_norm", begin_norm_axis=2),
                       layer("last", "LayerNormalization", epsilon=0.1, center=False)])

    def branches(x, rng):
        a, b = layers.dense(x, 4, tf.nn.tanh, name="a"), layers.dense(x, 4, name="b")
        both = tf.concat([a * b, a + b], 2)
        return Net(gru(both, size(rng), "rnn"), [
            layer("a", "Dense", inputs=["input"], activation="tanh"), layer("b", "Dense", inputs=["input"]),
            layer("product", "Multiply", inputs=["a", "b"]), layer("sum", "Add", inputs=["a", "b"]),
            layer("both", "Concat", inputs=["product", "sum"]), layer("rnn", "GRUCell")])

    return {
        "conv_gru": conv_gru, "conv_strided": conv_strided, "conv_same": conv_same, "conv_spotter": spotter,
        "conv_spotter_same": spotter_same, "separable_conv": separable, "separable_conv_2d": separable_image,
        "pooled": pooled, "mean_over_time": mean_over_time, "flattened": flattened, "embedding": embedded,
        "raw_variables": raw, "contrib_layers": slim, "layer_normalization": normalized, "branches": branches,
        "embedding_partitioned": embedded_parts,
    }


OPTIMIZERS = [
    lambda: tf.train.AdamOptimizer(0.01),
    lambda: tf.train.MomentumOptimizer(0.01, 0.9),
    lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.1),
    lambda: tf.train.GradientDescentOptimizer(0.01),
]


def write(name, build, seed, out):
    rng = np.random.RandomState(seed)
    inputs, steps = size(rng, 3, 6), size(rng, 6, 10)
    dtype = tf.float64 if name == "double" else tf.float32
    shards = 2 if name == "two_shards" else 1
    tf.reset_default_graph()
    tf.set_random_seed(seed)
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": shards})) as session:
        if name.startswith("embedding"):
            inputs = 1
        x = tf.placeholder(dtype, [BATCH, steps, inputs], name="input")
        net = build(x, rng)
        trained = [variable for variable, _ in net.variables or []] or tf.trainable_variables()
        made_here = set(variable.name for variable in trained)
        step = tf.train.get_or_create_global_step()
        if net.variables:
            loss = tf.add_n([tf.reduce_sum(variable ** 2) for variable in trained])
        else:
            loss = tf.reduce_sum((net.output - 0.5) ** 2) + tf.add_n([tf.reduce_sum(v ** 2) for v in trained])
        # cuDNN networks use Adam, which has the most slots.
        optimizer = OPTIMIZERS[0 if "cudnn" in name else seed % len(OPTIMIZERS)]()
        train = optimizer.minimize(loss, global_step=step, var_list=trained)
        session.run(tf.global_variables_initializer())
        for variable in trained:
            variable.load(rng.uniform(-0.6, 0.6, variable.shape.as_list()), session)
        for variable in tf.global_variables():
            if "/moving_" in variable.op.name:
                low = -0.5 if variable.op.name.endswith("mean") else 0.2
                variable.load(rng.uniform(low, 2.0, variable.shape.as_list()), session)
        data = rng.uniform(-1.0, 1.0, x.shape.as_list())
        if net.ids:
            data = rng.randint(0, net.ids, x.shape.as_list())
        for _ in range(3):
            session.run(train, {x: data})
        for cell, weights in (net.feed or {}).items():
            cell.set_weights(weights)
        for variable, value in net.variables or []:
            variable.load(value, session)
        output = session.run(net.output, {x: data})
        keras = {variable.name for cell in net.feed or {} for variable in cell.weights}
        saved = [variable for variable in tf.global_variables() if variable.name not in keras]
        assert made_here <= set(variable.name for variable in saved)
        saver = tf.train.Saver(saved, sharded=shards > 1)
        saver.save(session, os.path.join(out, name + ".ckpt"), write_meta_graph=False, write_state=False)
    # The first sequence, up to its length. A window is padded with zeros.
    end = steps if net.lens is None else int(net.lens[0])
    tensors = {"input": data[0, :end], "output": output[0] if net.window else output[0, :end]}
    tensors = {key: np.ascontiguousarray(value, dtype=np.float32) for key, value in tensors.items()}
    metadata = {"model": name + ".ckpt", "seed": str(seed), "tensorflow": tensorflow.__version__}
    if net.window:
        metadata["window"] = str(net.window)
    if net.layers:
        arch = {"inputs": [{"name": "input", "size": inputs}], "layers": net.layers}
        if net.unused:
            arch["unused"] = net.unused
        metadata["arch"] = name + ".json"
        with open(os.path.join(out, name + ".json"), "w") as file:
            json.dump(arch, file, indent=1)
            file.write("\n")
    save_file(tensors, os.path.join(out, name + ".golden.safetensors"), metadata)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    models = dict(contrib(), **whole_layers()) if tensorflow.__version__.startswith("1.") else CORE
    for number, (name, build) in enumerate(models.items()):
        write(name, build, 1000 * options.seed + number, options.folder)
        print(name)


main()
