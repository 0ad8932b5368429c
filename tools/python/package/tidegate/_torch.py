"""Modules of PyTorch in memory: their state dict as `torch.save` writes it, and their layers as a description in the form
of `--arch`. The importer reads both as it reads files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _native, _trace
from ._errors import Error

Arch = str | os.PathLike[str] | Mapping[str, Any] | None


def imported(module: Any, sample: Any, arch: Arch, settings: dict[str, Any]) -> _native.Model:
    """Imports a module. Without `arch` its layers are those that a trace finds."""
    import torch

    if hasattr(module, "import_options"):
        # A quantized module is imported as it is trained.
        own, before = module.import_options
        arch, settings = own if arch is None else arch, {**before, **settings}
    file = io.BytesIO()
    torch.save(state(module), file)
    if sample is not None and not hasattr(sample, "shape"):
        raise Error(f"sample: a {type(sample).__name__}; give an array [n, steps, features]")
    shape = None if sample is None else tuple(sample.shape)
    plan = Plan.of(module, shape, arch)
    # A quantized module knows the steps that it was trained with.
    steps = getattr(module, "last_steps", None) if shape is None else plan.steps(shape)
    return plan.model(file.getvalue(), steps, settings)


def state(module: Any) -> dict[str, Any]:
    """The tensors of a module. The ranges that a quantized one has learnt are no weights."""
    return {name: value for name, value in module.state_dict().items() if not name.endswith("_extra_state")}


@dataclass
class Plan:
    """How a module is imported from its weights."""

    name: str
    architecture: str | None
    """The description as JSON."""
    file: str | None
    """Or the file of it."""
    found: _trace.Found | None
    """What a trace has found, unless the user describes the module."""

    @classmethod
    def of(cls, module: Any, shape: tuple[int, ...] | None, arch: Arch, is_call: bool = False) -> Plan:
        """The plan for a module whose input has this shape, if it is known; in a call, it has every axis."""
        name = _trace.class_of(module).__name__
        if isinstance(arch, Mapping):
            return cls(name, json.dumps(dict(arch)), None, None)
        if arch is not None:
            return cls(name, None, os.fspath(arch), None)
        found = _trace.description(module, shape, is_call)
        return cls(name, json.dumps(found.description), None, found)

    def steps(self, shape: tuple[int, ...]) -> int:
        """The number of time steps of an input of this shape."""
        if self.found is None or len(shape) != len(self.found.axes):
            return shape[-2]
        return shape[self.found.axes.index("t")] if "t" in self.found.axes else 1

    def model(self, content: bytes, steps: int | None, settings: dict[str, Any]) -> _native.Model:
        """Imports the bytes of a file with the weights, for inputs of this many steps if it is known."""
        if self.file is not None:
            return _native.import_bytes(content, self.name, None, arch=self.file, **settings)
        if self.found is None or steps is None or "window" in settings:
            return _native.import_bytes(content, self.name, self.architecture, **settings)
        windowed = {**settings, "window": steps}
        if not self.found.is_sequence:
            return _native.import_bytes(content, self.name, self.architecture, **windowed)
        try:
            return _native.import_bytes(content, self.name, self.architecture, **settings)
        except Error as error:
            # A network over the whole sequence, such as a bidirectional one.
            if "--window" not in str(error):
                raise
        return _native.import_bytes(content, self.name, self.architecture, **windowed)
