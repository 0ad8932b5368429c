"""Quantization-aware training, whatever the framework: weights and a batch go to Rust, which packs the present network and
runs its integers. Nothing is rounded in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Floats, safetensors
from ._errors import Error

NUMERICS = ("i8x16", "i4x16")
EVERY = 32
"""Number of batches from one that ranges are learnt from to the next."""

Weights = Mapping[str, Floats]
Import = Callable[[bytes], _native.Model]
"""Imports the bytes of a safetensors file with the weights."""


@dataclass
class Rounded:
    """The results of a batch in integers, and the weights that gave them."""

    outputs: list[Floats]
    weights: dict[str, Floats]
    """The weights that the image holds, in place of those that it rounds."""
    passes: dict[str, npt.NDArray[np.bool_]]
    """Where a weight is not clipped, so that its gradient counts."""


class Aware:
    """The ranges that a network has learnt, and the numeric that it is trained for."""

    def __init__(self, numeric: str) -> None:
        if numeric not in NUMERICS:
            raise Error(f"numeric {numeric!r}: training with integers is for {' and '.join(NUMERICS)}")
        self.numeric = numeric
        self.learnt = _native.Learnt(numeric)
        self.batches = 0
        self.places: dict[str, npt.NDArray[np.int64]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"numeric": self.numeric, "learnt": self.learnt.content(), "batches": self.batches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["numeric"])  # type: ignore[misc]
        self.learnt, self.batches = _native.Learnt(self.numeric, state["learnt"] or None), state["batches"]

    def run(self, weights: Weights, batch: list[Floats], imported: Import, learns: bool) -> Rounded:
        """Runs a batch, `[n, steps, size]` for each input, in integers. `learns` says whether the batch may widen the
        ranges."""
        model = imported(safetensors(weights))
        if learns:
            if self.batches % EVERY == 0:
                self.learnt.learn(model, batch)
            self.batches += 1
        image, rounded = self.learnt.round(model)
        if not self.places:
            self.places = self._located(weights, imported, model, [name for name, _, _ in rounded])
        outputs, counts = image.run_batch(batch, None)
        if min(counts, default=1) == 0:
            raise Error(f"{model.name}: {batch[0].shape[1]} steps are too few: the network has no output after them")
        return Rounded(outputs, *self._kept(weights, rounded))

    def _kept(self, weights: Weights, rounded: list[tuple[str, Floats, Floats]]) -> tuple[Any, Any]:
        """The weights of the image, and where they pass gradients, by the names of the framework."""
        flat = np.concatenate([weight.ravel() for weight in weights.values()])
        passes = np.ones(len(flat), bool)
        for name, values, cut in rounded:
            flat[self.places[name]] = values
            passes[self.places[name]] = cut == 0
        kept, passing, start = {}, {}, 0
        for name, weight in weights.items():
            end = start + weight.size
            kept[name] = flat[start:end].reshape(weight.shape)
            passing[name] = passes[start:end].reshape(weight.shape)
            start = end
        return kept, passing

    def _located(
        self, weights: Weights, imported: Import, model: _native.Model, names: list[str]
    ) -> dict[str, npt.NDArray[np.int64]]:
        """For each matrix of the model, the positions of its weights in all weights: the network is imported once with
        numbers in place of weights."""
        total = sum(weight.size for weight in weights.values())
        if total > 1 << 24:
            raise Error(f"{model.name}: has {total} weights; at most {1 << 24} can be trained with integers")
        numbers, start = {}, 0
        for name, weight in weights.items():
            numbers[name] = np.arange(start, start + weight.size, dtype=np.float32).reshape(weight.shape)
            start += weight.size
        numbered, present = dict(imported(safetensors(numbers)).tensors()), dict(model.tensors())
        flat = np.concatenate([weight.ravel() for weight in weights.values()])
        places = {name: numbered[name].astype(np.int64) for name in names}
        for name, place in places.items():
            is_copy = place.size == present[name].size and place.min() >= 0 and place.max() < total
            if not (is_copy and np.array_equal(flat[place], present[name])):
                reason = "its weights are not those of one layer: merge batch normalization into the layer before it"
                raise Error(f"{model.name}: {name}: {reason}, then train")
        return places
