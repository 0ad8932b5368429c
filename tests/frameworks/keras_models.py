"""Networks that Keras 2 and Keras 3 build with the same calls. keras2.py and keras3.py write them."""

import numpy as np

from keras_golden import Net


class Kit:
    """A Keras module and the differences between the versions."""

    def __init__(self, keras, chance, three):
        self.keras, self.layers, self.chance, self.three = keras, keras.layers, chance, three

    def sequential(self, shape, *layers, **options):
        """`shape` is the shape of a sequence: [steps or None, ...]. Keras 2 takes it in the first layer's arguments."""
        shape = [options.pop("batch", None)] + list(shape)
        if self.three:
            return self.keras.Sequential([self.keras.Input(batch_shape=shape)] + list(layers), **options)
        model = self.keras.models.Sequential(**options)
        first = layers[0]
        model.add(type(first).from_config(dict(first.get_config(), batch_input_shape=shape)))
        for layer in layers[1:]:
            model.add(layer)
        return model

    def functional(self, inputs, outputs):
        make = getattr(self.keras, "Model", None) or self.keras.models.Model
        return make(inputs, outputs)

    def gate(self, model, name):
        return model.get_layer(name).get_config()["recurrent_activation"]

    def input(self, *shape, **options):
        batch = options.pop("batch", None)
        make = getattr(self.keras, "Input", None) or self.layers.Input
        return make(batch_shape=[batch] + list(shape), **options)


def alone(cls, known=True, last=True, batch=None, sequences=1, activations=False, fixed=None, **args):
    """One recurrent layer. If the length of the sequence is unknown, every step counts."""

    def build(k):
        c = k.chance
        given = dict(args)
        if activations:
            given["activation"] = c.activation()
            if cls != "SimpleRNN":
                given["recurrent_activation"] = c.gate()
        if given.get("activation") in ("relu", "linear"):
            c.grows = True
        layer = getattr(k.layers, cls)(fixed or c.size(3), return_sequences=not last, **given)
        shape = [c.size(4, 9) if known else None, c.size()]
        model = k.sequential(shape, layer, batch=batch)
        return Net(model, sequences=sequences if known else 1, prefixes=last and not known)

    return build


def stack(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(4, 9), c.size()],
        L.LSTM(c.size(3), return_sequences=True), L.Dropout(0.3), L.GRU(c.size(3), return_sequences=True),
        L.SimpleRNN(c.size(3)), L.Dense(c.size(), activation=c.pick("relu", "tanh", "elu")),
        L.Dense(c.size(2, 5), activation="softmax"),
    )
    return Net(model, sequences=2)


def stateful_stack(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(2, 5), c.size()],
        L.GRU(c.size(3), return_sequences=True, stateful=True), L.LSTM(c.size(3), stateful=True), L.Dense(c.size(2, 5)),
        batch=1,
    )
    return Net(model, sequences=3)


def step_by_step(k):
    """A network that runs one step at a time, as on a device."""
    c, L = k.chance, k.layers
    model = k.sequential([1, c.size()], L.LSTM(c.size(3), stateful=True), L.Dense(2, activation="softmax"), batch=1)
    return Net(model, sequences=7)


def bidirectional(cls, mode, last, known=True, other=None, **args):
    def build(k):
        c, L = k.chance, k.layers
        units = c.size(3)
        more = {}
        if other:
            more["backward_layer"] = getattr(L, other)(units, return_sequences=not last, go_backwards=True)
        layer = L.Bidirectional(getattr(L, cls)(units, return_sequences=not last, **args), merge_mode=mode, **more)
        x = k.input(c.size(4, 8) if known else None, c.size())
        return Net(k.functional(x, layer(x)), sequences=c.pick(1, 2) if known else 1, window=not known)

    return build


def bidirectional_stack(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(4, 8), c.size()],
        L.Bidirectional(L.LSTM(c.size(3), return_sequences=True)), L.Dropout(0.2),
        L.Bidirectional(L.GRU(c.size(3)), merge_mode=c.pick("sum", "concat", "mul", "ave")),
        L.Dense(c.size(2, 4), activation="sigmoid"),
    )
    return Net(model)


