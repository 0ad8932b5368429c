"""Writes frozen TensorFlow 1 graphs with TensorFlow and records their inputs and outputs.

    pip install -r tf1_graph.txt                       # also runs under TensorFlow 1.15 (tf1_checkpoint.contrib...)
    python tf1_graph.py OUT [--seed N] [--only NAME,...]

Each case is NAME.pb, the frozen graph, and NAME.safetensors: `input` [1, time, features], TensorFlow's `output`, and
`window` if the user must give the number of steps in a sequence, and `shape` if that of the input. Sizes and weights are drawn from the seed.
tf1_graph_contrib.py writes cells of tf.contrib, tf2_graph.py graphs that TensorFlow 2 froze.
"""

import argparse
import os
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow.compat.v1 as tf
from safetensors.numpy import save_file

tf.disable_v2_behavior()
tf.disable_control_flow_v2()
tf.disable_resource_variables()

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def open_time(build):
    """The graph does not fix the number of steps."""
    build.open = True
    return build


def windowed(build):
    """The graph does not fix the number of steps, and the user must give it."""
    build.window = True
    return open_time(build)


def unshaped(build):
    """The graph does not fix the shape of its input, and the user must give it."""
    build.unshaped = True
    return build


class Sizes:
    """Sizes of a case, drawn from its generator, and further values to feed."""

    def __init__(self, rng):
        self.rng = rng
        self.feed = {}
        self.features = int(rng.integers(2, 9))
        self.units = int(rng.integers(2, 12))
        self.steps = int(rng.integers(3, 9))

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def length(self, dtype=tf.int32):
        """A sequence_length that is fed: all steps."""
        length = tf.placeholder(dtype, [None], name="length")
        self.feed[length] = [self.steps]
        return length


def lstm(units, **arguments):
    return tf.nn.rnn_cell.LSTMCell(units, **arguments)


def gru(units, **arguments):
    return tf.nn.rnn_cell.GRUCell(units, **arguments)


def dynamic(cell, x, **arguments):
    return tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, **arguments)


def variable(name, *shape):
    return tf.get_variable(name, shape)


def classify(x, classes=3):
    weights, bias = variable("dense_w", int(x.shape[-1]), classes), variable("dense_b", classes)
    return tf.nn.softmax(tf.matmul(x, weights) + bias, name="labels_softmax")


# Cells in a while loop.


@case
def dynamic_basic_rnn(x, s):
    return dynamic(tf.nn.rnn_cell.BasicRNNCell(s.units), x)[0]


@case
def dynamic_basic_rnn_relu_last(x, s):
    return classify(dynamic(tf.nn.rnn_cell.BasicRNNCell(s.units, activation=tf.nn.relu), x)[1])


@case
def dynamic_basic_lstm(x, s):
    return dynamic(tf.nn.rnn_cell.BasicLSTMCell(s.units, forget_bias=0.5), x)[0]


@case
def dynamic_lstm_last_state(x, s):
    return classify(dynamic(lstm(s.units), x)[1].h)


@case
def dynamic_lstm_peephole(x, s):
    return dynamic(lstm(s.units, use_peepholes=True), x)[0]


@case
def dynamic_lstm_projection_clips(x, s):
    cell = lstm(s.units, use_peepholes=True, num_proj=s.number(1, 4), cell_clip=0.3, proj_clip=0.2)
    return dynamic(cell, x)[0]


@case
def dynamic_lstm_relu(x, s):
    return dynamic(lstm(s.units, activation=tf.nn.relu), x)[0]


@case
def dynamic_gru(x, s):
    return dynamic(gru(s.units), x)[0]


@case
def dynamic_gru_last_output(x, s):
    outputs, _ = dynamic(gru(s.units), x)
    return classify(outputs[:, -1, :])


@case
def dynamic_multi(x, s):
    return dynamic(tf.nn.rnn_cell.MultiRNNCell([lstm(s.units), gru(s.number(2, 7)), lstm(3)]), x)[0]


