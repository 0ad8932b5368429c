"""Keras models in memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from . import _native
from ._arrays import plain


def imported(model: Any, settings: dict[str, Any], sample: Any = None) -> _native.Model:
    """Imports a Keras model as the file that Keras writes of it. Keras can write only to a path."""
    if hasattr(model, "import_settings"):
        # A quantized model is imported as it is trained.
        model, settings = model.model, {**model.import_settings, **settings}
    is_told = settings.keys() & {"window", "schedule", "stream"}
    if sample is not None and not is_told and _takes_any_length(model) and plain(sample).ndim > 1:
        settings = {**settings, "window": plain(sample).shape[-2]}
    # Keras 3 writes `.keras`, older versions a file of HDF5 whose content is the same.
    is_new = hasattr(type(model), "export") and type(model).__module__.startswith("keras.src.models")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{model.name}.{'keras' if is_new else 'h5'}")
        model.save(path)
        with open(path, "rb") as file:
            return _native.import_bytes(file.read(), model.name, None, **settings)


def _takes_any_length(model: Any) -> bool:
    """Whether a model of one input leaves the number of steps open, and has one output for each sequence."""
    inputs, outputs = getattr(model, "inputs", None) or [], getattr(model, "outputs", None) or []
    is_open = len(inputs) == 1 and len(inputs[0].shape) == 3 and inputs[0].shape[1] is None
    return is_open and bool(outputs) and all(len(output.shape) == 2 for output in outputs)
