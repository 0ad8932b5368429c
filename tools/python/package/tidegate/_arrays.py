"""Arrays of any library as NumPy arrays of `float32`, in C order."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import Error

Floats = npt.NDArray[np.float32]
Named = list[tuple[str, Floats, bool]]


def plain(x: Any) -> npt.NDArray[Any]:
    """An array of any library with DLPack, the buffer protocol or `__array__`, without a copy if it is in main memory."""
    if isinstance(x, np.ndarray):
        return x
    # NumPy takes no tensor of PyTorch with gradients or on a GPU.
    if hasattr(x, "detach") and hasattr(x, "cpu"):
        x = x.detach().cpu()
        # NumPy has no such numbers.
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__"):
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError):
            pass
    try:
        return np.asarray(x)
    except ValueError:
        raise Error("rows of different lengths are no array: pad them; run_batch takes their lengths in lengths=") from None


def floats(x: Any) -> Floats:
    """The numbers as `float32`, rounded to the nearest. A number beyond the range of `float32` is refused."""
    array = plain(x)
    if array.dtype == np.float32:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "fiub":
        kind = "text" if array.dtype.kind in "SU" else array.dtype
        raise Error(f"array of {kind}; an input is an array of real numbers")
    with np.errstate(over="ignore"):
        converted: Floats = np.ascontiguousarray(array, dtype=np.float32)
    return converted


def named(x: Any) -> Named:
    """Arrays by name, and whether each holds 8-bit integers. A single array has no name."""
    arrays = x if isinstance(x, Mapping) else {"": x}
    return [(str(name), floats(array), plain(array).dtype == np.int8) for name, array in arrays.items()]


def data(x: Any) -> str | Named:
    """The path of a file, or arrays by name."""
    return os.fspath(x) if isinstance(x, (str, os.PathLike)) else named(x)


def safetensors(tensors: Mapping[str, Floats]) -> bytes:
    """A safetensors file: the length of a header, the header, the numbers."""
    header, end = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values())
