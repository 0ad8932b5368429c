"""Quantization-aware training for PyTorch: the forward pass is that of the device, bit for bit, and gradients pass through
rounding unchanged.

>>> try:
...     import torch, tidegate.torch
...     module = tidegate.torch.quantize(torch.nn.GRU(4, 8, batch_first=True), numeric="i4x16")
...     x = torch.randn(2, 5, 4)
...     rows, _ = module(x)                 # integers, and ranges are learnt
...     rows.square().mean().backward()
...     same = (rows.detach().numpy() == tidegate.pack(module).run_batch(x)).all()
... except ImportError:
...     same = True                         # PyTorch is not installed
>>> bool(same)
True
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import torch
from torch.nn.utils import fusion

from . import _model, _native
from ._aware import Aware, Rounded
from ._errors import Error
from ._torch import Arch, Plan

__all__ = ["QuantConv1d", "QuantGRU", "QuantLSTM", "QuantLinear", "QuantRNN", "Quantized", "quantize"]

_running = threading.local()
"""Whether a quantized module runs in floats, and with it those inside."""


class _Through(torch.autograd.Function):
    """Gives other values than it is given, and the gradient back where it passes."""

    @staticmethod
    def forward(ctx: Any, value: Any, other: Any, passes: Any) -> Any:
        ctx.save_for_backward(passes)
        return other

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (passes,) = ctx.saved_tensors
        return (gradient if passes is None else gradient * passes), None, None


class _InFloats(torch.nn.Module):
    """Runs a quantized module in floats, with other weights."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _in_floats(self.module, args, kwargs)


def _in_floats(module: Any, args: Any, kwargs: Any) -> Any:
    before, _running.floats = getattr(_running, "floats", False), True
    try:
        return module.float_class.forward(module, *args, **kwargs)
    finally:
        _running.floats = before