@case
def dynamic_wrappers(x, s):
    cells = [lstm(s.units), tf.nn.rnn_cell.ResidualWrapper(gru(s.units)), tf.nn.rnn_cell.DropoutWrapper(gru(4))]
    return dynamic(tf.nn.rnn_cell.MultiRNNCell(cells), x)[0]


@case
def dynamic_twice(x, s):
    outputs, _ = dynamic(lstm(s.units), x, scope="first")
    outputs, state = dynamic(gru(5), outputs, scope="second")
    return classify(state)


@case
def dynamic_time_major(x, s):
    outputs, _ = dynamic(lstm(s.units), tf.transpose(x, [1, 0, 2]), time_major=True)
    return tf.transpose(outputs, [1, 0, 2])


@case
@open_time
def dynamic_open(x, s):
    outputs, _ = dynamic(tf.nn.rnn_cell.MultiRNNCell([lstm(s.units), gru(4)]), x)
    return outputs


@case
def dense_before_and_after(x, s):
    x = tf.layers.dense(x, 6, activation=tf.nn.relu)
    outputs, _ = dynamic(gru(s.units), x)
    return tf.nn.softmax(tf.layers.dense(outputs, 4))


# Unrolled.


@case
def static_lstm(x, s):
    outputs, _ = tf.nn.static_rnn(lstm(s.units), tf.unstack(x, axis=1), dtype=tf.float32)
    return classify(outputs[-1])


@case
def static_multi(x, s):
    cell = tf.nn.rnn_cell.MultiRNNCell([gru(s.units), lstm(4, use_peepholes=True, num_proj=3)])
    outputs, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
    return tf.stack(outputs, axis=1)


@case
def static_split(x, s):
    """As in code of 2016: transposed, flattened, split."""
    x = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, s.features])
    x = tf.matmul(x, variable("hidden_w", s.features, 5)) + variable("hidden_b", 5)
    steps = tf.split(x, s.steps, 0)
    outputs, _ = tf.nn.static_rnn(tf.nn.rnn_cell.BasicLSTMCell(s.units), steps, dtype=tf.float32)
    return classify(outputs[-1])


@case
def static_bidirectional(x, s):
    outputs, _, _ = tf.nn.static_bidirectional_rnn(
        lstm(s.units), gru(4), tf.unstack(x, axis=1), dtype=tf.float32)
    return tf.stack(outputs, axis=1)


@case
def static_bidirectional_last(x, s):
    """At the last step the backward cell has taken one step."""
    outputs, _, _ = tf.nn.static_bidirectional_rnn(
        lstm(s.units), gru(4), tf.unstack(x, axis=1), dtype=tf.float32)
    return classify(outputs[-1])


@case
def static_bidirectional_first(x, s):
    outputs, _, _ = tf.nn.static_bidirectional_rnn(
        lstm(s.units), gru(4), tf.unstack(x, axis=1), dtype=tf.float32)
    return classify(outputs[0])


@case
def static_residual_bidirectional(x, s):
    """As in networks for the recognition of activities: layers in both directions, each behind products with all steps as
    rows, and their sums."""
    def products(rows, name):
        weights = variable(name, int(rows[0].shape[1]), s.units)
        return tf.split(tf.nn.relu(tf.matmul(tf.concat(rows, 0), weights)), s.steps, 0)

    def both_ways(rows, name):
        with tf.variable_scope(name):
            forward, _ = tf.nn.static_rnn(lstm(s.units), products(rows, "fw"), dtype=tf.float32, scope="forward")
            turned = products(rows, "bw")[::-1]
            backward, _ = tf.nn.static_rnn(lstm(s.units), turned, dtype=tf.float32, scope="backward")
        return [tf.concat(pair, 1) for pair in zip(forward, backward[::-1])]

    first = both_ways(tf.split(tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, s.features]), s.steps, 0), "one")
    second = both_ways(first, "two")
    return classify([a + b for a, b in zip(first, second)][-1])


# Both directions.


def both(forward, backward, x, **arguments):
    return tf.nn.bidirectional_dynamic_rnn(forward, backward, x, dtype=tf.float32, **arguments)


