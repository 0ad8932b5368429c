"""Images, models, and what they say about themselves."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tidegate

REPOSITORY = Path(__file__).resolve().parents[3]
ASSETS = REPOSITORY / "assets"
CLIP = next(iter(sorted((ASSETS / "speech_commands" / "yes").glob("*.flac"))))


@pytest.fixture(scope="module")
def spotter():
    return tidegate.import_model(ASSETS / "hello_edge" / "GRU_S.pb").pack("f16")


def test_an_image_is_saved_and_loaded(tmp_path, spotter):
    path = tmp_path / "kws.tgi"
    spotter.save(path)
    loaded = tidegate.Image.load(path)
    assert loaded.inspect() == spotter.inspect()
    assert loaded.to_bytes() == path.read_bytes() == spotter.to_bytes()
    assert loaded.labels[2] == "yes" and loaded.schedule == "25/6" and loaded.numeric == "f16"
    assert "#define KWS_LABEL_COUNT 12" in loaded.c_header()
    assert "kws_image" in loaded.c_array()


def test_a_table_is_shown_in_notebooks(spotter):
    table = spotter._repr_html_()
    assert table.startswith("<table>") and "gru" in table and "bytes of flash" in table
    assert repr(spotter) == "<tidegate.Image GRU_S.pb.tgi: f16, gru 154, dense 12, softmax 12>"


def test_a_sound_is_heard(spotter):
    heard = spotter.listen(CLIP)
    assert heard.posteriors.shape == (len(heard.times), 12) and heard.labels == spotter.labels
    again = spotter.listen(np.zeros(16_000 * 3, np.int16))
    assert len(again.times) > 1 and again.seconds == 3.0 and again.events == []
    assert "<table>" in heard._repr_html_()


def test_errors_are_those_of_the_command_line(tmp_path):
    cases = [
        (lambda: tidegate.Image.load(tmp_path / "no.tgi"), "there is no such file: check the path"),
        (lambda: tidegate.Image.load(CLIP), "is not an image: pack it first"),
        (lambda: tidegate.import_model(CLIP), "FLAC"),
        (lambda: tidegate.example().pack("i8x16"), "give real input with --calibrate"),
        (lambda: tidegate.example().pack("i9"), "numeric \"i9\" is unknown: give one of f32"),
        (lambda: tidegate.example().pack("f32", budget="1KiB"), "--budget: is only for integers"),
        (lambda: tidegate.example().pack("f32", schedule="5"), "write `endless`"),
        (lambda: tidegate.import_model(object()), "is no model"),
        (lambda: tidegate.Image.from_bytes(b"TGIM"), "pack the model again"),
    ]
    for call, part in cases:
        with pytest.raises(tidegate.Error) as caught:
            call()
        assert part in str(caught.value) and "\n" not in str(caught.value), str(caught.value)


def test_calibration_in_memory_is_that_of_a_file(tmp_path):
    model = tidegate.example()
    x = np.random.default_rng(5).standard_normal((30, 6, 10), np.float32)
    in_memory = model.pack("i8x16", calibrate=x)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x_train=x, y_train=np.zeros(30, np.int64), x_test=x[:2])
    np.savez(tmp_path / "x2.npz", x=x, lengths=np.full(30, 6))
    for file in ["x.npy", "x.npz", "x2.npz"]:
        assert model.pack("i8x16", calibrate=tmp_path / file).to_bytes() == in_memory.to_bytes()
    assert model.pack("i8x16", calibrate={"x": x, "y": np.zeros(30)}).to_bytes() == in_memory.to_bytes()
    assert model.pack("i8x16", calibrate=x / 4).to_bytes() != in_memory.to_bytes()
    assert in_memory.report and "output" in in_memory.report_text


def test_an_image_is_verified_on_arrays_and_files(tmp_path):
    model = tidegate.example()
    x = np.random.default_rng(5).standard_normal((10, 6, 10), np.float32)
    image = model.pack("i8x16", calibrate=x)
    of_array = image.verify(model, x)
    np.save(tmp_path / "x.npy", x)
    assert image.verify(model, tmp_path / "x.npy") == of_array
    assert of_array.steps == 60 and of_array.snr_db > 30 and "<table>" in of_array._repr_html_()
    exact = model.pack("f32").verify(model, x)
    assert exact.max_abs_error == 0.0 and exact.snr_db is None
    other = tidegate.import_model(ASSETS / "hello_edge" / "GRU_S.pb")
    with pytest.raises(tidegate.Error, match="was it packed from another model"):
        image.verify(other, x)


def test_one_call_packs_a_file(tmp_path):
    path = tmp_path / "kws.tgi"
    image = tidegate.pack(ASSETS / "hello_edge" / "GRU_S.pb", path, numeric="f16", schedule="endless", threshold=0.5)
    assert path.read_bytes() == image.to_bytes() and image.schedule == "endless"
    assert image.inspect()["detector"]["labels"][2]["threshold"] == 0.5


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"window": 0}, "--window is 0, but must be 1 to 1048576"),
        ({"window": -1}, "window is -1, but must be a number that is not negative"),
        ({"window": 10**7}, "--window is 10000000, but must be 1 to 1048576"),
        ({"mean_of": 0}, "its mean_of is 0, but must be 1 to 256"),
        ({"threshold": 2.0}, "--threshold is 2, but must be 0 to 1"),
        ({"threshold": float("nan")}, "--threshold is NaN, but must be 0 to 1"),
        ({"refractory_ms": 2**40}, "refractory_ms is 1099511627776, but must be"),
    ],
)
def test_settings_out_of_range_are_refused(setting, reason):
    with pytest.raises(tidegate.Error, match=re.escape(reason)):
        tidegate.import_model(ASSETS / "hello_edge" / "GRU_S.pb", **setting)


def test_a_canonical_model_is_saved_and_read_again(tmp_path):
    model = tidegate.example()
    model.save(tmp_path / "a.safetensors")
    again = tidegate.import_model(tmp_path / "a.safetensors")
    assert again.to_bytes() == model.to_bytes() == (tmp_path / "a.safetensors").read_bytes()
    assert json.dumps(again.architecture)


def test_plots_are_drawn(spotter):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="pip install"):
            spotter.listen(CLIP).plot()
        return
    assert len(spotter.listen(CLIP).plot().lines) >= 12