def cells(make, last=True, both=False):
    """An RNN layer over cells."""

    def build(k):
        c, L = k.chance, k.layers
        layer = L.RNN(make(L, c), return_sequences=not last)
        if both:
            layer = L.Bidirectional(layer)
        return Net(k.sequential([c.size(4, 8), c.size()], layer, L.Dense(c.size(2, 5))), sequences=1 if both else 2)

    return build


def mixed_cells(L, c):
    return [L.LSTMCell(c.size(3)), L.GRUCell(c.size(3)), L.SimpleRNNCell(c.size(3), activation="softsign")]


def time_distributed(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [None, c.size()],
        L.TimeDistributed(L.Dense(c.size(), activation="relu")), L.GRU(c.size(3), return_sequences=True),
        L.TimeDistributed(L.Dense(c.size(2, 5), activation="softmax")),
    )
    return Net(model)


def time_distributed_conv(k):
    """A small convolution within each step."""
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(3, 6), c.size(5, 9), c.size(1, 3)],
        L.TimeDistributed(L.Conv1D(c.size(), 3, padding=c.pick("same", "valid"), activation="relu")),
        L.TimeDistributed(L.MaxPooling1D(2)), L.TimeDistributed(L.Flatten()), L.LSTM(c.size(3)), L.Dense(2),
    )
    return Net(model)


def time_distributed_model(k):
    c, L = k.chance, k.layers
    inner = k.sequential([c.size(4, 8)], L.Dense(c.size(), activation="tanh"), L.Dense(c.size(), activation="relu"))
    model = k.sequential([None, inner.input_shape[-1]], L.TimeDistributed(inner), L.LSTM(c.size(3), return_sequences=True))
    return Net(model)


def masked(make, value=0.0, known=True, prefixes=False):
    def build(k):
        c, L = k.chance, k.layers
        model = k.sequential([c.size(5, 9) if known else None, c.size()], L.Masking(mask_value=value), *make(L, c))
        return Net(model, mask=value, sequences=2 if known else 1, prefixes=prefixes)

    return build


def embedded(make, zero, known=True):
    def build(k):
        c, L = k.chance, k.layers
        words = c.size(5, 20)
        x = k.input(*[c.size(5, 9) if known else None])
        y = L.Embedding(words, c.size(), mask_zero=zero)(x)
        for layer in make(L, c):
            y = layer(y)
        text = lambda shape: c.rng.randint(0, words, shape) * (c.rng.uniform(size=shape) > (0.3 if zero else 0))
        return Net(k.functional(x, y), inputs=text, sequences=2 if known else 1)

    return build


def concatenated(k):
    """Two recurrent layers over one input, with a head over both."""
    c, L = k.chance, k.layers
    x = k.input(c.size(4, 8), c.size())
    y = L.Concatenate()([L.LSTM(c.size(3))(x), L.GRU(c.size(3))(x)])
    return Net(k.functional(x, L.Dense(c.size(2, 4), activation="softmax")(y)), sequences=2)


def attention(k):
    """As textgenrnn: attention over the embedding and all recurrent layers, by the class of its authors."""
    c, L = k.chance, k.layers
    ops = k.keras.ops if k.three else k.keras.backend
    exp, dot = ops.exp, ops.matmul if k.three else ops.dot

    class AttentionWeightedAverage(L.Layer):
        def build(self, shape):
            self.W = self.add_weight(shape=(shape[2], 1), name=self.name + "_W", initializer="uniform")
            super().build(shape)

        def call(self, x):
            scores = dot(x, self.W)
            shares = exp(scores - ops.max(scores, axis=1, keepdims=True))
            return ops.sum(x * (shares / (ops.sum(shares, axis=1, keepdims=True) + 1e-7)), axis=1)

        def compute_output_shape(self, shape):
            return shape[0], shape[2]

    words = c.size(5, 20)
    x = k.input(c.size(5, 9))
    embedded = L.Embedding(words, c.size())(x)
    below = L.LSTM(c.size(3), return_sequences=True)(embedded)
    above = L.LSTM(c.size(3), return_sequences=True)(below)
    y = AttentionWeightedAverage(name="attention")(L.Concatenate()([embedded, below, above]))
    y = L.Dense(words, activation="softmax")(y)
    return Net(k.functional(x, y), inputs=lambda shape: c.rng.randint(0, words, shape), sequences=2)


