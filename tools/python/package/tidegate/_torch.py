"""Modules of PyTorch in memory: their state dict as `torch.save` writes it, and their layers as a description in the form
of `--arch`. The importer reads both as it reads files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

from . import _native, _trace
from ._errors import Error


def imported(
    module: Any, sample: Any, arch: str | os.PathLike[str] | Mapping[str, Any] | None, settings: dict[str, Any]
) -> _native.Model:
    """Imports a module. Without `arch` its layers are those that a trace finds."""
    import torch

    file, name = io.BytesIO(), type(module).__name__
    torch.save(module.state_dict(), file)
    content = file.getvalue()
    if isinstance(arch, Mapping):
        return _native.import_bytes(content, name, json.dumps(dict(arch)), **settings)
    if arch is not None:
        return _native.import_bytes(content, name, None, arch=os.fspath(arch), **settings)
    shape = None if sample is None else tuple(sample.shape)
    found = _trace.description(module, shape)
    architecture = json.dumps(found.description)
    if shape is None or "window" in settings:
        return _native.import_bytes(content, name, architecture, **settings)
    windowed = {**settings, "window": shape[-2]}
    if not found.is_sequence:
        return _native.import_bytes(content, name, architecture, **windowed)
    try:
        return _native.import_bytes(content, name, architecture, **settings)
    except Error as error:
        # A network over the whole sequence, such as a bidirectional one.
        if "--window" not in str(error):
            raise
    return _native.import_bytes(content, name, architecture, **windowed)