@case
def bidirectional_lstm(x, s):
    return tf.concat(both(lstm(s.units), lstm(s.units), x)[0], 2)


@case
def bidirectional_unlike(x, s):
    return tf.concat(both(gru(s.units), lstm(3, num_proj=2), x)[0], -1)


@case
def bidirectional_states(x, s):
    _, (forward, backward) = both(gru(s.units), gru(4), x)
    return classify(tf.concat([forward, backward], 1))


@case
def stack_bidirectional(x, s):
    """The computation of tf.contrib's stack_bidirectional_dynamic_rnn."""
    for k in range(2):
        with tf.variable_scope("stack_bidirectional_rnn/cell_%d" % k):
            x = tf.concat(both(lstm(s.units), lstm(s.units), x)[0], 2)
    return x


@case
@windowed
def bidirectional_open(x, s):
    """--window gives the number of steps."""
    return tf.concat(both(lstm(s.units), gru(s.units), x)[0], 2)


# Lengths.


@case
def length_constant(x, s):
    return dynamic(lstm(s.units), x, sequence_length=[s.steps])[0]


@case
def length_fed(x, s):
    return classify(dynamic(gru(s.units), x, sequence_length=s.length())[1])


@case
@open_time
def length_fed_open(x, s):
    cell = tf.nn.rnn_cell.MultiRNNCell([lstm(s.units, num_proj=3), gru(4)])
    return dynamic(cell, x, sequence_length=s.length(tf.int64))[0]


@case
def length_fed_bidirectional(x, s):
    return tf.concat(both(lstm(s.units), gru(4), x, sequence_length=s.length())[0], 2)


@case
def length_constant_bidirectional(x, s):
    _, (forward, backward) = both(lstm(s.units), lstm(4), x, sequence_length=tf.constant([s.steps], tf.int64))
    return classify(tf.concat([forward.h, backward.h], 1))


@case
@windowed
def length_fed_bidirectional_open(x, s):
    for k in range(2):
        with tf.variable_scope("cell_%d" % k):
            x = tf.concat(both(gru(s.units), gru(s.units), x, sequence_length=s.length())[0], 2)
    return x


@case
@open_time
def length_of_the_input(x, s):
    """The length is computed in the graph."""
    return dynamic(gru(s.units), x, sequence_length=tf.fill([tf.shape(x)[0]], tf.shape(x)[1]))[0]


@case
def length_static(x, s):
    cell = tf.nn.rnn_cell.BasicLSTMCell(s.units)
    outputs, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=s.length())
    return classify(outputs[-1])


@case
def length_static_constant(x, s):
    length = tf.constant([s.steps])
    outputs, _ = tf.nn.static_rnn(gru(s.units), tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=length)
    return tf.stack(outputs, axis=1)


@case
def length_static_bidirectional(x, s):
    outputs, _, _ = tf.nn.static_bidirectional_rnn(
        gru(s.units), gru(4), tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=s.length())
    return tf.stack(outputs, axis=1)


# Wrappers with values that are fed only in training.


@case
def dropout_fed(x, s):
    keep = tf.placeholder_with_default(1.0, [], name="keep_prob")
    cell = tf.nn.rnn_cell.DropoutWrapper(gru(s.units), input_keep_prob=keep, output_keep_prob=keep, state_keep_prob=keep)
    outputs, state = dynamic(tf.nn.rnn_cell.DeviceWrapper(cell, "/cpu:0"), x)
    return classify(tf.nn.dropout(state, keep_prob=keep))


@case
def dropout_one(x, s):
    cell = tf.nn.rnn_cell.DropoutWrapper(lstm(s.units), output_keep_prob=1.0)
    return classify(tf.nn.dropout(dynamic(cell, x)[1].h, rate=tf.constant(0.0)))


@case
def batch_norm_layer(x, s):
    y = tf.layers.batch_normalization(tf.layers.dense(x, 5), training=False)
    return classify(tf.layers.batch_normalization(dynamic(gru(s.units), y)[1], training=False, scale=False))