def added(k):
    """A residual connection around each layer, with an output for every step."""
    c, L = k.chance, k.layers
    units = c.size(3)
    x = k.input(None, units)
    y = L.Add()([x, L.LSTM(units, return_sequences=True)(x)])
    gate = L.Dense(units, activation="sigmoid")(y)
    y = L.Multiply()([L.GRU(units, return_sequences=True)(y), gate])
    merge = c.pick(L.Average, L.Add, L.Maximum, L.Subtract)
    return Net(k.functional(x, merge()([y, x])))


def two_outputs(k):
    c, L = k.chance, k.layers
    x = k.input(c.size(4, 8), c.size())
    y = L.GRU(c.size(3), return_sequences=True)(x)
    outputs = [L.Dense(c.size(2, 4), activation="softmax", name="word")(L.LSTM(c.size(3))(y)),
               L.Dense(1, activation="sigmoid", name="loudness")(y)]
    return Net(k.functional(x, outputs))


def two_outputs_stream(k):
    c, L = k.chance, k.layers
    x = k.input(None, c.size())
    y = L.LSTM(c.size(3), return_sequences=True)(x)
    return Net(k.functional(x, [L.Dense(c.size(2, 4))(y), L.TimeDistributed(L.Dense(1, activation="sigmoid"))(y)]))


def two_inputs(k):
    c, L = k.chance, k.layers
    steps = c.size(4, 8)
    a, b = k.input(steps, c.size(), name="sound"), k.input(steps, c.size(), name="motion")
    y = L.Concatenate()([L.LSTM(c.size(3))(a), L.GRU(c.size(3))(b)])
    return Net(k.functional([a, b], L.Dense(3, activation="softmax")(y)), sequences=2)


def two_inputs_stream(k):
    c, L = k.chance, k.layers
    a, b = k.input(None, c.size(), name="sound"), k.input(None, c.size(), name="motion")
    y = L.Concatenate()([a, L.Dense(c.size(), activation="tanh")(b)])
    return Net(k.functional([a, b], L.Dense(3)(L.GRU(c.size(3), return_sequences=True)(y))), steps=c.size(5, 9))


def shared(k):
    """A layer that is called twice has one set of weights."""
    c, L = k.chance, k.layers
    steps, size = c.size(4, 8), c.size()
    a, b = k.input(steps, size, name="left"), k.input(steps, size, name="right")
    below, both = L.Dense(size, activation="relu"), L.LSTM(c.size(3))
    y = L.Subtract()([both(below(a)), both(below(b))])
    return Net(k.functional([a, b], L.Dense(1, activation="sigmoid")(y)))


def nested(k):
    """A model within a model, and one within that."""
    c, L = k.chance, k.layers
    steps, size, units = c.size(4, 8), c.size(), c.size(3, 6)
    x = k.input(steps, size)
    head = k.sequential([units], L.Dense(c.size(), activation="relu"), L.Dense(2, activation="softmax"))
    inside = k.input(None, size)
    features = k.functional(inside, L.GRU(units)(L.Dense(c.size(), activation="tanh")(inside)))
    return Net(k.functional(x, head(features(x))), sequences=2)


def keywords_conv1d(k):
    """A keyword spotter: convolutions along time, batch norm, a GRU, a dense head."""
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(14, 20), c.size(4, 9)],
        L.Conv1D(c.size(4), 3, strides=c.pick(1, 2), use_bias=False), L.BatchNormalization(), L.Activation("relu"),
        L.Dropout(0.1), L.Conv1D(c.size(4), 2, activation="relu", padding="causal", dilation_rate=c.pick(1, 2)),
        L.BatchNormalization(scale=c.flag(), center=c.flag()), L.MaxPooling1D(2), L.GRU(c.size(4), return_sequences=True),
        L.GRU(c.size(4)), L.Dense(c.size(2, 5), activation="softmax"),
    )
    return Net(model)


