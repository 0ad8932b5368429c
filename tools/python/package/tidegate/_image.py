"""Packed networks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native, _table
from ._arrays import Floats, data, floats, plain
from ._errors import Error
from ._results import Event, Heard, Verification

if TYPE_CHECKING:
    from ._model import Model

PathLike = str | os.PathLike[str]


class Image:
    """A packed network: the bytes that a device runs, with the results that the device computes.

    >>> import tidegate
    >>> image = tidegate.example().pack("f32")
    >>> image.numeric, image.input_size, image.output_size
    ('f32', 10, 16)
    """

    def __init__(self, native: _native.Image) -> None:
        self._native = native
        self._inputs, self._outputs = native.ports()
        self._contents: dict[str, Any] = json.loads(native.inspect())

    @classmethod
    def load(cls, path: PathLike) -> Image:
        """Reads an image that `pack` has written.

        >>> import tidegate
        >>> tidegate.example().pack("f32").schedule
        'endless'
        """
        return cls(_native.load_image(os.fspath(path)))

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "image.tgi") -> Image:
        """Reads an image from bytes. `name` stands for its file in errors.

        >>> import tidegate
        >>> image = tidegate.example().pack("f32")
        >>> tidegate.Image.from_bytes(image.to_bytes()).inspect() == image.inspect()
        True
        """
        return cls(_native.Image.of_bytes(content, name))

    def inspect(self) -> dict[str, Any]:
        """Layers, memory, multiply-accumulates, labels and front end, as `tidegate inspect --json` prints them.

        >>> import tidegate
        >>> contents = tidegate.example().pack("f32").inspect()
        >>> contents["layers"][0]["cell"], contents["state_bytes"]
        ('lstm', 132)
        """
        return json.loads(self._native.inspect())  # type: ignore[no-any-return]

    @property
    def numeric(self) -> str:
        """Number format of weights, activations and states."""
        return str(self._contents["numeric"])

    @property
    def labels(self) -> list[str]:
        """Names of the classes; empty if there are none."""
        return list(self._contents["labels"])

    @property
    def schedule(self) -> str:
        """`endless`, or `FRAMES/EVERY`: windows of this many steps, and a new one every so many."""
        schedule = self._contents["schedule"]
        if isinstance(schedule, str):
            return schedule
        return "{frames}/{every}".format(**schedule["windows"])

    @property
    def input_size(self) -> int:
        """Number of features of a step of the first input."""
        return self._inputs[0][1]

    @property
    def output_size(self) -> int:
        """Number of values of the first output."""
        return self._outputs[0][1]

    @property
    def flash_bytes(self) -> int:
        """Bytes of the image in flash, without the code that runs it.

        >>> import tidegate
        >>> image = tidegate.example().pack("f32")
        >>> image.flash_bytes == len(image.to_bytes())
        True
        """
        return int(self._contents["flash_bytes"])

    @property
    def ram_bytes(self) -> int:
        """Bytes of RAM for states, scratch, front end and detector, without the stack.

        >>> import tidegate
        >>> tidegate.example().pack("f32").ram_bytes >= 132
        True
        """
        return sum(int(self._contents[f"{part}_bytes"]) for part in ("state", "scratch", "front_end", "detector"))

    @property
    def report(self) -> dict[str, Any] | None:
        """What quantization costs, layer by layer, as `tidegate pack --report` writes it; `None` if the image was not packed
        here in integers."""
        return None if self._native.report is None else json.loads(self._native.report[1])

    @property
    def report_text(self) -> str:
        """The report as text; empty if there is none."""
        return "" if self._native.report is None else self._native.report[0]

    def stream(self) -> _native.Stream:
        """A stream from a zero state, to run step by step as a device does.

        >>> import numpy as np, tidegate
        >>> image = tidegate.example().pack("f32")
        >>> stream = image.stream()
        >>> stream.step(np.ones(image.input_size, "f4")).dtype
        dtype('float32')
        """
        return self._native.stream()

    def run(self, x: Any) -> Any:
        """Runs one sequence, `[steps, features]`, from a zero state. Returns `[rows, classes]`: a row for every step that has
        an output, which is the last step of each window if the image has a schedule of windows. Several inputs are a dict
        of arrays, several outputs too.

        >>> import numpy as np, tidegate
        >>> image = tidegate.example().pack("f32")
        >>> image.run(np.zeros((5, image.input_size), "f4")).shape
        (5, 16)
        """
        arrays = [self._shaped(array, port, 2)[None] for array, port in self._by_port(x)]
        outputs, counts = self._native.run_batch(arrays, None)
        self._require_rows(counts, arrays[0].shape[1])
        return self._result([output[0, : counts[0]] for output in outputs])

    def run_batch(self, x: Any, lengths: Sequence[int] | None = None) -> Any:
        """Runs many sequences, `[n, steps, features]`, each from a zero state and as a device runs it. `lengths` `[n]` are the
        numbers of steps that count. Returns `[n, rows, classes]`, with zeros behind the rows of a shorter sequence.

        >>> import numpy as np, tidegate
        >>> image = tidegate.example().pack("f32")
        >>> image.run_batch(np.zeros((3, 5, image.input_size), "f4"), lengths=[5, 2, 4]).shape
        (3, 5, 16)
        """
        arrays = [self._shaped(array, port, 3) for array, port in self._by_port(x)]
        shapes = {array.shape[:2] for array in arrays}
        if len(shapes) > 1:
            raise Error(f"inputs of {sorted(shapes)} sequences and steps; they must be the same")
        n, steps = arrays[0].shape[:2]
        given = None if lengths is None else [int(length) for length in plain(lengths)]
        if given is not None and len(given) != n:
            raise Error(f"lengths of shape [{len(given)}]; x of shape {list(arrays[0].shape)} takes [{n}]")
        for index, length in enumerate(given or []):
            if not 0 <= length <= steps:
                raise Error(f"lengths[{index}] is {length}; x has {steps} steps: give 0 to {steps}")
        outputs, counts = self._native.run_batch(arrays, given)
        self._require_rows(counts, max(given, default=0) if given else steps)
        return self._result(outputs)

    def features(self, sound: Any) -> Floats:
        """The features of a sound, `[frames, features]`, with the bits of the front end on the device: what to train a
        network on. `sound` is a file (.wav, .flac), or samples of 16 bits at the rate of the model.

        >>> import tidegate
        >>> image = tidegate.example().pack("f32")
        >>> image.features([0] * 16000)
        Traceback (most recent call last):
        tidegate._errors.Error: example.tgi: has no front end for sound: pack it with --front-end, or give features
        """
        is_path = isinstance(sound, (str, os.PathLike))
        return self._native.features(os.fspath(sound) if is_path else plain(sound).tolist())

    def listen(self, sound: Any) -> Heard:
        """Detects events in a sound: a file (.wav, .flac), or samples of 16 bits at the rate of the model.

        >>> import tidegate
        >>> image = tidegate.example().pack("f32")
        >>> image.listen([0] * 16000)
        Traceback (most recent call last):
        tidegate._errors.Error: example.tgi: has no front end for sound: pack it with --front-end, or give features
        """
        is_path = isinstance(sound, (str, os.PathLike))
        seconds, posteriors, rest = self._native.listen(os.fspath(sound) if is_path else plain(sound).tolist())
        more = json.loads(rest)
        events = [Event(event["seconds"], event["label"], event["score"]) for event in more["events"]]
        times = np.asarray(seconds, dtype=np.float32)
        return Heard(more["labels"], times, posteriors, events, more["threshold"], more["seconds"])

    def verify(self, model: Model, x: Any) -> Verification:
        """Compares the image with the model that it was packed from, layer by layer, in f32. `x` is `[steps, features]`,
        `[n, steps, features]`, or a file of these.

        >>> import numpy as np, tidegate
        >>> model = tidegate.example()
        >>> x = np.random.default_rng(1).standard_normal((50, 10), "f4")
        >>> model.pack("i8x16", calibrate=x).verify(model, x).snr_db > 30
        True
        """
        if not isinstance(getattr(model, "_native", None), _native.Model):
            raise Error("verify takes a tidegate.Model: give tidegate.import_model(model, sample=x)")
        result, curves = _native.verify(self._native, model._native, data(x))
        return Verification(curves=dict(curves), **json.loads(result))

    def save(self, path: PathLike) -> None:
        """Writes the image to a file.

        >>> import pathlib, tempfile, tidegate
        >>> image = tidegate.example().pack("f32")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     image.save(pathlib.Path(folder) / "a.tgi")
        """
        self._native.save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """The bytes of the image.

        >>> import tidegate
        >>> tidegate.example().pack("f32").to_bytes()[:4]
        b'TGIM'
        """
        return self._native.content()

    def c_header(self, name: str | None = None) -> str:
        """A header for C: the constants that a program with `tidegate.h` needs. `name` is their prefix; without it, the
        prefix is the name of the file or the model that the image comes from.

        >>> import tidegate
        >>> "#define KWS_INPUT_SIZE 10" in tidegate.example().pack("f32").c_header("kws")
        True
        """
        return self._native.c_header(name)

    def c_array(self, name: str | None = None) -> str:
        """The image as an array in C, for toolchains without `.incbin`.

        >>> import tidegate
        >>> "kws_image" in tidegate.example().pack("f32").c_array("kws")
        True
        """
        return self._native.c_array(name)

    def to_onnx(self, path: PathLike | None = None) -> bytes:
        """The network as standard ONNX, to view with Netron or to run with onnxruntime: LSTM, GRU and other operators in
        floats, with the weights of the image behind `DequantizeLinear`. Values are not rounded there, so results differ from
        those of the image by the rounding of values to 16 bits. The graph takes `[n, steps, features]` and returns
        `[n, rows, classes]`, as `run_batch` does; a schedule of windows fixes the number of steps to that of a window. The
        front end and the detector stay behind. `path` is a file to write.

        >>> import tidegate
        >>> content = tidegate.example().pack("f32").to_onnx()
        >>> b"LSTM" in content
        True
        """
        content = self._native.onnx()
        if path is not None:
            Path(path).write_bytes(content)
        return content

    def __repr__(self) -> str:
        layers = ", ".join(f"{layer['cell']} {layer['output']}" for layer in self._contents["layers"])
        return f"<tidegate.Image {Path(self._native.name).name}: {self.numeric}, {layers}>"

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, Image) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return Image.from_bytes, (self.to_bytes(), self._native.name)

    def _repr_html_(self) -> str:
        return _table.contents(self._native.name, self._contents)

    def _by_port(self, x: Any) -> list[tuple[Any, tuple[str, int]]]:
        """Each input with its port."""
        if not isinstance(x, Mapping):
            if len(self._inputs) > 1:
                listed = ", ".join(name for name, _ in self._inputs)
                raise Error(f"the model has {len(self._inputs)} inputs: give a dict of arrays named {listed}")
            return [(x, self._inputs[0])]
        names = [name for name, _ in self._inputs]
        for name in x:
            if name not in names:
                raise Error(f"tensor {name!r} is no input of the model, which has {', '.join(names)}")
        missing = [name for name in names if name not in x]
        if missing:
            raise Error(f"has no tensor {missing[0]!r}, which is an input of the model")
        return [(x[name], (name, size)) for name, size in self._inputs]

    def _shaped(self, x: Any, port: tuple[str, int], dimensions: int) -> Floats:
        """An array with these dimensions, of which the last is the size of the port."""
        name, size = port
        array = floats(x)
        if array.ndim != dimensions or array.shape[-1] != size:
            forms = f"[steps, {size}]" if dimensions == 2 else f"[n, steps, {size}]"
            raise Error(f"tensor of shape {list(array.shape)}; the input {name!r} takes {forms}")
        if self.numeric == "i8" and plain(x).dtype == np.int8:
            # The model's own integers.
            of = next(port for port in self._contents["inputs"] if port["name"] == name)
            array = (array - np.float32(of["zero_point"])) * np.float32(of["scale"])
        return array

    def _require_rows(self, counts: Sequence[int], steps: int) -> None:
        """Refuses sequences that all end before the first output. Without steps nothing is expected."""
        if steps == 0 or not counts or max(counts) > 0:
            return
        windows = self._contents["schedule"]
        remedy = "more" if isinstance(windows, str) else f"at least {windows['windows']['frames']}"
        raise Error(f"{steps} steps end before the model gives an output: give {remedy}")

    def _result(self, outputs: list[Floats]) -> Any:
        if len(outputs) == 1:
            return outputs[0]
        return {name: output for (name, _), output in zip(self._outputs, outputs, strict=True)}