@case
def batch_norm_layer_fused(x, s):
    y = tf.layers.conv2d(tf.expand_dims(x, -1), 3, [2, 2])
    y = tf.nn.relu(tf.layers.batch_normalization(y, training=False, fused=True))
    y = tf.reshape(y, [-1, int(y.shape[1]), int(y.shape[2]) * int(y.shape[3])])
    return dynamic(gru(s.units), y)[0]


@case
def batch_norm_fed(x, s):
    training = tf.placeholder_with_default(False, [], name="training")
    y = tf.layers.batch_normalization(dynamic(lstm(s.units), x)[1].h, training=training)
    return classify(tf.layers.dropout(y, 0.5, training=training))


@case
def last_relevant(x, s):
    """The output at the sequence's length, selected as is usual."""
    length = s.length()
    outputs, _ = dynamic(gru(s.units), x, sequence_length=length)
    rows = tf.range(tf.shape(outputs)[0])
    return classify(tf.gather_nd(outputs, tf.stack([rows, length - 1], axis=1)))


# Whole cells and sequences as one op.


@case
def block_lstm(x, s):
    weights = variable("kernel", s.features + s.units, 4 * s.units)
    zeros, peephole = tf.zeros([1, s.units]), tf.zeros([s.units])
    op = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(s.steps, tf.int64), x=tf.transpose(x, [1, 0, 2]), cs_prev=zeros, h_prev=zeros, w=weights,
        wci=peephole, wcf=peephole, wco=peephole, b=variable("bias", 4 * s.units), forget_bias=1.0, cell_clip=0.0,
        use_peephole=False)
    return tf.transpose(op.h, [1, 0, 2])


@case
def block_lstm_peephole(x, s):
    weights = variable("kernel", s.features + s.units, 4 * s.units)
    zeros = tf.zeros([1, s.units])
    op = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(s.steps, tf.int64), x=tf.transpose(x, [1, 0, 2]), cs_prev=zeros, h_prev=zeros, w=weights,
        wci=variable("wci", s.units), wcf=variable("wcf", s.units), wco=variable("wco", s.units),
        b=variable("bias", 4 * s.units), forget_bias=0.3, cell_clip=0.2, use_peephole=True)
    return classify(op.h[-1])


class BlockCell(tf.nn.rnn_cell.RNNCell):
    """LSTMBlockCell and GRUBlockCell of tf.contrib."""

    def __init__(self, kind, units, features):
        super(BlockCell, self).__init__()
        self.kind, self.units, self.features = kind, units, features

    @property
    def output_size(self):
        return self.units

    @property
    def state_size(self):
        return tf.nn.rnn_cell.LSTMStateTuple(self.units, self.units) if self.kind == "lstm" else self.units

    def __call__(self, x, state, scope=None):
        units, rows = self.units, self.features + self.units
        with tf.variable_scope(scope or self.kind, reuse=tf.AUTO_REUSE):
            if self.kind == "lstm":
                peephole = tf.zeros([units])
                op = tf.raw_ops.LSTMBlockCell(
                    x=x, cs_prev=state[0], h_prev=state[1], w=variable("kernel", rows, 4 * units), wci=peephole,
                    wcf=peephole, wco=peephole, b=variable("bias", 4 * units), forget_bias=1.0, cell_clip=-1.0)
                return op.h, tf.nn.rnn_cell.LSTMStateTuple(op.cs, op.h)
            op = tf.raw_ops.GRUBlockCell(
                x=x, h_prev=state, w_ru=variable("w_ru", rows, 2 * units), w_c=variable("w_c", rows, units),
                b_ru=variable("b_ru", 2 * units), b_c=variable("b_c", units))
            return op.h, op.h


@case
def lstm_block_cell(x, s):
    return dynamic(BlockCell("lstm", s.units, s.features), x)[0]


@case
def gru_block_cell(x, s):
    return dynamic(BlockCell("gru", s.units, s.features), x)[0]


@case
def gru_block_cell_unrolled(x, s):
    cell = BlockCell("gru", s.units, s.features)
    outputs, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
    return classify(outputs[-1])


# Keras in a TensorFlow 1 graph.


