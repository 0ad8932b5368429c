"""Models of Keras in memory give what their files give, bit for bit."""

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras", reason="no Keras")
from compared import assert_same  # noqa: E402

import tidegate  # noqa: E402

CASES = Path(__file__).resolve().parents[3] / "tests" / "frameworks" / "keras3"


def test_every_golden_model_that_keras_loads_is_imported_as_its_file():
    same = 0
    for path in sorted(CASES.glob("*.keras")):
        try:
            model = keras.models.load_model(path, compile=False)
        except TypeError as error:
            # A layer of the case's own.
            assert "Could not locate class" in str(error), error
            continue
        window = metadata(path).get("window")
        options = {"window": int(window)} if window else {}
        assert_same(tidegate.import_model(model, **options), tidegate.import_model(path, **options))
        same += 1
    assert same >= 20, same


def metadata(path):
    import json

    content = path.with_suffix(".golden.safetensors").read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]


def test_a_model_computes_what_keras_computes():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((20, 6)), keras.layers.GRU(24), keras.layers.Dense(5, activation="softmax")]
    model = keras.Sequential(layers)
    x = np.random.default_rng(1).standard_normal((8, 20, 6), np.float32)
    image = tidegate.pack(model, numeric="f32")
    assert image.schedule == "20/20"
    assert np.abs(image.run_batch(x)[:, 0] - model.predict(x, verbose=0)).max() < 1e-5


def test_a_sample_gives_the_length_of_sequences_that_a_model_leaves_open():
    keras.utils.set_random_seed(1)
    steps = keras.layers.Input((None, 6))
    last = keras.layers.GRU(8)(steps)
    model = keras.Model(steps, [keras.layers.Dense(2, name="a")(last), keras.layers.Dense(3, name="b")(last)])
    x = np.random.default_rng(1).standard_normal((4, 20, 6)).astype(np.float32)
    rows = tidegate.pack(model, sample=x, numeric="f32").run_batch(x)
    for of_image, of_keras in zip(rows.values(), model.predict(x, verbose=0), strict=True):
        assert np.abs(of_image[:, 0] - of_keras).max() < 1e-5
    assert tidegate.pack(model, numeric="f32").schedule == "endless"
    each = keras.Sequential([keras.layers.Input((None, 6)), keras.layers.GRU(8, return_sequences=True)])
    assert tidegate.pack(each, sample=x, numeric="f32").schedule == "endless"
