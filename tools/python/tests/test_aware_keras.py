"""Models of Keras that are trained with the integers of a device compute what their images compute, bit for bit."""

import os

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="no Keras")
if keras.backend.backend() != "torch":
    pytest.skip("no PyTorch under Keras", allow_module_level=True)

import tidegate  # noqa: E402
import tidegate.keras as aware  # noqa: E402

STEPS = 200
SEEDS = int(os.environ.get("TIDEGATE_QAT_NETS", "12"))
"""How many random networks are compared."""


def drawn(seed):
    """A net of LSTM and GRU layers with other sizes and options for each seed."""
    draw = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    size = int(draw.integers(1, 9))
    layers = [keras.layers.Input((STEPS, size))]
    for depth in range(int(draw.integers(1, 3))):
        kind = [keras.layers.LSTM, keras.layers.GRU][draw.integers(2)]
        options = {"reset_after": bool(draw.integers(2))} if kind is keras.layers.GRU else {}
        layers.append(kind(int(draw.integers(1, 25)), return_sequences=True, use_bias=bool(draw.integers(4)), **options))
    if draw.integers(2):
        layers.append(keras.layers.Dense(int(draw.integers(1, 7)), activation=["linear", "sigmoid", "tanh", "relu"][draw.integers(4)]))
    net = keras.Sequential(layers)
    # Biases are not zero in a trained network.
    net.set_weights([weight + 0.2 * draw.standard_normal(weight.shape).astype(np.float32) for weight in net.get_weights()])
    return net, lambda count: draw.standard_normal((count, STEPS, size)).astype(np.float32)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_forward_pass_is_that_of_the_image(seed):
    net, batch = drawn(seed)
    numeric = ("i8x16", "i4x16")[seed % 2]
    model = aware.quantize(net, numeric, sample=batch(3))
    image = tidegate.Image.from_bytes(tidegate.pack(model).to_bytes())
    assert image.numeric == numeric
    x = batch(2)
    rows = np.asarray(keras.ops.convert_to_numpy(model(x)))
    assert np.array_equal(image.run_batch(x).reshape(rows.shape), rows)
    stream = image.stream()
    given = [row for row in map(stream.step, x[0]) if row is not None]
    # Keras's model returns its whole window at once.
    assert np.array_equal(given[-1].reshape(rows[0].shape), rows[0])


@pytest.mark.parametrize("numeric", ["i8x16", "i4x16"])
def test_gradients_are_those_of_the_weights_of_the_image(numeric):
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Input((20, 6)), keras.layers.GRU(12), keras.layers.Dense(4)]
    net = keras.Sequential(layers)
    x = keras.ops.convert_to_tensor(np.random.default_rng(3).standard_normal((5, 20, 6)).astype(np.float32))
    model = aware.quantize(net, numeric, sample=x)
    rounded = model._round(aware._weights(net), [x], False)
    keras.ops.sum(keras.ops.square(model(x))).backward()
    upstream = 2 * model(x).detach()

    def passed(weight):
        return keras.ops.convert_to_numpy(weight.value.grad) * rounded.passes[weight.path]

    through = [passed(weight) for weight in net.weights]
    for weight in net.weights:
        weight.value.grad = None
        weight.assign(rounded.weights[weight.path])
    (net(x) * upstream).sum().backward()
    for weight, expected in zip(net.weights, through, strict=True):
        assert np.allclose(passed(weight), expected, rtol=1e-5, atol=1e-6), weight.path
        assert np.abs(expected).max() > 0


def trained(seed):
    """A model after training, and its mean squared error in parts of that which rounding the weights to 4 bits makes."""
    keras.utils.set_random_seed(seed)
    teacher = keras.Sequential([keras.layers.Input((20, 6)), keras.layers.GRU(24), keras.layers.Dense(5)])
    draw = np.random.default_rng(seed)
    x, others = (draw.standard_normal((256, 20, 6)).astype(np.float32) for _ in range(2))
    y, y_others = teacher.predict(x, verbose=0), teacher.predict(others, verbose=0)
    model = aware.quantize(teacher, "i4x16", sample=x)

    def loss():
        return float(np.mean(np.square(tidegate.pack(model).run_batch(others)[:, 0] - y_others)))

    before = loss()
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 1000)), "mse")
    model.fit(x, y, batch_size=256, epochs=1000, verbose=0)
    return teacher, model, loss() / before


def test_fit_trains_with_integers_and_wins_back_what_rounding_loses(tmp_path):
    """As for PyTorch: half of the error, in the mean of four networks."""
    rest = []
    for seed in range(1, 5):
        teacher, model, left = trained(seed)
        rest.append(left)
    print("what remains of the error:", rest)
    assert np.mean(rest) < 0.5 and max(rest) < 1, rest
    # The ranges are saved with the weights.
    model.save_weights(tmp_path / "a.weights.h5")
    other = aware.quantize(keras.models.clone_model(teacher), "i4x16")
    other.load_weights(tmp_path / "a.weights.h5")
    assert tidegate.pack(other).to_bytes() == tidegate.pack(model).to_bytes()


def test_what_cannot_be_trained_is_an_error():
    inputs = keras.layers.Input((5, 4))
    norm = keras.Sequential([inputs, keras.layers.Dense(3), keras.layers.BatchNormalization()])
    norm.layers[-1].set_weights([np.full(3, number, np.float32) for number in (2, 1, 3, 4)])
    with pytest.raises(tidegate.Error, match="merge batch normalization into the layer before it"):
        aware.quantize(norm)
    plain = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.Dense(3)])
    with pytest.raises(tidegate.Error, match="is quantized already"):
        aware.quantize(aware.quantize(plain))
    with pytest.raises(tidegate.Error, match="i8x16 and i4x16"):
        aware.quantize(plain, "f16")
    with pytest.raises(tidegate.Error, match="has learnt no ranges yet"):
        aware.quantize(plain)(np.ones((2, 5, 4), np.float32))