@case
def keras_lstm(x, s):
    return tf.keras.layers.LSTM(s.units, return_sequences=True, recurrent_activation="hard_sigmoid")(x)


@case
def keras_gru(x, s):
    return classify(tf.keras.layers.GRU(s.units, activation="linear", reset_after=False)(x))


@case
def keras_gru_unrolled(x, s):
    return classify(tf.keras.layers.GRU(s.units, reset_after=False, unroll=True)(x))


@case
def keras_simple_rnn(x, s):
    return tf.keras.layers.SimpleRNN(s.units, return_sequences=True)(x)


# Convolutions and normalization in front of cells.


def normalized(x, name):
    width = int(x.shape[-1])
    with tf.variable_scope(name):
        return tf.nn.batch_normalization(
            x, variable("mean", width), variable("variance", width), variable("offset", width),
            variable("scale", width), 1e-3)


@case
def conv_image(x, s):
    """A convolution along time and frequency, as in Hello Edge's CRNN."""
    image = tf.expand_dims(x, -1)
    y = tf.nn.conv2d(image, variable("w", 3, 2, 1, 4), [1, 2, 1, 1], "VALID")
    y = tf.nn.relu(y + variable("b", 4))
    y = tf.reshape(y, [-1, int(y.shape[1]), int(y.shape[2]) * int(y.shape[3])])
    return classify(dynamic(gru(s.units), y)[1])


@case
def conv_1d_same(x, s):
    y = tf.nn.conv1d(x, variable("w", 3, s.features, 5), 1, "SAME")
    y = tf.nn.relu(tf.nn.bias_add(y, variable("b", 5)))
    return classify(dynamic(lstm(s.units), y)[1].h)


@case
def conv_1d_batch_norm(x, s):
    y = tf.nn.conv1d(x, variable("w", 2, s.features, 5), 1, "VALID")
    y = tf.nn.relu(normalized(tf.nn.bias_add(y, variable("b", 5)), "norm"))
    return dynamic(gru(s.units), y)[0]


@case
def dense_batch_norm(x, s):
    outputs, _ = dynamic(gru(s.units), normalized(x, "front"))
    y = tf.matmul(outputs[:, -1], variable("w", s.units, 6)) + variable("b", 6)
    return classify(tf.nn.relu(normalized(y, "norm")))


@case
def flattened(x, s):
    outputs, _ = dynamic(gru(s.units), x)
    return classify(tf.reshape(outputs, [-1, s.steps * s.units]))


@case
def conv_fused_batch_norm_pool(x, s):
    y = tf.nn.conv2d(tf.expand_dims(x, -1), variable("w", 2, 2, 1, 3), [1, 1, 1, 1], "VALID")
    y, _, _ = tf.raw_ops.FusedBatchNorm(
        x=y, scale=variable("scale", 3), offset=variable("offset", 3), mean=variable("mean", 3),
        variance=variable("variance", 3), is_training=False)[:3]
    y = tf.nn.max_pool(tf.nn.relu(y), [1, 2, 1, 1], [1, 1, 1, 1], "VALID")
    y = tf.reshape(y, [-1, int(y.shape[1]), int(y.shape[2]) * int(y.shape[3])])
    return dynamic(gru(s.units), y)[0]


@case
def depthwise_conv(x, s):
    """Convolutions of each channel on its own, along time and frequency, as in DS-CNN."""
    y = tf.nn.depthwise_conv2d(tf.expand_dims(x, -1), variable("w", 3, 2, 1, 4), [1, 1, 1, 1], "VALID")
    y = tf.nn.relu(normalized(tf.nn.bias_add(y, variable("b", 4)), "norm"))
    y = tf.nn.depthwise_conv2d(y, variable("v", 1, 2, 4, 2), [1, 1, 1, 1], "SAME")
    y = tf.nn.conv2d(tf.nn.relu(y), variable("p", 1, 1, 8, 3), [1, 1, 1, 1], "VALID")
    y = tf.reshape(y, [-1, int(y.shape[1]), int(y.shape[2]) * int(y.shape[3])])
    return classify(dynamic(gru(s.units), y)[1])