class Quantized(torch.nn.Module):
    """A module that computes in the integers of a device. `quantize` makes one of any module that `tidegate.import_model`
    reads.

    In training mode it learns the ranges of its values from the batches that it sees. `tidegate.pack(module)` then packs it
    without calibration, and the image gives the results of the module bit for bit. Each sequence starts from a zero state.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     print(tidegate.torch.quantize(torch.nn.Linear(4, 2)).quantized.numeric)
    ... except ImportError:
    ...     print("i8x16")
    i8x16
    """

    float_class: type[torch.nn.Module]
    quantized: Aware
    """The numeric, and the ranges."""
    import_options: tuple[Arch, dict[str, Any]]
    """How the module is imported."""
    last_steps: int
    """Number of steps of the last batch that ranges were learnt from; missing before the first one."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the device's integers for a batch. Its gradient is that of the module in floats with the weights
        that the device has.

        >>> import tidegate
        >>> try:
        ...     import torch, tidegate.torch
        ...     print(tuple(tidegate.torch.quantize(torch.nn.Linear(4, 2))(torch.ones(3, 4)).shape))
        ... except ImportError:
        ...     print((3, 2))
        (3, 2)
        """
        if getattr(_running, "floats", False):
            return _in_floats(self, args, kwargs)
        plan, rounded = self._round((*args, *kwargs.values()))
        weights = {}
        for name, weight in self.named_parameters():
            passes = torch.from_numpy(rounded.passes[name]).to(weight.device)
            kept = torch.from_numpy(rounded.weights[name]).to(weight)
            weights[f"module.{name}"] = _Through.apply(weight, kept, passes)
        result = torch.func.functional_call(_InFloats(self), weights, args, kwargs)
        return _replaced(result, rounded.outputs, plan)

    def get_extra_state(self) -> Any:
        """The ranges, and the number of steps that they were learnt from, as a part of the state dict.

        >>> import tidegate
        >>> try:
        ...     import torch, tidegate.torch
        ...     print(len(tidegate.torch.quantize(torch.nn.Linear(4, 2)).get_extra_state()))
        ... except ImportError:
        ...     print(4)
        4
        """
        steps = np.array([self.__dict__.get("last_steps", 0)], "<u4").tobytes()
        return torch.from_numpy(np.frombuffer(steps + self.quantized.learnt.content(), np.uint8).copy())

    def set_extra_state(self, state: Any) -> None:
        """Takes the ranges and the number of steps of a state dict.

        >>> import tidegate
        >>> try:
        ...     import torch, tidegate.torch
        ...     module = tidegate.torch.quantize(torch.nn.Linear(4, 2))
        ...     print(module.set_extra_state(module.get_extra_state()))
        ... except ImportError:
        ...     print(None)
        None
        """
        content = state.cpu().numpy().tobytes()
        self.quantized.learnt = _native.Learnt(self.quantized.numeric, content[4:] or None)
        steps = int.from_bytes(content[:4], "little")
        if steps > 0:
            self.__dict__["last_steps"] = steps

    def extra_repr(self) -> str:
        """What `print` shows of the module beside its layers.

        >>> import tidegate
        >>> try:
        ...     import torch, tidegate.torch
        ...     print("numeric=i8x16" in repr(tidegate.torch.quantize(torch.nn.Linear(4, 2))))
        ... except ImportError:
        ...     print(True)
        True
        """
        own = self.float_class.extra_repr(self)
        return f"{own}, numeric={self.quantized.numeric}" if own else f"numeric={self.quantized.numeric}"

    def _setup(self, numeric: str, arch: Arch, settings: dict[str, Any]) -> None:
        object.__setattr__(self, "quantized", Aware(numeric))
        object.__setattr__(self, "import_options", (arch, settings))

    def _round(self, inputs: Any) -> tuple[Plan, Rounded]:
        """Runs the integers. Inputs are arrays `[n, steps, size]` there."""
        plan, settings = self._plan(tuple(inputs[0].shape))
        for name, _ in self.named_buffers():
            raise Error(f"{plan.name}: {name}: {_remedy(self, name)}")
        axes = plan.found.axes if plan.found else ("n", "t", "f")
        batch = [_rows(value, axes) for value in inputs]
        tensors = {name: value.detach().cpu().float().contiguous().numpy() for name, value in self.named_parameters()}
        steps, learns = batch[0].shape[1], self.training and torch.is_grad_enabled()
        if learns:
            self.__dict__["last_steps"] = steps
        return plan, self.quantized.run(tensors, batch, lambda content: plan.model(content, steps, settings), learns)

    def _plan(self, shape: tuple[int, ...]) -> tuple[Plan, dict[str, Any]]:
        """How the module is imported for an input of this shape."""
        arch, settings = self.import_options
        plans = self.__dict__.setdefault("_plans", {})
        if len(shape) not in plans:
            plans[len(shape)] = Plan.of(self, shape, arch, is_call=True)
        return plans[len(shape)], settings


def _remedy(module: Any, buffer: str) -> str:
    """Why a buffer is refused, and what to do."""
    owner = module.get_submodule(buffer.rpartition(".")[0])
    if not isinstance(owner, torch.nn.modules.batchnorm._BatchNorm):
        return "a buffer cannot be trained with integers: make it a torch.nn.Parameter, with requires_grad=False if it is fixed"
    fold = "call eval() on the module before quantize(), which then merges it into the layer before it"
    return f"statistics cannot be trained with integers: {fold}, if both are neighbors in a torch.nn.Sequential"


