"""Recurrent networks for microcontrollers: import, quantize, check and run them with the device's own integers.

>>> import numpy as np, tidegate
>>> x = np.random.default_rng(1).standard_normal((50, 10), "f4")
>>> image = tidegate.pack(tidegate.example(), sample=x)
>>> image.run(x).shape
(50, 16)
"""

from ._errors import Error, MemoryLimitError
from ._example import example
from ._image import Image
from ._model import Model, import_model, pack
from ._native import Stream, __version__, allow_memory
from ._results import Event, Heard, Verification

__all__ = [
    "Error",
    "Event",
    "Heard",
    "Image",
    "MemoryLimitError",
    "Model",
    "Stream",
    "Verification",
    "__version__",
    "allow_memory",
    "example",
    "import_model",
    "pack",
]
