"""Imported networks, and the way from a network to an image."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrays import data
from ._errors import Error
from ._image import Image, PathLike

if TYPE_CHECKING:
    from ._aware import Aware

Schedule = str | tuple[int, int]

_OTHER_NAMES = {"int8": "i8x16", "int4": "i4x16", "float32": "f32", "float16": "f16", "fp32": "f32", "fp16": "f16"}
"""Names of numerics in other libraries, and those that fit here."""


class Model:
    """An imported network in f32: its layers and weights, independent of the framework that trained it.

    >>> import tidegate
    >>> tidegate.example().pack("f16").numeric
    'f16'
    """

    def __init__(self, native: _native.Model, learnt: Aware | None = None) -> None:
        self._native = native
        self._learnt = learnt

    @property
    def notes(self) -> list[str]:
        """Notes on the import: choices that the file leaves open, tensors that are not used, rounded numbers."""
        return self._native.notes

    @property
    def architecture(self) -> dict[str, Any]:
        """Everything but the weights."""
        return json.loads(self._native.architecture())  # type: ignore[no-any-return]

    def pack(
        self,
        numeric: str | None = None,
        *,
        calibrate: Any = None,
        budget: int | str | None = None,
        at_least: float | None = None,
        schedule: Schedule | None = None,
        range: str | Sequence[str] = (),
        keep: Mapping[str, int] | None = None,
        evaluate: PathLike | None = None,
        layout: str = "portable",
    ) -> Image:
        """Packs an image, as `tidegate pack` does.

        - `numeric`: `f32`, `f16`, `i8x16` (the default), `i4x16`, or `i8` for a model that is in integers already
        - `calibrate`: input for the ranges of integers: `[steps, features]`, `[n, steps, features]`, a dict of these by
          the names of inputs, a file, or `"noise"` for values from -1 to 1
        - `budget`: most bytes of the image, such as 65536 or "64KiB"; layers get wider weights while they fit
        - `at_least`: least signal-to-noise ratio of the output in dB
        - `schedule`: `"endless"`, or windows `(frames, every)`
        - `range`: rules for ranges, such as `"mse"` or `"lstm.cell_state:percentile=99.9"`
        - `keep`: bits of the weights of layers by name
        - `evaluate`: a file of labeled data, to compare decisions with those in f32
        - `layout`: `portable`, `cortex-m0`, `cortex-m4` or `cortex-m55`

        >>> import numpy as np, tidegate
        >>> x = np.random.default_rng(1).standard_normal((20, 5, 10), "f4")
        >>> tidegate.example().pack("i8x16", calibrate=x, schedule=(5, 5))
        <tidegate.Image example.tgi: i8x16, lstm 16>
        """
        if numeric is not None and not isinstance(numeric, str):
            raise Error(f"numeric: {type(numeric).__name__}; give a name, such as 'i8x16', and data as calibrate=")
        if isinstance(numeric, str) and numeric in _OTHER_NAMES:
            raise Error(f"numeric {numeric!r}: its name here is {_OTHER_NAMES[numeric]!r}")
        if evaluate is not None and not isinstance(evaluate, (str, os.PathLike)):
            raise Error(f"evaluate: a {type(evaluate).__name__}; give the path of a file of labeled data")
        if self._learnt is not None and calibrate is None and numeric in (None, self._learnt.numeric):
            if budget or at_least or range or keep or evaluate:
                raise Error("budget, at_least, range, keep and evaluate: need calibrate=; else the ranges are those learnt")
            return Image(self._learnt.learnt.pack(self._native, layout, _schedule(schedule)))
        return Image(
            self._native.pack(
                numeric,
                layout,
                _schedule(schedule),
                None if calibrate is None else data(calibrate),
                [range] if isinstance(range, str) else list(range),
                list((keep or {}).items()),
                at_least,
                _size(budget),
                None if evaluate is None else os.fspath(evaluate),
            )
        )

    def save(self, path: PathLike) -> None:
        """Writes the canonical model to a safetensors file, which every command of `tidegate` reads.

        >>> import pathlib, tempfile, tidegate
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tidegate.example().save(pathlib.Path(folder) / "a.safetensors")
        """
        self._native.save(os.fspath(path))

    def to_bytes(self) -> bytes:
        """The canonical model as the bytes of a safetensors file.

        >>> import tidegate
        >>> tidegate.example().to_bytes() == tidegate.example().to_bytes()
        True
        """
        return self._native.content()

    def __repr__(self) -> str:
        layers = ", ".join(f"{node['cell']} {node['output_size']}" for node in self.architecture["nodes"])
        return f"<tidegate.Model {self._native.name}: {layers}>"


def import_model(
    model: Any,
    *,
    sample: Any = None,
    arch: PathLike | Mapping[str, Any] | None = None,
    window: int | None = None,
    schedule: Schedule | None = None,
    labels: Sequence[str] | PathLike | None = None,
    front_end: PathLike | None = None,
    stream: bool = False,
    mean_of: int | None = None,
    threshold: float | None = None,
    refractory_ms: int | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    bind: Mapping[str, PathLike] | None = None,
    state: Mapping[str, str] | None = None,
) -> Model:
    """Imports a network: a file that `tidegate import` reads, a `torch.nn.Module` or a `keras.Model`.

    A module of PyTorch is traced, and each of its layers and functions must be known; `arch`, a file or a dict as in
    docs/architecture.md, describes one that cannot be traced. `sample` is one input, `[n, steps, features]` or
    `[steps, features]`: a module with one output for each sequence becomes windows of this many steps, as does a Keras model
    whose input leaves the number of steps open. `window` gives that number without a sample. The other arguments are the
    options of the command line.

    >>> import tidegate
    >>> tidegate.import_model("missing.onnx")
    Traceback (most recent call last):
    tidegate._errors.Error: missing.onnx: there is no such file: check the path
    """
    given = settings(
        window=window,
        schedule=schedule,
        labels=labels,
        front_end=front_end,
        stream=stream,
        mean_of=mean_of,
        threshold=threshold,
        refractory_ms=refractory_ms,
        shape=shape,
        bind=bind,
        state=state,
    )
    if isinstance(model, (str, os.PathLike)):
        if isinstance(arch, Mapping):
            with open(model, "rb") as file:
                name = os.fspath(model)
                return Model(_native.import_bytes(file.read(), name, json.dumps(dict(arch)), **given))
        if arch is not None:
            given["arch"] = os.fspath(arch)
        return Model(_native.import_file(os.fspath(model), **given))
    # The parts for frameworks are imported only with these.
    # With its PyTorch backend a Keras model is a module of PyTorch too.
    if _is_of("keras", "Model", model) or _is_of("tf_keras", "Model", model):
        if arch is not None:
            raise Error("arch: a Keras model holds its architecture: leave it out")
        from . import _keras

        return Model(_keras.imported(model, given, sample), getattr(model, "quantized", None))
    if _is_of("torch", "nn.Module", model):
        from . import _torch

        return Model(_torch.imported(model, sample, arch, given), getattr(model, "quantized", None))
    hint = "call the class to make one" if isinstance(model, type) else "give a file, a torch.nn.Module or a keras.Model"
    raise Error(f"{model.__name__ if isinstance(model, type) else type(model).__name__!r} is no model: {hint}")


def pack(
    model: Any,
    path: PathLike | None = None,
    *,
    sample: Any = None,
    numeric: str | None = None,
    calibrate: Any = None,
    **options: Any,
) -> Image:
    """Imports and packs in one call, and writes the image to `path` if one is given. `sample` also calibrates integers,
    unless `calibrate` is given. Other options are those of `import_model` and of `Model.pack`.

    >>> import numpy as np, tidegate
    >>> x = np.random.default_rng(1).standard_normal((20, 5, 10), "f4")
    >>> tidegate.pack(tidegate.example(), sample=x)
    <tidegate.Image example.tgi: i8x16, lstm 16>
    """
    of_pack = {"budget", "at_least", "range", "keep", "evaluate", "layout"}
    unknown = set(options) - of_pack - set(import_model.__kwdefaults__ or {})
    if unknown:
        raise TypeError(f"pack() got an unexpected keyword argument {min(unknown)!r}")
    packing = {name: options.pop(name) for name in list(options) if name in of_pack}
    if isinstance(model, Model):
        if "schedule" in options:
            packing["schedule"] = options.pop("schedule")
        if options:
            raise Error(f"{', '.join(options)}: the model is imported already: give this to import_model")
        imported = model
    else:
        imported = import_model(model, sample=sample, **options)
    is_learnt = imported._learnt is not None and numeric in (None, imported._learnt.numeric)
    if calibrate is None and numeric not in ("f32", "f16", "i8") and not is_learnt:
        calibrate = sample
    image = imported.pack(numeric, calibrate=calibrate, **packing)
    if path is not None:
        image.save(path)
    return image


def _is_of(package: str, name: str, model: Any) -> bool:
    """Whether a model is of a class of a package, which is not imported for this."""
    found: Any = sys.modules.get(package)
    for part in name.split("."):
        found = getattr(found, part, None)
    return isinstance(found, type) and isinstance(model, found)


def settings(**given: Any) -> dict[str, Any]:
    """The arguments of `import_model` as Rust takes them."""
    as_given: dict[str, Any] = {
        "schedule": _schedule,
        "labels": lambda labels: labels if isinstance(labels, (str, os.PathLike)) else list(labels),
        "stream": lambda stream: stream or None,
        "shape": lambda shape: {name: list(dims) for name, dims in shape.items()},
        "bind": dict,
        "state": dict,
    }
    present = {name: as_given.get(name, lambda value: value)(value) for name, value in given.items() if value is not None}
    return {name: value for name, value in present.items() if value is not None}


def _schedule(schedule: Schedule | None) -> str | None:
    if schedule is None or isinstance(schedule, str):
        return schedule
    if not isinstance(schedule, (tuple, list)) or [type(number) for number in schedule] != [int, int]:
        raise Error(f"schedule {schedule!r}: give 'endless', or (frames, every), such as (50, 50)")
    return "{}/{}".format(*schedule)


def _size(budget: int | str | None) -> int | None:
    """A number of bytes, such as 65536 or "64KiB"."""
    if not isinstance(budget, str):
        return budget
    for unit, size in (("KiB", 1 << 10), ("MiB", 1 << 20), ("", 1)):
        number = budget.removesuffix(unit).strip()
        if budget.endswith(unit) and number.isdigit():
            return int(number) * size
    raise Error(f"budget {budget!r}: write a size such as 100KiB, 1MiB or 65536")
