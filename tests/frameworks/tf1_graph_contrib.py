"""Writes frozen graphs with the cells of tf.contrib; tf1_graph.py writes those with tf.nn.

    pip install -r tf1_checkpoint.contrib.requirements.txt       # Python 3.7: TensorFlow 1.15
    python tf1_graph_contrib.py OUT [--seed N] [--only NAME,...]
"""

import sys

import tensorflow as tensorflow

from tensorflow.contrib.rnn.python.ops import rnn_cell as more

import tf1_graph
from tf1_graph import both, classify, dynamic, gru, lstm, tf, windowed

tf1_graph.CASES.clear()
contrib, cudnn = tensorflow.contrib.rnn, tensorflow.contrib.cudnn_rnn


def case(build):
    tf1_graph.CASES["contrib_" + build.__name__] = build
    return build


def of(name, make):
    """A cell in a while loop, and an unrolled one."""
    tf1_graph.CASES["contrib_" + name] = lambda x, s: dynamic(make(s), x)[0]
    tf1_graph.CASES["contrib_%s_static" % name] = lambda x, s: tf.stack(
        tf.nn.static_rnn(make(s), tf.unstack(x, axis=1), dtype=tf.float32)[0], axis=1)


of("lstm_block", lambda s: contrib.LSTMBlockCell(s.units, forget_bias=0.7))
of("lstm_block_peephole", lambda s: contrib.LSTMBlockCell(s.units, use_peephole=True, cell_clip=0.3))
of("gru_block", lambda s: contrib.GRUBlockCellV2(s.units))
of("gru_block_first", lambda s: contrib.GRUBlockCell(s.units))
of("cudnn_lstm", lambda s: cudnn.CudnnCompatibleLSTMCell(s.units))
of("cudnn_gru", lambda s: cudnn.CudnnCompatibleGRUCell(s.units))
of("coupled_lstm", lambda s: contrib.CoupledInputForgetGateLSTMCell(s.units))
of("coupled_lstm_peephole", lambda s: contrib.CoupledInputForgetGateLSTMCell(s.units, use_peepholes=True, num_proj=3))
of("layer_norm_basic_lstm", lambda s: contrib.LayerNormBasicLSTMCell(s.units))
of("layer_norm_off_lstm", lambda s: contrib.LayerNormBasicLSTMCell(s.units, layer_norm=False))
of("layer_norm_lstm", lambda s: more.LayerNormLSTMCell(s.units, use_peepholes=True, layer_norm=True))
of("weight_norm_lstm", lambda s: more.WeightNormLSTMCell(s.units))
of("ugrnn", lambda s: contrib.UGRNNCell(s.units))
of("sru", lambda s: contrib.SRUCell(s.units))
of("indrnn", lambda s: contrib.IndRNNCell(s.units))
of("indy_gru", lambda s: contrib.IndyGRUCell(s.units))
of("indy_lstm", lambda s: contrib.IndyLSTMCell(s.units))
of("highway", lambda s: contrib.HighwayWrapper(gru(s.features)))
of("residual", lambda s: contrib.ResidualWrapper(lstm(s.features)))
of("input_projection", lambda s: contrib.InputProjectionWrapper(gru(s.units), 4))
of("output_projection", lambda s: contrib.OutputProjectionWrapper(gru(s.units), 4))


@case
def lstm_block_fused(x, s):
    outputs, _ = contrib.LSTMBlockFusedCell(s.units)(tf.transpose(x, [1, 0, 2]), dtype=tf.float32)
    return tf.transpose(outputs, [1, 0, 2])


@case
def lstm_block_fused_length(x, s):
    cell = contrib.LSTMBlockFusedCell(s.units, use_peephole=True, cell_clip=0.4)
    _, state = cell(tf.transpose(x, [1, 0, 2]), dtype=tf.float32, sequence_length=s.length())
    return classify(state.h)


@case
def time_reversed(x, s):
    time_first = tf.transpose(x, [1, 0, 2])
    with tf.variable_scope("fw"):
        forward, _ = contrib.LSTMBlockFusedCell(s.units)(time_first, dtype=tf.float32)
    with tf.variable_scope("bw"):
        cell = contrib.TimeReversedFusedRNN(contrib.LSTMBlockFusedCell(3))
        backward, _ = cell(time_first, dtype=tf.float32, sequence_length=s.length())
    return tf.transpose(tf.concat([forward, backward], 2), [1, 0, 2])


@case
def stack_bidirectional(x, s):
    cells = lambda: [lstm(s.units, use_peepholes=True), gru(3)]
    return contrib.stack_bidirectional_dynamic_rnn(cells(), cells(), x, dtype=tf.float32)[0]


@case
@windowed
def stack_bidirectional_length(x, s):
    cells = lambda: [lstm(s.units), gru(3)]
    return contrib.stack_bidirectional_dynamic_rnn(
        cells(), cells(), x, dtype=tf.float32, sequence_length=s.length())[0]


@case
def bidirectional_lstm_block(x, s):
    outputs, _ = both(contrib.LSTMBlockCell(s.units), contrib.GRUBlockCellV2(3), x, sequence_length=s.length())
    return tf.concat(outputs, 2)


if __name__ == "__main__":
    sys.exit(tf1_graph.main())
