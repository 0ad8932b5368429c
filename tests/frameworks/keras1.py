"""Writes models with Keras 1 and records their outputs.

    python3.6 -m venv venv && venv/bin/pip install -r tests/frameworks/keras1.requirements.txt
    venv/bin/python tests/frameworks/keras1.py FOLDER [SEED]

`model.save` writes NAME.h5, `model.save_weights` NAME.weights.h5; keras_golden.py describes the files beside them. The
sample in tests/frameworks/keras1 is seed 1.
"""

import json
import os
import warnings

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")

import keras  # noqa: E402
from keras import layers as L  # noqa: E402
from keras.models import Model, Sequential  # noqa: E402
from keras_golden import Chance, Net, each, expected, options, rows, spread, write  # noqa: E402


def sequential(shape, *layers, **batch):
    model = Sequential()
    first = layers[0]
    config = dict(first.get_config(), batch_input_shape=[batch.get("batch")] + list(shape))
    model.add(type(first).from_config(config))
    for layer in layers[1:]:
        model.add(layer)
    return model


def alone(cls, known=True, last=True, batch=None, sequences=1, activations=False, **args):
    """One recurrent layer. If the length of the sequence is unknown, every step counts."""

    def build(c):
        given = dict(args)
        if activations:
            given["activation"] = c.activation()
            if cls != "SimpleRNN":
                given["inner_activation"] = c.pick("sigmoid", "hard_sigmoid", "tanh")
        if given.get("activation") == "relu":
            c.grows = True
        layer = getattr(L, cls)(c.size(3), return_sequences=not last, **given)
        model = sequential([c.size(4, 9) if known else None, c.size()], layer, batch=batch)
        return Net(model, sequences=sequences if known else 1, prefixes=last and not known)

    return build


def stack(c):
    return Net(sequential(
        [c.size(4, 9), c.size()],
        L.LSTM(c.size(3), return_sequences=True, consume_less="gpu"), L.Dropout(0.3),
        L.GRU(c.size(3), return_sequences=True, consume_less="mem"), L.SimpleRNN(c.size(3)),
        L.Dense(c.size(), activation=c.pick("relu", "tanh"), bias=c.flag()), L.Dense(c.size(2, 5)), L.Activation("softmax"),
    ), sequences=2)


def stateful_stack(c):
    return Net(sequential(
        [c.size(2, 5), c.size()], L.GRU(c.size(3), return_sequences=True, stateful=True), L.LSTM(c.size(3), stateful=True),
        L.Dense(c.size(2, 5)), batch=1,
    ), sequences=3)


def bidirectional(cls, mode, last, known=True, **args):
    def build(c):
        layer = L.Bidirectional(getattr(L, cls)(c.size(3), return_sequences=not last, **args), merge_mode=mode)
        model = sequential([c.size(4, 8) if known else None, c.size()], layer, L.Dense(c.size(2, 4)) if last else
                           L.TimeDistributed(L.Dense(c.size(2, 4))))
        return Net(model, sequences=c.pick(1, 2) if known else 1, window=not known)

    return build


def time_distributed(c):
    return Net(sequential(
        [None, c.size()], L.TimeDistributed(L.Dense(c.size(), activation="relu")), L.GRU(c.size(3), return_sequences=True),
        L.TimeDistributed(L.Dense(c.size(2, 5), activation="softmax")),
    ))


def masked(known, *make):
    def build(c):
        layers = [layer(c) for layer in make]
        model = sequential([c.size(5, 9) if known else None, c.size()], L.Masking(0.0), *layers)
        return Net(model, mask=0.0, sequences=2 if known else 1)

    return build


def embedded(zero):
    def build(c):
        words, steps = c.size(5, 20), c.size(5, 9)
        model = Sequential()
        model.add(L.Embedding(words, c.size(), mask_zero=zero, input_length=steps))
        model.add(L.LSTM(c.size(3)))
        model.add(L.Dense(c.size(2, 5), activation="softmax"))
        text = lambda shape: c.rng.randint(0, words, shape) * (c.rng.uniform(size=shape) > (0.3 if zero else 0))
        return Net(model, inputs=text, sequences=2)

    return build


def merged(mode):
    """Two recurrent layers over one input."""

    def build(c):
        x, units = L.Input([c.size(4, 8), c.size()]), c.size(3)
        y = L.merge([L.LSTM(units)(x), L.GRU(units)(x)], mode=mode)
        return Net(Model(x, L.Dense(c.size(2, 4), activation="softmax")(y)), sequences=2)

    return build


