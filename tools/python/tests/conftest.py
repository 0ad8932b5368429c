"""Keras runs with PyTorch if that is there, because training with integers needs it."""

import importlib.util
import os

if importlib.util.find_spec("torch"):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import torch

    # On GPUs, products of recurrent layers are in TF32 by default, which has 10 bits of fraction.
    torch.backends.cudnn.allow_tf32 = False