def _merge_norms(module: Any) -> None:
    """Merges each batch normalization in evaluation mode into the layer before it in a sequence. The parameters of the layer
    stay the same objects, with other values."""
    sequences: list[Any] = [part for part in module.modules() if isinstance(part, torch.nn.Sequential)]
    for sequence in sequences:
        neighbors: Any = itertools.pairwise(list(sequence.named_children()))
        for (_, layer), (name, norm) in neighbors:
            is_fixed = isinstance(norm, torch.nn.BatchNorm1d) and not norm.training and norm.track_running_stats
            if not is_fixed or type(layer) not in (torch.nn.Linear, torch.nn.Conv1d):
                continue
            statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
            is_linear = isinstance(layer, torch.nn.Linear)
            fuse: Any = fusion.fuse_linear_bn_weights if is_linear else fusion.fuse_conv_bn_weights
            weight, bias = fuse(layer.weight, layer.bias, *statistics)
            with torch.no_grad():
                layer.weight.copy_(weight)
                if layer.bias is None:
                    layer.bias = torch.nn.Parameter(bias.detach())
                else:
                    layer.bias.copy_(bias)
            setattr(sequence, name, torch.nn.Identity())


def _replaced(result: Any, outputs: list[Any], plan: Plan) -> Any:
    """The result with the integers in place of the outputs of the network. States beside them stay."""
    axes = plan.found.outputs if plan.found else [None] * len(outputs)
    if len(outputs) == 1:
        return _exchanged(result, outputs[0], axes[0])
    return type(result)(_exchanged(*each) for each in zip(result, outputs, axes, strict=True))


def _exchanged(value: Any, rows: Any, axes: Any) -> Any:
    """A value with that of the integers in place of its own. A recurrent layer returns its states beside it."""
    if isinstance(value, (tuple, list)):
        return type(value)([_exchanged(value[0], rows, axes), *value[1:]])
    rows = torch.from_numpy(rows).to(value)
    axes = axes or ("n", "t", "f")[: value.dim()]
    order = [place for place, _ in sorted(enumerate(axes), key=lambda item: "ntcwf".index(item[1]))]
    shape = [value.shape[place] for place in order]
    if rows.numel() != value.numel():
        raise Error(f"the network returns {list(value.shape)}, its integers {list(rows.shape)}: the whole network must be in "
                    "the module")  # fmt: skip
    back = [order.index(place) for place in range(len(order))]
    return _Through.apply(value, rows.reshape(shape).permute(back).contiguous(), None)


def _rows(value: Any, axes: Any) -> Any:
    """An input as `[n, steps, size]`."""
    if value.dim() != len(axes):
        raise Error(f"an input of shape {list(value.shape)}; the network takes {', '.join(axes)}")
    order = [axes.index(axis) for axis in "ntcwf" if axis in axes]
    value = value.detach().permute(order)
    if "n" not in axes:
        value = value.unsqueeze(0)
    if "t" not in axes:
        value = value.unsqueeze(1)
    return value.flatten(2).cpu().float().contiguous().numpy()


def quantize(
    module: Any, numeric: str = "i8x16", *, arch: Arch = None, sample: Any = None, **settings: Any
) -> Any:
    """Converts a module in place: from now on it computes in the integers of `numeric`, `i8x16` or `i4x16`. Its parameters
    stay those that an optimizer has. Ranges are learnt from batches in training mode; `sample` is a first one. `arch` and
    the other arguments are those of `tidegate.import_model`. In a `torch.nn.Sequential`, batch normalization in evaluation
    mode is merged into the layer before it.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    ...     module = tidegate.torch.quantize(module, "i4x16", sample=torch.randn(16, 4))
    ...     print(tidegate.pack(module).numeric)
    ... except ImportError:
    ...     print("i4x16")
    i4x16
    """
    if isinstance(module, Quantized):
        raise Error(f"{type(module).__name__}: is quantized already")
    _merge_norms(module)
    own = {cls.float_class: cls for cls in (QuantConv1d, QuantGRU, QuantLSTM, QuantLinear, QuantRNN)}
    cls = type(module)
    bases = (Quantized, cls)
    module.__class__ = own.get(cls) or type(f"Quant{cls.__name__}", bases, {"float_class": cls, "__module__": cls.__module__})
    module._setup(numeric, arch, _model.settings(**settings))
    if sample is not None:
        was, module.training = module.training, True
        with torch.enable_grad():
            module(torch.as_tensor(sample))
        module.training = was
    return module


