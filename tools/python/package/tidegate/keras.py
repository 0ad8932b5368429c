"""Quantization-aware training for Keras: the forward pass is that of the device, bit for bit, and gradients pass through
rounding unchanged. It runs with Keras's PyTorch backend (`KERAS_BACKEND=torch`).

>>> import tidegate
>>> try:
...     import keras, tidegate.keras
...     model = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.GRU(8)])
...     model = tidegate.keras.quantize(model, numeric="i4x16", sample=keras.random.normal((16, 5, 4)))
...     numeric = tidegate.pack(model).numeric
... except ImportError:
...     numeric = "i4x16"                   # Keras is not installed, or runs with another backend
>>> numeric
'i4x16'
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from . import _keras, _model, _native
from ._arrays import Floats, floats
from ._aware import Aware, Rounded
from ._errors import Error

__all__ = ["Quantized", "quantize"]

if keras.backend.backend() != "torch":
    raise ImportError(f"Keras runs with {keras.backend.backend()}: training with integers needs KERAS_BACKEND=torch")


class _Importer:
    """Imports a Keras model from its weights as bytes. Keras itself writes the model once; then the tensors of that import
    are replaced, of which each element is a weight or a constant."""

    def __init__(self, model: Any, settings: dict[str, Any]) -> None:
        self.imported = _keras.imported(model, settings)
        present = dict(self.imported.tensors())
        weights = {weight.path: _array(weight) for weight in _weights(model)}
        flat = np.concatenate([weight.ravel() for weight in weights.values()] or [np.zeros(0, np.float32)])
        numbered = _numbered(model, settings)
        self.constants: dict[str, Floats] = {}
        self.places: dict[str, npt.NDArray[np.int64]] = {}
        for name, values in present.items():
            places = numbered[name].astype(np.int64) - 1
            if places.min() >= 0 and places.max() < len(flat) and np.array_equal(flat[places], values):
                self.places[name] = places
            elif np.array_equal(numbered[name], values):
                self.constants[name] = values
            else:
                reason = "its weights are not those of one layer: merge batch normalization into the layer before it"
                raise Error(f"{model.name}: {name}: {reason}, then train")

    def model(self, content: bytes) -> _native.Model:
        """The model with the weights of a safetensors file, in their order."""
        start = 8 + int.from_bytes(content[:8], "little")
        flat = np.frombuffer(content, np.float32, offset=start)
        tensors = {name: flat[places] for name, places in self.places.items()} | self.constants
        return self.imported.replaced(list(tensors.items()))


def _weights(model: Any) -> list[Any]:
    """The variables that hold weights; states of random generators are none."""
    return [weight for weight in model.weights if keras.backend.is_float_dtype(weight.dtype)]


def _array(weight: Any) -> Floats:
    return floats(keras.ops.convert_to_numpy(weight.value))


def _numbered(model: Any, settings: dict[str, Any]) -> dict[str, Floats]:
    """The tensors of the model imported with the positions of weights, counted from 1, in place of weights."""
    weights = _weights(model)
    total = sum(int(np.prod(weight.shape)) for weight in weights)
    if total > 1 << 24:
        raise Error(f"{model.name}: has {total} weights; at most {1 << 24} can be trained with integers")
    before, start = [np.array(_array(weight)) for weight in weights], 1
    try:
        for weight, values in zip(weights, before, strict=True):
            weight.assign(np.arange(start, start + values.size, dtype=np.float32).reshape(values.shape))
            start += values.size
        return dict(_keras.imported(model, settings).tensors())
    finally:
        for weight, values in zip(weights, before, strict=True):
            weight.assign(values)


class Quantized(keras.Model):
    """A Keras model that computes in the integers of a device. `quantize` makes one.

    In training it learns the ranges of its values from the batches that it sees. `tidegate.pack(model)` then packs it without
    calibration, and the image gives the results of the model bit for bit. Each sequence starts from a zero state.

    >>> import tidegate
    >>> try:
    ...     import keras, tidegate.keras
    ...     model = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.Dense(2)])
    ...     print(tidegate.keras.quantize(model).quantized.numeric)
    ... except ImportError:
    ...     print("i8x16")
    i8x16
    """

    def __init__(self, model: Any, numeric: str, settings: dict[str, Any]) -> None:
        super().__init__(name=model.name)
        self.model = model
        object.__setattr__(self, "quantized", Aware(numeric))
        object.__setattr__(self, "import_settings", settings)
        object.__setattr__(self, "_importer", _Importer(model, settings))
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """The result of the device's integers for a batch. Its gradient is that of the model in floats with the weights that
        the device has.

        >>> import tidegate
        >>> try:
        ...     import keras, tidegate.keras
        ...     model = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.Dense(2)])
        ...     print(tuple(tidegate.keras.quantize(model)(keras.ops.ones((3, 5, 4)), training=True).shape))
        ... except ImportError:
        ...     print((3, 5, 2))
        (3, 5, 2)
        """
        arrays = keras.tree.flatten(inputs)
        if any(_is_symbolic(array) for array in arrays):
            return self.model(inputs)
        weights = _weights(self.model)
        rounded = self._round(weights, arrays, bool(training))
        kept = {weight.path: _through(weight, rounded) for weight in weights}
        mapped = [kept.get(weight.path, weight.value) for weight in self.model.trainable_variables]
        others = [kept.get(weight.path, weight.value) for weight in self.model.non_trainable_variables]
        result, _ = self.model.stateless_call(mapped, others, inputs, training=False)
        values = keras.tree.flatten(result)
        exchanged = [_exchanged(value, rows) for value, rows in zip(values, rounded.outputs, strict=True)]
        return keras.tree.pack_sequence_as(result, exchanged)

    def save_own_variables(self, store: Any) -> None:
        """Saves the ranges beside the weights of the model.

        >>> import tidegate
        >>> try:
        ...     import keras, tidegate.keras
        ...     store = {}
        ...     model = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.Dense(2)])
        ...     tidegate.keras.quantize(model, sample=keras.ops.ones((3, 5, 4))).save_own_variables(store)
        ...     print(list(store))
        ... except ImportError:
        ...     print(["ranges"])
        ['ranges']
        """
        store["ranges"] = np.frombuffer(self.quantized.learnt.content(), np.uint8).copy()

    def load_own_variables(self, store: Any) -> None:
        """Loads the ranges.

        >>> import tidegate
        >>> try:
        ...     import keras, tidegate.keras
        ...     model = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.Dense(2)])
        ...     model, store = tidegate.keras.quantize(model, sample=keras.ops.ones((3, 5, 4))), {}
        ...     model.save_own_variables(store)
        ...     print(model.load_own_variables(store))
        ... except ImportError:
        ...     print(None)
        None
        """
        content = np.asarray(store["ranges"], np.uint8).tobytes()
        self.quantized.learnt = _native.Learnt(self.quantized.numeric, content or None)

    def _round(self, weights: list[Any], arrays: list[Any], learns: bool) -> Rounded:
        """Runs the integers."""
        tensors = {weight.path: _array(weight) for weight in weights}
        batch = [_rows(keras.ops.convert_to_numpy(array)) for array in arrays]
        aware: Aware = self.quantized
        return aware.run(tensors, batch, self._importer.model, learns)


def _is_symbolic(array: Any) -> bool:
    """Whether a tensor has a shape but no values: Keras builds models and their metrics with these."""
    return isinstance(array, keras.KerasTensor) or getattr(getattr(array, "device", None), "type", "") == "meta"


def _rows(array: Any) -> Floats:
    """An input as `[n, steps, size]`."""
    rows: Floats = floats(array)
    shape = (rows.shape[0], 1, rows.shape[1]) if rows.ndim == 2 else (*rows.shape[:2], -1)
    return rows.reshape(shape)


def _through(weight: Any, rounded: Rounded) -> Any:
    """The weight that the device has, with the gradient of the weight where it is not clipped."""
    kept, passes = rounded.weights[weight.path], rounded.passes[weight.path]
    # The difference is zero.
    difference = weight.value - keras.ops.stop_gradient(weight.value)
    return keras.ops.convert_to_tensor(kept) + difference * keras.ops.convert_to_tensor(passes.astype(np.float32))


def _exchanged(value: Any, rows: Floats) -> Any:
    """A value with that of the integers in place of its own."""
    if rows.size != np.prod(value.shape):
        raise Error(f"the network returns {list(value.shape)}, its integers {list(rows.shape)}: the whole network must be in the "
                    "model")  # fmt: skip
    rows = keras.ops.convert_to_tensor(rows.reshape(tuple(value.shape)))
    return rows + (value - keras.ops.stop_gradient(value))


def quantize(model: Any, numeric: str = "i8x16", *, sample: Any = None, **settings: Any) -> Quantized:
    """A model that computes as `model` does, in the integers of `numeric`, `i8x16` or `i4x16`. The variables are those of
    `model`, which stays a model in floats. Ranges are learnt from batches in training; `sample` is a first one. The other
    arguments are those of `tidegate.import_model`.

    >>> import tidegate
    >>> try:
    ...     import keras, tidegate.keras
    ...     model = keras.Sequential([keras.layers.Input((5, 4)), keras.layers.LSTM(8), keras.layers.Dense(2)])
    ...     model = tidegate.keras.quantize(model, "i4x16", sample=keras.random.normal((16, 5, 4)))
    ...     print(tidegate.pack(model).numeric)
    ... except ImportError:
    ...     print("i4x16")
    i4x16
    """
    if isinstance(model, Quantized):
        raise Error(f"{model.name}: is quantized already")
    if not model.built:
        raise Error(f"{model.name}: has no weights yet: give it an input first")
    quantized = Quantized(model, numeric, _model.settings(**settings))
    if sample is not None:
        quantized(keras.ops.convert_to_tensor(sample), training=True)
    return quantized
