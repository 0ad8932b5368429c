"""Keras models in memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from . import _native


def imported(model: Any, settings: dict[str, Any]) -> _native.Model:
    """Imports a Keras model as the file that Keras writes of it. Keras can write only to a path."""
    if hasattr(model, "import_settings"):
        # A quantized model is imported as it is trained.
        model, settings = model.model, {**model.import_settings, **settings}
    # Keras 3 writes `.keras`, older versions a file of HDF5 whose content is the same.
    is_new = hasattr(type(model), "export") and type(model).__module__.startswith("keras.src.models")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{model.name}.{'keras' if is_new else 'h5'}")
        model.save(path)
        with open(path, "rb") as file:
            return _native.import_bytes(file.read(), model.name, None, **settings)