class _Recurrent(Quantized):
    """A recurrent layer. The last states of its last layer are rows of its output; those below are in floats."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not getattr(_running, "floats", False) and (len(args) > 1 or kwargs):
            raise Error(f"{type(self).__name__}: takes no state: every sequence starts from a zero state")
        rows, states = super().forward(*args, **kwargs)
        if getattr(_running, "floats", False):
            return rows, states
        hidden = states[0] if isinstance(states, tuple) else states
        time = rows.dim() - 2 if self.batch_first or rows.dim() == 2 else 0
        last = [rows.select(time, -1)]
        if self.bidirectional:
            size = rows.shape[-1] // 2
            last = [last[0][..., :size], rows.select(time, 0)[..., size:]]
        hidden = torch.cat([hidden[: -len(last)], torch.stack(last)])
        return rows, ((hidden, states[1]) if isinstance(states, tuple) else hidden)


class QuantLSTM(_Recurrent, torch.nn.LSTM):
    """`torch.nn.LSTM` in the integers of a device.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     print(tuple(tidegate.torch.QuantLSTM(4, 8, batch_first=True)(torch.ones(3, 5, 4))[0].shape))
    ... except ImportError:
    ...     print((3, 5, 8))
    (3, 5, 8)
    """

    float_class = torch.nn.LSTM

    def __init__(self, *args: Any, numeric: str = "i8x16", **kwargs: Any) -> None:
        torch.nn.LSTM.__init__(self, *args, **kwargs)
        self._setup(numeric, None, {})


class QuantGRU(_Recurrent, torch.nn.GRU):
    """`torch.nn.GRU` in the integers of a device.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     print(tuple(tidegate.torch.QuantGRU(4, 8, batch_first=True)(torch.ones(3, 5, 4))[0].shape))
    ... except ImportError:
    ...     print((3, 5, 8))
    (3, 5, 8)
    """

    float_class = torch.nn.GRU

    def __init__(self, *args: Any, numeric: str = "i8x16", **kwargs: Any) -> None:
        torch.nn.GRU.__init__(self, *args, **kwargs)
        self._setup(numeric, None, {})


class QuantRNN(_Recurrent, torch.nn.RNN):
    """`torch.nn.RNN` in the integers of a device.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     print(tuple(tidegate.torch.QuantRNN(4, 8, batch_first=True)(torch.ones(3, 5, 4))[0].shape))
    ... except ImportError:
    ...     print((3, 5, 8))
    (3, 5, 8)
    """

    float_class = torch.nn.RNN

    def __init__(self, *args: Any, numeric: str = "i8x16", **kwargs: Any) -> None:
        torch.nn.RNN.__init__(self, *args, **kwargs)
        self._setup(numeric, None, {})


class QuantLinear(Quantized, torch.nn.Linear):
    """`torch.nn.Linear` in the integers of a device.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     print(tuple(tidegate.torch.QuantLinear(4, 2)(torch.ones(3, 4)).shape))
    ... except ImportError:
    ...     print((3, 2))
    (3, 2)
    """

    float_class = torch.nn.Linear

    def __init__(self, *args: Any, numeric: str = "i8x16", **kwargs: Any) -> None:
        torch.nn.Linear.__init__(self, *args, **kwargs)
        self._setup(numeric, None, {})


class QuantConv1d(Quantized, torch.nn.Conv1d):
    """`torch.nn.Conv1d` in the integers of a device.

    >>> import tidegate
    >>> try:
    ...     import torch, tidegate.torch
    ...     print(tuple(tidegate.torch.QuantConv1d(4, 2, 3)(torch.ones(1, 4, 9)).shape))
    ... except ImportError:
    ...     print((1, 2, 7))
    (1, 2, 7)
    """

    float_class = torch.nn.Conv1d

    def __init__(self, *args: Any, numeric: str = "i8x16", **kwargs: Any) -> None:
        torch.nn.Conv1d.__init__(self, *args, **kwargs)
        self._setup(numeric, None, {})