def two_branches(c):
    """Sequential over the merge of two Sequentials, with two inputs."""
    steps = c.size(4, 8)
    left = sequential([steps, c.size()], L.LSTM(c.size(3)))
    right = sequential([steps, c.size()], L.GRU(c.size(3)))
    model = Sequential()
    model.add(L.Merge([left, right], mode="concat"))
    model.add(L.Dense(3, activation="softmax"))
    return Net(model, sequences=2)


def two_outputs(c):
    x = L.Input([c.size(4, 8), c.size()])
    y = L.GRU(c.size(3), return_sequences=True)(x)
    outputs = [L.Dense(c.size(2, 4), activation="softmax")(L.LSTM(c.size(3))(y)),
               L.TimeDistributed(L.Dense(1, activation="sigmoid"))(y)]
    return Net(Model(x, outputs))


def nested(c):
    units = c.size(3)
    x = L.Input([c.size(4, 8), c.size()])
    head = sequential([units], L.Dense(c.size(), activation="relu"), L.Dense(2, activation="softmax"))
    return Net(Model(x, head(L.LSTM(units)(x))), sequences=2)


def keywords_conv1d(c):
    return Net(sequential(
        [c.size(14, 20), c.size(4, 9)],
        L.Convolution1D(c.size(4), 3, subsample_length=c.pick(1, 2), border_mode="valid"), L.BatchNormalization(),
        L.Activation("relu"), L.Convolution1D(c.size(4), 3, border_mode="same", activation="tanh", bias=c.flag()),
        L.MaxPooling1D(2), L.GRU(c.size(4)), L.Dense(c.size(2, 5), activation="softmax"),
    ))