@case
@unshaped
def of_unknown_rank(x, s):
    return classify(dynamic(lstm(s.units), x)[1].h)


@case
def last_gathered(x, s):
    """The last step by its number in a time-major sequence, as in networks for activities."""
    outputs = tf.transpose(dynamic(lstm(s.units), x)[0], [1, 0, 2])
    return classify(tf.gather(outputs, s.steps - 1))


@case
def pooled_over_time(x, s):
    """The mean and the greatest value of each feature over all steps."""
    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(lstm(s.units), lstm(s.units), x, dtype=tf.float32)
    outputs = tf.concat([fw, bw], 2)
    most = tf.reduce_max(tf.transpose(outputs, [1, 0, 2]), 0)
    return classify(tf.concat([tf.reduce_mean(outputs, 1), most], 1))


def padded_conv(x, name, taps, units, dilation=1, stride=1, behind=0):
    """A convolution that sees past steps only, unless there are zeros behind the steps."""
    x = tf.pad(x, [[0, 0], [(taps - 1) * dilation - behind, behind], [0, 0]])
    weights = variable(name, taps, int(x.shape[-1]), units)
    return tf.nn.conv1d(x, weights, stride, "VALID", dilations=dilation)


@case
def causal_gated(x, s):
    """As WaveNet: gated convolutions of past steps, with growing dilation, and sums."""
    for k in range(3):
        gate = tf.sigmoid(padded_conv(x, "gate_%d" % k, 2, s.units, 2**k))
        x = tf.tanh(padded_conv(x, "value_%d" % k, 2, s.units, 2**k)) * gate
    return tf.nn.conv1d(x, variable("out", 1, s.units, 3), 1, "SAME")


@case
def causal_strided(x, s):
    return dynamic(lstm(s.units), padded_conv(x, "conv", 3, 5, stride=2))[0]


@case
def padded_both(x, s):
    """Zeros in front of the steps and behind them."""
    return padded_conv(x, "conv", 3, 5, behind=1) + variable("bias", 5)


@case
@unshaped
def unshaped_dense(x, s):
    """The first product shows the number of features."""
    rows = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, s.features])
    rows = tf.nn.relu(tf.matmul(rows, tf.get_variable("hidden", [s.features, s.units])))
    steps = tf.split(rows, s.steps, 0)
    return classify(tf.nn.static_rnn(lstm(s.units), steps, dtype=tf.float32)[0][-1])


def values(rng, name, shape):
    low, high = (0.3, 1.5) if name.endswith(("variance", "scale", "gamma")) else (-0.8, 0.8)
    return rng.uniform(low, high, shape).astype(np.float32)


def save(folder, name, frozen, x, y, window=None, shape=None):
    with open(os.path.join(folder, name + ".pb"), "wb") as file:
        file.write(frozen.SerializeToString())
    tensors = {"input": x, "output": np.ascontiguousarray(y)}
    if window is not None:
        tensors["window"] = np.array([window], np.float32)
    if shape is not None:
        tensors["shape"] = np.array(shape, np.float32)
    save_file(tensors, os.path.join(folder, name + ".safetensors"))


def write(folder, name, seed):
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    sizes, build = Sizes(rng), CASES[name]
    graph = tf.Graph()
    with graph.as_default(), tf.Session(graph=graph) as session:
        steps = None if hasattr(build, "open") else sizes.steps
        shape = [1, steps, sizes.features]
        x = tf.placeholder(tf.float32, None if hasattr(build, "unshaped") else shape, name="features")
        x.set_shape(shape)
        y = tf.identity(build(x, sizes), name="output")
        for each in tf.global_variables():
            session.run(each.initializer)
            if each.dtype.base_dtype == tf.float32:
                each.load(values(rng, each.op.name, each.shape.as_list()), session)
        data = rng.uniform(-1.5, 1.5, [1, sizes.steps, sizes.features]).astype(np.float32)
        expected = session.run(y, {x: data, **sizes.feed})
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), [y.op.name])
    save(folder, name, frozen, data, expected, sizes.steps if hasattr(build, "window") else None,
         shape if hasattr(build, "unshaped") else None)


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