def keywords_conv2d(k):
    """Time and frequency as an image, then a GRU over the remaining time axis."""
    c, L = k.chance, k.layers
    time, wide, filters = c.size(11, 15), c.size(7, 9), c.size(2, 4)
    high, stride = 3, c.pick(1, 2)
    model = k.sequential(
        [time, wide], L.Reshape([time, wide, 1]), L.Conv2D(filters, (high, 4), strides=(stride, 2)),
        L.BatchNormalization(), L.Activation("relu"),
        L.Reshape([(time - high) // stride + 1, ((wide - 4) // 2 + 1) * filters]),
        L.GRU(c.size(4)), L.Dense(c.size(2, 5), activation="softmax"),
    )
    return Net(model, sequences=2)


def image_bidirectional(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(8, 10), c.size(6, 8), 1],
        L.Conv2D(c.size(2, 4), 3, padding="same", activation="relu"), L.MaxPooling2D((1, 2)),
        L.TimeDistributed(L.Flatten()), L.Bidirectional(L.LSTM(c.size(3), return_sequences=True)), L.Flatten(),
        L.Dense(3),
    )
    return Net(model)


def separable(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(9, 12), c.size(5, 8), c.size(1, 2)],
        L.DepthwiseConv2D((3, 2), depth_multiplier=c.pick(1, 2), padding="valid"), L.ReLU(max_value=6.0),
        L.SeparableConv2D(c.size(2, 4), 2, padding=c.pick("same", "valid")), L.GlobalAveragePooling2D(), L.Dense(3),
    )
    return Net(model)


def wavenet(k):
    """Dilated causal convolutions with gates and residuals, for an endless stream."""
    c, L = k.chance, k.layers
    filters = c.size(3, 6)
    x = k.input(None, c.size())
    y = L.Conv1D(filters, 1)(x)
    for dilation in (1, 2, 4):
        conv = lambda activation: L.Conv1D(filters, 2, padding="causal", dilation_rate=dilation, activation=activation)
        z = L.Multiply()([conv("tanh")(y), conv("sigmoid")(y)])
        y = L.Add()([y, L.Conv1D(filters, 1)(z)])
    return Net(k.functional(x, L.Dense(c.size(2, 4))(L.Activation("relu")(y))), steps=c.size(12, 16))


def conv_same(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(7, 10), c.size()], L.Conv1D(c.size(), c.pick(3, 4, 5), padding="same"), L.LeakyReLU(0.1),
        L.AveragePooling1D(2, strides=c.pick(1, 2), padding="valid"), L.LSTM(c.size(3)),
    )
    return Net(model)


def layer_norm(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [None, c.size(3)], L.LayerNormalization(center=c.flag()), L.LSTM(c.size(3), return_sequences=True),
        L.LayerNormalization(epsilon=1e-5, scale=c.flag()), L.Dense(c.size()), L.LayerNormalization(), L.Softmax(),
    )
    return Net(model)


def conv_lstm(rank, last):
    def build(k):
        c, L = k.chance, k.layers
        space = [c.size(4, 7) for _ in range(rank)]
        layer = getattr(L, "ConvLSTM%dD" % rank)(
            c.size(2, 3), c.pick(2, 3), padding=c.pick("same", "valid"), strides=c.pick(1, 2), use_bias=c.flag(),
            recurrent_activation=c.gate(), return_sequences=not last)
        model = k.sequential([c.size(3, 5)] + space + [c.size(1, 2)], layer, *([L.Flatten(), L.Dense(3)] if last else []))
        return Net(model)

    return build


def pooled(name):
    def build(k):
        c, L = k.chance, k.layers
        model = k.sequential(
            [c.size(5, 9), c.size()], L.Bidirectional(L.GRU(c.size(3), return_sequences=True)), getattr(L, name)(),
            L.Dense(c.size(2, 5)),
        )
        return Net(model)

    return build


def flattened(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(4, 6), c.size()], L.SimpleRNN(c.size(3), return_sequences=True), L.Flatten(),
        L.Dense(c.size(), activation="elu"), L.Dropout(0.5), L.Dense(2),
    )
    return Net(model)


def activations(k):
    """Activation layers, and activations of layers."""
    c, L = k.chance, k.layers
    names = ["relu", "tanh", "sigmoid", "hard_sigmoid", "softsign", "softplus", "elu", "selu", "linear", "exponential"]
    layers = [L.ELU(0.7), L.LeakyReLU(0.2), L.ReLU(6.0), L.ReLU()]
    for k_, name in enumerate(names):
        layers.append(L.Dense(c.size(3), activation=name) if k_ % 2 else L.Activation(name))
    return Net(k.sequential([None, c.size()], *layers))


