"""Runs of images: the same bits by steps, as a sequence and as a batch."""

import array
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tidegate


def rows(n, steps, features=10, seed=3):
    return np.random.default_rng(seed).standard_normal((n, steps, features), np.float32)


def images():
    model, x = tidegate.example(), rows(8, 12)
    yield "endless f32", model.pack("f32")
    yield "endless f16", model.pack("f16")
    yield "endless i8x16", model.pack("i8x16", calibrate=x)
    yield "windows f32", model.pack("f32", schedule=(5, 2))
    yield "windows apart i8x16", model.pack("i8x16", calibrate=x, schedule=(3, 5))


IMAGES = dict(images())


def stepped(image, x):
    stream = image.stream()
    given = [stream.step(row) for row in x]
    return np.array([row for row in given if row is not None], np.float32).reshape(-1, image.output_size)


@pytest.mark.parametrize("name", IMAGES)
def test_steps_sequences_and_batches_have_the_same_bits(name):
    image, x, lengths = IMAGES[name], rows(7, 12), [12, 0, 3, 12, 7, 4, 12]
    batch, whole = image.run_batch(x, lengths=lengths), image.run_batch(x)
    for index, length in enumerate(lengths):
        expected = stepped(image, x[index, :length])
        if length > 0 and len(expected) == 0:
            refused(lambda length=length, index=index: image.run(x[index, :length]), "end before the model gives an output")
        else:
            assert np.array_equal(image.run(x[index, :length]), expected)
        assert np.array_equal(batch[index, : len(expected)], expected)
        assert not batch[index, len(expected) :].any()
        assert np.array_equal(whole[index], stepped(image, x[index]))
    assert whole.any()


def test_a_window_that_is_not_full_gives_none():
    stream = IMAGES["windows f32"].stream()
    given = [stream.step(row) is not None for row in rows(1, 9)[0]]
    assert given == [False, False, False, False, True, False, True, False, True]


def test_a_long_sequence_runs_in_pieces_with_the_same_bits():
    x = rows(1, 60_000)[0]
    image = IMAGES["endless i8x16"]
    assert np.array_equal(image.run(x), stepped(image, x))


def test_a_stream_is_saved_and_restored():
    image, x = IMAGES["endless f32"], rows(1, 6)[0]
    stream = image.stream()
    for row in x[:3]:
        stream.step(row)
    later = image.stream()
    later.restore(stream.save())
    assert np.array_equal(later.step(x[3]), stream.step(x[3]))
    stream.reset()
    assert np.array_equal(stream.step(x[0]), image.stream().step(x[0]))
    with pytest.raises(tidegate.Error):
        later.restore(b"no state")


