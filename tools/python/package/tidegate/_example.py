"""A small network to try things with."""

from __future__ import annotations

import numpy as np

from . import _native
from ._arrays import safetensors
from ._model import Model


def example() -> Model:
    """An LSTM of 16 units over 10 features, with seeded weights, to try things with.

    >>> import tidegate
    >>> tidegate.example()
    <tidegate.Model example: lstm 16>
    """
    draw = np.random.default_rng(1)
    shapes = {"weight_ih_l0": (64, 10), "weight_hh_l0": (64, 16), "bias_ih_l0": (64,), "bias_hh_l0": (64,)}
    weights = {name: draw.standard_normal(shape).astype(np.float32) * np.float32(0.3) for name, shape in shapes.items()}
    return Model(_native.import_bytes(safetensors(weights), "example"))