def repeated(k):
    """A sequence encoded to one vector and decoded again, as for anomaly detection."""
    c, L = k.chance, k.layers
    steps, size = c.size(4, 7), c.size()
    model = k.sequential(
        [steps, size], L.LSTM(c.size(3)), L.RepeatVector(steps), L.LSTM(c.size(3), return_sequences=True),
        L.TimeDistributed(L.Dense(size)),
    )
    return Net(model)


def noise(k):
    """Layers that are active only during training."""
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(4, 8), c.size()], L.GaussianNoise(0.1), L.SpatialDropout1D(0.2), L.Dropout(0.1),
        L.LSTM(c.size(3), dropout=0.2, recurrent_dropout=0.1), L.GaussianDropout(0.3), L.ActivityRegularization(l2=0.01),
        L.Dense(3, kernel_regularizer="l2"),
    )
    return Net(model)


def trained(k):
    """A file with the optimizer's state."""
    c, L = k.chance, k.layers
    model = k.sequential([c.size(4, 8), c.size()], L.GRU(c.size(3), name="ears"), L.Dense(2, name="decision"))
    return Net(model, compiled=True)


def deep(k):
    """More layers than fit in one B-tree node of a group."""
    c, L = k.chance, k.layers
    size = c.size(3, 4)
    return Net(k.sequential([None, size], *[L.Dense(size, activation="tanh") for _ in range(14)]))


def without_sequence(last):
    """A weights file, with the description that the user gives."""

    def build(k):
        c, L = k.chance, k.layers
        inputs, units, classes = c.size(), c.size(3), c.size(2, 5)
        steps = c.size(4, 8) if last else None
        model = k.sequential(
            [steps, inputs], L.LSTM(units, return_sequences=True, name="below"),
            L.GRU(units, return_sequences=not last, name="above"), L.Dense(classes, activation="softmax", name="head"),
        )
        source = {"name": "input", "size": inputs}
        if last:
            source["steps"] = steps
        # Omitted where it is the default since Keras 2.3 and TensorFlow 2.
        gates = lambda name: {} if k.gate(model, name) == "sigmoid" else {"recurrent_activation": k.gate(model, name)}
        arch = {"inputs": [source], "layers": [
            {"name": "below", "class": "LSTM", "args": dict(return_sequences=True, **gates("below"))},
            {"name": "above", "class": "GRU", "args": dict(return_sequences=not last, **gates("above"))},
            {"name": "head", "class": "Dense", "args": {"activation": "softmax"}},
        ]}
        return Net(model, sequences=2 if last else 1, arch=arch)

    return build


def weights_json(k):
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(4, 8), c.size()], L.Conv1D(c.size(), 3), L.BatchNormalization(),
        L.Bidirectional(L.LSTM(c.size(3), activation=c.pick("tanh", "softsign"))), L.Dense(3),
    )
    return Net(model, arch="json")


def flags(k):
    """Numbers in place of booleans, which Python takes and files keep."""
    c, L = k.chance, k.layers
    model = k.sequential(
        [c.size(4, 8), c.size()], L.Dense(c.size(), use_bias=0), L.BatchNormalization(scale=1, center=0),
        L.LSTM(c.size(3), return_sequences=1, use_bias=1, unroll=0), L.LayerNormalization(center=1, scale=0),
        L.Bidirectional(L.SimpleRNN(c.size(3), return_sequences=1, use_bias=0)),
        L.GRU(c.size(3), return_sequences=0, reset_after=0, go_backwards=1), L.Dense(3, use_bias=1),
    )
    return Net(model, sequences=2)


def drafted(make, arch="json", inputs=None):
    """A weights file from which `import` drafts the architecture. Arguments that weights do not show have one value
    in all of these models: linear activations, every step, causal padding, strides of 1."""

    def build(k):
        c, L = k.chance, k.layers
        shape = [c.size(5, 8)] + ([] if inputs else [c.size(2, 4)])
        model = k.sequential(shape, *make(L))
        return Net(model, arch=arch, inputs=inputs and (lambda shape: c.rng.randint(0, inputs, shape)))

    return build