class Tensor:
    """An object with DLPack only."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_buffers_dlpack_lists_and_other_numbers_come_in():
    image, x = IMAGES["endless f32"], rows(1, 1)[0]
    expected = image.stream().step(x[0])
    for given in [
        array.array("f", x[0].tolist()), memoryview(x[0]), Tensor(x[0]), x[0].astype(np.float64), x[0].tolist(),
        np.stack([x[0], x[0]], 1)[:, 0], x,
    ]:  # fmt: skip
        assert np.array_equal(image.stream().step(given), expected)
    many = rows(4, 6)
    expected = image.run_batch(many)
    for given in [Tensor(many), memoryview(many), many.astype(np.float64), np.asfortranarray(many), many.tolist()]:
        assert np.array_equal(image.run_batch(given), expected)


def refused(call, *parts):
    with pytest.raises(tidegate.Error) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and all(part in text for part in parts), text


def test_wrong_input_is_refused_with_both_shapes():
    image = IMAGES["endless f32"]
    refused(lambda: image.stream().step(np.zeros(7, "f4")), "shape [7]", "takes [10]")
    refused(lambda: image.run(np.zeros((5, 7), "f4")), "shape [5, 7]", "takes [steps, 10]")
    refused(lambda: image.run_batch(np.zeros((5, 10), "f4")), "shape [5, 10]", "takes [n, steps, 10]")
    refused(lambda: image.run_batch(np.zeros((2, 5, 10), "f4"), lengths=[6, 1]), "lengths[0] is 6", "give 0 to 5")
    refused(lambda: image.run_batch(np.zeros((2, 5, 10), "f4"), lengths=[1]), "[1]", "[2]")
    refused(lambda: image.run({"other": 0}), "no input of the model")
    refused(lambda: image.run(np.full((2, 10), np.nan)), "NaN in sequence 0, step 0, feature 0")
    refused(lambda: image.stream().step(np.full(10, np.inf)), "inf in sequence 0, step 0, feature 0")
    many = np.zeros((3, 4, 10), "f4")
    many[2, 1, 7] = np.nan
    refused(lambda: image.run_batch(many), "NaN in sequence 2, step 1, feature 7")
    refused(lambda: image.run(np.zeros((2, 10), complex)), "complex128")


def test_sequences_that_end_before_the_first_output_are_refused():
    image = tidegate.example().pack("f32", schedule=(5, 5))
    refused(lambda: image.run(np.zeros((4, 10), "f4")), "4 steps end before the model gives an output: give at least 5")
    refused(lambda: image.run_batch(np.zeros((2, 4, 10), "f4")), "give at least 5")
    refused(lambda: image.run_batch(np.zeros((2, 9, 10), "f4"), lengths=[3, 4]), "give at least 5")
    assert image.run_batch(np.zeros((2, 9, 10), "f4"), lengths=[3, 5]).shape == (2, 1, 16)
    assert image.run(np.zeros((0, 10), "f4")).shape == (0, 16)


def test_arguments_of_the_wrong_kind_are_refused_with_what_fits():
    model, x = tidegate.example(), np.zeros((4, 5, 10), "f4")
    refused(lambda: model.pack("f32", schedule=50), "schedule 50: give 'endless', or (frames, every)")
    refused(lambda: model.pack(8), "numeric: int; give a name, such as 'i8x16'")
    refused(lambda: model.pack(x), "numeric: ndarray; give a name, such as 'i8x16', and data as calibrate=")
    refused(lambda: model.pack("i8x16", calibrate=[x[0], x[1, :3]]), "rows of different lengths are no array")
    refused(lambda: model.pack("f32").run([["a"] * 10]), "array of text; an input is an array of real numbers")
    refused(lambda: model.pack("f32").run_batch(x, lengths=[1, 2, 9, 3]), "lengths[2] is 9; x has 5 steps: give 0 to 5")
    refused(lambda: model.pack("int8", calibrate=x), "its name here is 'i8x16'")
    refused(lambda: model.pack("i8x16", calibrate=x, evaluate=(x, x)), "evaluate: a tuple; give the path")
    refused(lambda: tidegate.pack(dict), "'dict' is no model: call the class to make one")
    refused(lambda: model.pack("f32").verify(object(), x), "verify takes a tidegate.Model", "import_model(model, sample=x)")
    with pytest.raises(TypeError, match=r"pack\(\) got an unexpected keyword argument 'smaple'"):
        tidegate.pack(model, smaple=x)


def test_images_are_equal_by_their_bytes_and_can_be_pickled():
    image = tidegate.example().pack("f32")
    other = pickle.loads(pickle.dumps(image))
    assert other == image and hash(other) == hash(image) and other != tidegate.example().pack("f16") and image != 1
    contents = image.inspect()
    assert image.flash_bytes == len(image.to_bytes()) and image.ram_bytes == contents["state_bytes"] + contents["scratch_bytes"]


@contextlib.contextmanager
def interrupted_soon():
    """Sends Ctrl-C to this process, and gives a function that is true for the five seconds in which it must end work."""
    # A parent may have told its children to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield lambda: time.monotonic() - start < 5
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_long_run():
    x = np.zeros((1, 3_000_000, 10), np.float32)
    with interrupted_soon() as is_soon, pytest.raises(KeyboardInterrupt):
        while is_soon():
            IMAGES["endless f32"].run_batch(x)
    # The image still runs.
    assert IMAGES["endless f32"].run(x[0, :3]).shape == (3, 16)


def test_ctrl_c_ends_packing():
    x = rows(400, 200)
    with interrupted_soon() as is_soon, pytest.raises(KeyboardInterrupt):
        while is_soon():
            tidegate.example().pack("i8x16", calibrate=x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_runs_on():
    image, x = IMAGES["endless f32"], rows(1, 4)[0]
    stream, expected = image.stream(), image.run(x)
    child = os.fork()
    if child == 0:
        same = np.array_equal(np.array([stream.step(row) for row in x]), expected)
        same &= tidegate.example().pack("f32").run(x).shape == expected.shape
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(image.run(x), expected)


def test_other_threads_run_during_a_batch():
    x = np.zeros((1, 400_000, 10), np.float32)
    done = threading.Event()
    worker = threading.Thread(target=lambda: (IMAGES["endless f32"].run_batch(x), done.set()))
    worker.start()
    ticks = 0
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    worker.join()
    assert ticks >= 3


LIMITED = """
import tidegate
tidegate.allow_memory(1)
try:
    tidegate.import_model("../../assets/hello_edge/GRU_S.pb")
except MemoryError as error:
    print(isinstance(error, tidegate.Error), error)
"""


def test_a_limit_of_memory_is_a_memory_error():
    # In a process of its own, because the limit is that of the process.
    folder = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-P", "-c", LIMITED], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True ") and "would take more than 1 MiB of memory" in done.stdout, done.stdout


def test_the_package_is_imported_quickly():
    # Time of this process, which others on the machine do not lengthen much.
    code = "import time, numpy; start = time.process_time(); import tidegate; print(time.process_time() - start)"
    command = [sys.executable, "-P", "-c", code]
    times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)]
    assert min(times) < 0.2, times