def keywords_conv2d(c):
    time, wide, filters, stride = c.size(11, 15), c.size(7, 9), c.size(2, 4), c.pick(1, 2)
    return Net(sequential(
        [time, wide], L.Reshape([time, wide, 1]),
        L.Convolution2D(filters, 3, 4, subsample=(stride, 2), dim_ordering="tf"), L.BatchNormalization(axis=3),
        L.Activation("relu"), L.Reshape([(time - 3) // stride + 1, ((wide - 4) // 2 + 1) * filters]),
        L.GRU(c.size(4)), L.Dense(c.size(2, 5), activation="softmax"),
    ), sequences=2)


def conv_lstm(c):
    return Net(sequential(
        [c.size(3, 5), c.size(4, 7), c.size(4, 7), c.size(1, 2)],
        L.ConvLSTM2D(c.size(2, 3), 3, 2, border_mode=c.pick("same", "valid"), dim_ordering="tf",
                     inner_activation=c.pick("sigmoid", "hard_sigmoid")), L.Flatten(), L.Dense(3),
    ))


def pooled(name):
    def build(c):
        return Net(sequential(
            [c.size(5, 9), c.size()], L.Bidirectional(L.GRU(c.size(3), return_sequences=True)), getattr(L, name)(), L.Dense(3)
        ))

    return build


def flattened(c):
    return Net(sequential(
        [c.size(4, 6), c.size()], L.SimpleRNN(c.size(3), return_sequences=True), L.Flatten(), L.ELU(0.7),
        L.Dense(c.size(), activation="softsign"), L.LeakyReLU(0.2), L.Dense(2),
    ))


def repeated(c):
    steps, size = c.size(4, 7), c.size()
    return Net(sequential(
        [steps, size], L.LSTM(c.size(3)), L.RepeatVector(steps), L.LSTM(c.size(3), return_sequences=True),
        L.TimeDistributed(L.Dense(size)),
    ))


def trained(c):
    return Net(sequential([c.size(4, 8), c.size()], L.GRU(c.size(3), name="ears"), L.Dense(2, name="decision")), compiled=True)


def weights(c):
    inputs, units, classes, steps = c.size(), c.size(3), c.size(2, 5), c.size(4, 8)
    model = sequential([steps, inputs], L.LSTM(units, return_sequences=True, name="below"), L.GRU(units, name="above"),
                       L.Dense(classes, activation="softmax", name="head"))
    arch = {"framework": "keras1", "inputs": [{"name": "input", "size": inputs, "steps": steps}], "layers": [
        {"name": "below", "class": "LSTM", "args": {"return_sequences": True}},
        {"name": "above", "class": "GRU", "args": {"return_sequences": False}},
        {"name": "head", "class": "Dense", "args": {"activation": "softmax"}},
    ]}
    return Net(model, sequences=2, arch=arch)


def weights_json(c):
    model = sequential([c.size(4, 8), c.size()], L.Convolution1D(c.size(), 3), L.BatchNormalization(),
                       L.Bidirectional(L.LSTM(c.size(3))), L.Dense(3))
    return Net(model, arch="json")


MODELS = {
    "lstm": alone("LSTM", sequences=2),
    "lstm_stream": alone("LSTM", known=False, last=False),
    "lstm_stream_last": alone("LSTM", known=False),
    "lstm_sigmoid": alone("LSTM", inner_activation="sigmoid"),
    "lstm_activations": alone("LSTM", activations=True),
    "lstm_gpu": alone("LSTM", consume_less="gpu"),
    "lstm_mem": alone("LSTM", consume_less="mem", sequences=2),
    "lstm_backwards": alone("LSTM", go_backwards=True),
    "lstm_stateful": alone("LSTM", batch=1, sequences=3, stateful=True),
    "lstm_unrolled": alone("LSTM", unroll=True),
    "gru": alone("GRU"),
    "gru_stream": alone("GRU", known=False, last=False),
    "gru_activations": alone("GRU", activations=True),
    "gru_gpu": alone("GRU", consume_less="gpu", inner_activation="sigmoid"),
    "gru_backwards_sequence": alone("GRU", last=False, go_backwards=True),
    "simple_rnn": alone("SimpleRNN", sequences=2),
    "simple_rnn_relu": alone("SimpleRNN", known=False, last=False, activation="relu"),
    "stack": stack,
    "stateful_stack": stateful_stack,
    "bidirectional_concat": bidirectional("LSTM", "concat", False),
    "bidirectional_sum": bidirectional("GRU", "sum", True),
    "bidirectional_mul": bidirectional("LSTM", "mul", True, consume_less="gpu"),
    "bidirectional_ave": bidirectional("SimpleRNN", "ave", False, known=False),
    "time_distributed": time_distributed,
    "masking": masked(True, lambda c: L.LSTM(c.size(3)), lambda c: L.Dense(3)),
    "masking_stream": masked(False, lambda c: L.GRU(c.size(3), return_sequences=True)),
    "masking_bidirectional": masked(True, lambda c: L.Bidirectional(L.LSTM(c.size(3), return_sequences=True))),
    "embedding": embedded(False),
    "embedding_mask": embedded(True),
    "merged_concat": merged("concat"),
    "merged_sum": merged("sum"),
    "merged_mul": merged("mul"),
    "merged_ave": merged("ave"),
    "two_branches": two_branches,
    "two_outputs": two_outputs,
    "nested": nested,
    "keywords_conv1d": keywords_conv1d,
    "keywords_conv2d": keywords_conv2d,
    "conv_lstm": conv_lstm,
    "pooled_average": pooled("GlobalAveragePooling1D"),
    "pooled_max": pooled("GlobalMaxPooling1D"),
    "flattened": flattened,
    "repeated": repeated,
    "trained": trained,
    "weights": weights,
    "weights_json": weights_json,
}


def main():
    given = options(__doc__)
    for name, build in each(MODELS, given):
        keras.backend.clear_session()
        keras.backend.set_learning_phase(0)
        chance = Chance(given.seed, name)
        net = build(chance)
        model = net.model
        shapes = [x._keras_shape[1:] for x in model.inputs]
        spread(model, chance, lambda w: w.get_shape().as_list())
        if net.compiled:
            keras.backend.set_learning_phase(1)
            model.compile("adam", "mse")
            x = [chance.normal([1] + list(shape)) for shape in shapes]
            model.fit(x, chance.normal([1] + list(model.output_shape[1:])), verbose=0, nb_epoch=1)
        file = name + (".h5" if net.arch is None else ".weights.h5")
        (model.save if net.arch is None else model.save_weights)(os.path.join(given.folder, file))
        inputs = rows(net, chance, shapes)

        def predict(values):
            y = model.predict(values if len(values) > 1 else values[0], batch_size=1)
            return y if isinstance(y, list) else [y]

        outputs = expected(net, inputs, shapes, predict)
        arch = json.loads(model.to_json()) if net.arch == "json" else net.arch
        write(given.folder, name, file, net, inputs, outputs, {"framework": "keras1", "keras": keras.__version__}, arch)


main()