DRAFTED = lambda L: [
    L.Dense(6), L.LSTM(7, return_sequences=True), L.Dropout(0.1), L.GRU(5, return_sequences=True, use_bias=False),
    L.LSTM(9, return_sequences=True), L.LayerNormalization(), L.Dense(3, use_bias=False),
]
DRAFTED_CONV = lambda L: [
    L.Conv1D(6, 3, padding="causal"), L.BatchNormalization(), L.SimpleRNN(5, return_sequences=True), L.Dense(4),
]
DRAFTED_BOTH = lambda L: [
    L.Bidirectional(L.LSTM(5, return_sequences=True)), L.Bidirectional(L.GRU(6, return_sequences=True, use_bias=False)),
    L.Dense(3),
]
DRAFTED_WORDS = lambda L: [L.Embedding(11, 4), L.GRU(6, return_sequences=True), L.Dense(5)]
# Sizes that fit in several orders.
DRAFTED_EQUAL = lambda L: [L.LSTM(6, return_sequences=True), L.GRU(6, return_sequences=True), L.Dense(6)]

HEAD = lambda L, c: [L.Dense(c.size(2, 5), activation="softmax")]

MODELS = {
    "lstm": alone("LSTM", sequences=2),
    "lstm_stream": alone("LSTM", known=False, last=False),
    "lstm_stream_last": alone("LSTM", known=False),
    "lstm_sequence": alone("LSTM", last=False, sequences=2),
    "lstm_hard_sigmoid": alone("LSTM", recurrent_activation="hard_sigmoid"),
    "lstm_without_bias": alone("LSTM", use_bias=False),
    "lstm_activations": alone("LSTM", activations=True),
    "lstm_backwards": alone("LSTM", go_backwards=True),
    "lstm_backwards_sequence": alone("LSTM", last=False, go_backwards=True),
    "lstm_stateful": alone("LSTM", batch=1, sequences=3, stateful=True),
    "lstm_unrolled": alone("LSTM", unroll=True, implementation=1),
    "lstm_implementation_2": alone("LSTM", implementation=2, unit_forget_bias=False),
    "lstm_one_unit": alone("LSTM", fixed=1),
    "gru": alone("GRU"),
    "gru_reset_before": alone("GRU", reset_after=False),
    "gru_reset_after": alone("GRU", known=False, last=False, reset_after=True),
    "gru_without_bias": alone("GRU", use_bias=False, reset_after=True),
    "gru_hard_sigmoid": alone("GRU", recurrent_activation="hard_sigmoid", reset_after=False, sequences=2),
    "gru_activations": alone("GRU", activations=True, known=False, last=False),
    "gru_backwards_sequence": alone("GRU", last=False, go_backwards=True, sequences=2),
    "gru_stateful_sequence": alone("GRU", last=False, batch=1, sequences=2, stateful=True),
    "gru_unrolled": alone("GRU", unroll=True, implementation=2, reset_after=False),
    "simple_rnn": alone("SimpleRNN", sequences=2),
    "simple_rnn_relu": alone("SimpleRNN", known=False, last=False, activation="relu"),
    "simple_rnn_activations": alone("SimpleRNN", activations=True, use_bias=False),
    "simple_rnn_stateful": alone("SimpleRNN", batch=1, sequences=3, stateful=True, go_backwards=True),
    "stack": stack,
    "stateful_stack": stateful_stack,
    "step_by_step": step_by_step,
    "bidirectional_concat": bidirectional("LSTM", "concat", False),
    "bidirectional_concat_last": bidirectional("GRU", "concat", True),
    "bidirectional_sum": bidirectional("GRU", "sum", False),
    "bidirectional_mul_last": bidirectional("LSTM", "mul", True),
    "bidirectional_ave": bidirectional("SimpleRNN", "ave", False),
    "bidirectional_none": bidirectional("LSTM", None, False),
    "bidirectional_none_last": bidirectional("GRU", None, True),
    "bidirectional_window": bidirectional("LSTM", "concat", False, known=False),
    "bidirectional_window_last": bidirectional("GRU", "sum", True, known=False),
    "bidirectional_other": bidirectional("LSTM", "concat", False, other="GRU"),
    "bidirectional_stack": bidirectional_stack,
    "cells": cells(mixed_cells),
    "cells_sequence": cells(lambda L, c: [L.GRUCell(c.size(3), reset_after=c.flag()), L.LSTMCell(c.size(3))], last=False),
    "cells_stacked": cells(lambda L, c: L.StackedRNNCells([L.LSTMCell(c.size(3)), L.LSTMCell(c.size(3))])),
    "cells_one": cells(lambda L, c: L.GRUCell(c.size(3), recurrent_activation="hard_sigmoid")),
    "cells_bidirectional": cells(lambda L, c: L.LSTMCell(c.size(3)), both=True),
    "time_distributed": time_distributed,
    "time_distributed_conv": time_distributed_conv,
    "time_distributed_model": time_distributed_model,
    "masking": masked(lambda L, c: [L.LSTM(c.size(3))] + HEAD(L, c)),
    "masking_value": masked(lambda L, c: [L.GRU(c.size(3), return_sequences=True), L.LSTM(c.size(3))], value=-1.0),
    "masking_sequence": masked(lambda L, c: [L.GRU(c.size(3), return_sequences=True), L.TimeDistributed(L.Dense(2))]),
    "masking_stream": masked(lambda L, c: [L.LSTM(c.size(3), return_sequences=True)], known=False),
    "masking_bidirectional": masked(lambda L, c: [L.Bidirectional(L.LSTM(c.size(3), return_sequences=True))]),
    "masking_bidirectional_last": masked(lambda L, c: [L.Bidirectional(L.GRU(c.size(3)))] + HEAD(L, c)),
    "masking_backwards": masked(lambda L, c: [L.SimpleRNN(c.size(3), go_backwards=True)]),
    "embedding": embedded(lambda L, c: [L.LSTM(c.size(3))] + HEAD(L, c), False),
    "embedding_stream": embedded(lambda L, c: [L.GRU(c.size(3), return_sequences=True)], False, known=False),
    "embedding_mask": embedded(lambda L, c: [L.LSTM(c.size(3))] + HEAD(L, c), True),
    "embedding_mask_bidirectional": embedded(lambda L, c: [L.Bidirectional(L.LSTM(c.size(3)))] + HEAD(L, c), True),
    "concatenated": concatenated,
    "attention": attention,
    "added": added,
    "two_outputs": two_outputs,
    "two_outputs_stream": two_outputs_stream,
    "two_inputs": two_inputs,
    "two_inputs_stream": two_inputs_stream,
    "shared": shared,
    "nested": nested,
    "keywords_conv1d": keywords_conv1d,
    "keywords_conv2d": keywords_conv2d,
    "image_bidirectional": image_bidirectional,
    "separable": separable,
    "wavenet": wavenet,
    "conv_same": conv_same,
    "layer_norm": layer_norm,
    "conv_lstm_1d": conv_lstm(1, False),
    "conv_lstm_2d": conv_lstm(2, True),
    "pooled_average": pooled("GlobalAveragePooling1D"),
    "pooled_max": pooled("GlobalMaxPooling1D"),
    "flattened": flattened,
    "activations": activations,
    "repeated": repeated,
    "noise": noise,
    "trained": trained,
    "deep": deep,
    "weights": without_sequence(False),
    "weights_last": without_sequence(True),
    "weights_json": weights_json,
    "flags": flags,
    "draft": drafted(DRAFTED),
    "draft_listed": drafted(DRAFTED, "listed"),
    "draft_conv_listed": drafted(DRAFTED_CONV, "listed"),
    "draft_both": drafted(DRAFTED_BOTH),
    "draft_both_listed": drafted(DRAFTED_BOTH, "listed"),
    "draft_words": drafted(DRAFTED_WORDS, inputs=11),
    "draft_equal": drafted(DRAFTED_EQUAL),
}

# Too similar to others to be in the sample.
OUTSIDE = """
    lstm_hard_sigmoid lstm_implementation_2 lstm_one_unit lstm_unrolled gru gru_without_bias gru_unrolled gru_activations
    gru_stateful_sequence simple_rnn_activations bidirectional_ave bidirectional_concat_last bidirectional_none_last
    bidirectional_window_last bidirectional_stack cells_one cells_bidirectional time_distributed_model masking_value
    masking_backwards embedding_stream embedding_mask_bidirectional image_bidirectional conv_same
    conv_lstm_1d pooled_max step_by_step
""".split()
