"""What `Image.to_onnx` writes: onnx accepts it, and onnxruntime gives the results of the image, but for the rounding of its
values."""

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="no onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="no onnxruntime")

from rounded import deviation  # noqa: E402

import tidegate  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
ASSETS = ROOT / "assets"
CLIPS = sorted((ASSETS / "speech_commands").glob("*/*.flac"))[::3]


def ran(image, x):
    """The file and its outputs in onnxruntime."""
    content = image.to_onnx()
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return model, session.run(None, {session.get_inputs()[0].name: x})[0]


def heard(image):
    """The features of the repository's clips, `[n, frames, features]`: one window of each."""
    assert len(CLIPS) >= 8
    return np.stack([image.features(clip) for clip in CLIPS])


@functools.cache
def imported(name):
    """A network of Hello Edge, and features to calibrate it on."""
    model = tidegate.import_model(ASSETS / "hello_edge" / f"{name}.pb")
    return model, heard(model.pack("f32"))


def packed(name, numeric, **options):
    model, x = imported(name)
    return model.pack(numeric, **{"calibrate": x, **options})


SPOTTERS = {
    "keywords i8x16": lambda: tidegate.Image.load(ASSETS / "keywords" / "keywords.tgi"),
    # Calibrated on the sounds that tidegate has, as `pack` does by itself.
    "Basic_LSTM_S i8x16": lambda: packed("Basic_LSTM_S", "i8x16", calibrate=None),
    "CRNN_S i8x16": lambda: packed("CRNN_S", "i8x16"),
    "GRU_S i8x16": lambda: packed("GRU_S", "i8x16"),
    "GRU_S i4x16": lambda: packed("GRU_S", "i4x16", layout="cortex-m4"),
    "GRU_S with wide weights": lambda: packed("GRU_S", "i8x16", keep={"gru": 16, "dense": 16}),
}


@pytest.mark.parametrize("name", SPOTTERS)
def test_onnxruntime_gives_the_outputs_of_a_spotter_up_to_rounding(name):
    image = SPOTTERS[name]()
    x = heard(image)
    model, rows = ran(image, x)
    ours = image.run_batch(x)
    assert rows.shape == ours.shape
    # Two units of the output are lost wherever the deviation is less.
    expected = deviation(model, image, x) + 2 * 2.0**-15
    error = np.abs(rows - ours) / expected
    whole = np.sqrt(np.mean(np.square(error)))
    print(f"{name}: {np.abs(rows - ours).max():.1e} at most; deviations: {whole:.2f}, at most {error.max():.1f}")
    # The deviations are those of errors that reach their bounds, so that the errors themselves are smaller. Six deviations
    # are beyond what a Gaussian reaches in some hundred outputs.
    assert whole <= 1 and error.max() <= 6


FLOATS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "core" / "examples").glob("**/*.tgi"))]


@pytest.mark.parametrize("path", FLOATS)
def test_onnxruntime_gives_the_outputs_of_the_examples_in_f32(path):
    image = tidegate.Image.load(ROOT / path)
    steps = int(image.schedule.split("/")[0]) if image.schedule != "endless" else 40
    x = np.random.default_rng(1).standard_normal((5, steps, image.input_size), np.float32)
    _, rows = ran(image, x)
    assert rows.shape == image.run_batch(x).shape
    assert np.abs(rows - image.run_batch(x)).max() <= 1e-5


def test_onnxruntime_gives_the_outputs_of_the_voice_detector():
    source = ASSETS / "silero_vad" / "silero_vad_16k_op15.onnx"
    image = tidegate.import_model(source, shape={"input": [1, 576]}).pack("f16")
    x = np.random.default_rng(1).uniform(-1, 1, (2, 12, 576)).astype(np.float32)
    _, rows = ran(image, x)
    assert np.abs(rows - image.run_batch(x)).max() <= 1e-4


def test_every_shipped_network_is_exported_or_names_its_layer():
    refused = {
        "LSTM_S": (lambda: packed("LSTM_S", "f32", calibrate=None), 'layer "lstm": ONNX has no lstm with projection'),
        "okay_nabu": (
            lambda: tidegate.import_model(ASSETS / "wake_word" / "okay_nabu.tflite").pack(),
            'layer "identity": its integers are those of TFLite',
        ),
    }
    for image, reason in refused.values():
        with pytest.raises(tidegate.Error, match=reason) as error:
            image().to_onnx()
        assert "\n" not in str(error.value)
    tested = {name.split()[0] for name in SPOTTERS} | set(refused)
    shipped = {path.stem for path in itertools.chain(*(ASSETS.glob(f"hello_edge/*{end}") for end in (".pb", ".tgi")))}
    assert shipped <= tested, shipped - tested


def test_a_file_is_written(tmp_path):
    image = tidegate.example().pack("f32")
    assert image.to_onnx(tmp_path / "a.onnx") == (tmp_path / "a.onnx").read_bytes()
