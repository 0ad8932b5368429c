"""Keras runs with PyTorch if that is there, because training with integers needs it."""

import importlib.util
import os

if importlib.util.find_spec("torch"):
    os.environ.setdefault("KERAS_BACKEND", "torch")
