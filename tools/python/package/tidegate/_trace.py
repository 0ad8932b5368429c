"""Layers of a PyTorch module, found by a trace of its `forward`. Nothing is guessed: an operation that is not known, or has
another layout than the importer's, is an error with its name."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from ._errors import Error

Axes = tuple[str, ...]
"""Of a value in PyTorch: n batch, t time, f features, c channels, w width of an image."""

LAYOUTS: list[Axes] = [("n", "t", "f"), ("t", "n", "f"), ("n", "f", "t"), ("n", "c", "t", "w"), ("t", "f"), ("n", "f")]

RECURRENT = ("LSTM", "GRU", "RNN")
CELLS = ("LSTMCell", "GRUCell", "RNNCell")
NAMED_IN = ("input_size", "in_features", "in_channels", "num_features")
"""Attributes with the number of features that a layer reads."""
SAME = ("contiguous", "dropout", "clone", "detach", "float", "to")
"""Functions that change nothing when a network runs."""
FUNCTIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "tanh": "Tanh", "sigmoid": "Sigmoid", "softmax": "Softmax", "gelu": "GELU",
    "leaky_relu": "LeakyReLU", "elu": "ELU", "selu": "SELU", "silu": "SiLU", "softplus": "Softplus",
    "softsign": "Softsign", "hardsigmoid": "Hardsigmoid", "hardtanh": "Hardtanh", "celu": "CELU",
    "hardswish": "Hardswish", "mish": "Mish",
}  # fmt: skip
"""Functions and the modules that do the same."""
ADVICE = "describe the network with arch= (docs/architecture.md)"


@dataclass
class Found:
    """A description in the form of `--arch`, and the axes of the input and of each output."""

    description: dict[str, Any]
    axes: Axes
    outputs: list[Axes]

    @property
    def is_sequence(self) -> bool:
        """Whether the network has an output for every step."""
        return all("t" in axes for axes in self.outputs)


@dataclass(frozen=True)
class Signal:
    """The value of an input or a layer."""

    layer: str
    axes: Axes


@dataclass(frozen=True)
class Recurrent:
    """What a recurrent layer returns: its outputs and its last states."""

    layer: str
    axes: Axes
    directions: int
    is_lstm: bool
    """Whether the states are a pair."""


@dataclass(frozen=True)
class States:
    """The last hidden states, `[layers * directions, n, units]`; `index` is one of them, from the end."""

    of: Recurrent
    index: int | None = None


@dataclass(frozen=True)
class Extent:
    """A size of a value, its shape, or its device."""


@dataclass(frozen=True)
class Zeros:
    """A tensor of zeros: as a state it is the one that every sequence starts from."""


def description(module: Any, shape: tuple[int, ...] | None, is_call: bool = False) -> Found:
    """The layers of a module whose input has this shape, if it is known. In a call of the module, the shape is that of all
    axes; a sample may lack the batch."""
    graph, modules = _graph(module)
    reasons = []
    for axes in LAYOUTS:
        # A sample of one sequence has no batch.
        if shape is not None and not len(shape) <= len(axes) <= max(len(shape), 0 if is_call else 3):
            continue
        try:
            return _Walk(modules, axes, shape).run(graph)
        except _Layout as error:
            reasons.append(str(error))
    raise Error(f"{class_of(module).__name__}: {reasons[0]}; {ADVICE}")


class _Layout(Exception):
    """A layer that does not take a value with these axes."""


def _graph(module: Any) -> tuple[Any, dict[str, Any]]:
    import torch.fx

    name = class_of(module).__name__
    is_leaf = class_of(module).__module__.startswith("torch.nn.") and not isinstance(module, torch.nn.Sequential)
    if is_leaf:
        graph = torch.fx.Graph()
        graph.output(graph.call_module("", (graph.placeholder("input"),)))
        return graph, {"": module}
    # A device gives only the input.
    parameters = inspect.signature(class_of(module).forward).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}
    given = type(module)
    try:
        module.__class__ = class_of(module)
        graph = _tracer().trace(module, defaults)
    except Exception as error:
        # PyTorch raises whatever the module's own code makes of symbols.
        raise Error(f"{name}: cannot be traced ({_line(error)}); {ADVICE}") from error
    finally:
        module.__class__ = given
    return graph, dict(module.named_modules())


def class_of(module: Any) -> Any:
    """The class of a module; of a quantized one, the class that it had before."""
    return getattr(type(module), "float_class", type(module))


def _tracer() -> Any:
    """A tracer that does not look into quantized layers either."""
    import torch.fx

    tracer: Any = torch.fx.Tracer()
    is_leaf = tracer.is_leaf_module

    def is_leaf_module(module: Any, name: str) -> bool:
        is_layer = hasattr(type(module), "float_class") and class_of(module).__module__.startswith("torch.nn.")
        return is_layer or bool(is_leaf(module, name))

    tracer.is_leaf_module = is_leaf_module
    return tracer


def _used(graph: Any) -> set[Any]:
    """The nodes that an output depends on."""
    used: set[Any] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in used:
            used.update(node.all_input_nodes)
    return used


def _line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


@dataclass
class _Walk:
    modules: dict[str, Any]
    axes: Axes
    shape: tuple[int, ...] | None
    layers: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, Any] = field(default_factory=dict)
    values: dict[Any, Any] = field(default_factory=dict)

    def run(self, graph: Any) -> Found:
        used = _used(graph)
        placeholders = [node for node in graph.nodes if node.op == "placeholder" and node in used]
        for node in placeholders:
            name = "input" if len(placeholders) == 1 else node.name
            self.values[node] = Signal(name, self.axes)
            self.sizes[name] = None if self.shape is None else self.shape[-1]
        results: Any = None
        for node in graph.nodes:
            if node.op == "output":
                results = node.args[0]
            elif node.op != "placeholder" and node in used:
                self.values[node] = self.value(node)
        outputs = self.outputs(results)
        if not self.layers:
            raise Error(f"the network has no layer that is known; {ADVICE}")
        names = [output.layer for output in outputs]
        described: dict[str, Any] = {"framework": "torch", "inputs": self.inputs(), "layers": self.layers}
        if names != [self.layers[-1]["name"]]:
            described["outputs"] = names
        return Found(described, self.axes, [output.axes for output in outputs])

    def outputs(self, results: Any) -> list[Signal]:
        """The outputs of the network. States that it returns beside them are kept by the stream."""
        values = [self.of(result, "output") for result in (results if isinstance(results, (tuple, list)) else [results])]
        values = [Signal(value.layer, value.axes) if isinstance(value, Recurrent) else value for value in values]
        if any(isinstance(value, Signal) for value in values):
            values = [value for value in values if isinstance(value, Signal)]
        return [self.signal(value) for value in values]

    def inputs(self) -> list[dict[str, Any]]:
        unknown = [name for name, size in self.sizes.items() if size is None]
        if unknown:
            raise Error(f"the number of features of {unknown[0]!r} is unknown: give sample=, one input of the network")
        return [{"name": name, "size": size} for name, size in self.sizes.items()]

    def value(self, node: Any) -> Any:
        """The value of a node of the graph."""
        if node.op == "call_module":
            return self.call(node)
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        if node.op not in ("call_function", "call_method"):
            raise Error(f"{node.op} {name}: not supported; {ADVICE}")
        return self.function(name.strip("_"), node)

    def of(self, argument: Any, name: str) -> Any:
        """The value of an argument, which a node computes."""
        try:
            return self.values[argument]
        except (KeyError, TypeError):
            raise Error(f"{name} of {argument!r}: not supported; {ADVICE}") from None

    def signal(self, value: Any) -> Signal:
        """A value as one signal: the outputs of a recurrent layer are those of all steps."""
        if isinstance(value, Signal):
            return value
        if isinstance(value, States) and value.index is not None and value.of.directions == 1:
            return self.final(value)
        if isinstance(value, Recurrent) and self.layer(value.layer)["class"] in CELLS:
            return Signal(value.layer, value.axes)
        if isinstance(value, (Extent, Zeros)):
            raise Error(f"zeros and sizes are supported only as the state of a recurrent layer; {ADVICE}")
        raise Error(f"the states of {_of(value)!r} are used in a way that is not supported; {ADVICE}")

    def layer(self, name: str) -> dict[str, Any]:
        return next(layer for layer in self.layers if layer["name"] == name)

    def add(self, name: str, cls: str, inputs: list[Signal], args: dict[str, Any], prefix: str | None = None) -> str:
        """Adds a layer under a name of its own."""
        names = [*self.sizes, *(layer["name"] for layer in self.layers)]
        unique, count = name, 2
        while unique in names:
            unique, count = f"{name}_{count}", count + 1
        layer: dict[str, Any] = {"name": unique, "class": cls}
        if args:
            layer["args"] = args
        before = [self.layers[-1]["name"]] if self.layers else list(self.sizes)
        if [signal.layer for signal in inputs] != before:
            layer["inputs"] = [signal.layer for signal in inputs]
        if prefix is not None and prefix != unique:
            layer["prefix"] = prefix
        self.layers.append(layer)
        return unique

    def call(self, node: Any) -> Any:
        """The call of a module with weights or arguments."""
        module, path = self.modules[node.target], node.target
        cls = class_of(module).__name__
        name = path or cls.lower()
        if not all(self.is_zero(argument) for argument in [*node.args[1:], *node.kwargs.values()]):
            reason = "is called with more than its input, and not with a state of zeros"
            raise Error(f"{name}: {cls} {reason}: every sequence starts from zeros on a device; {ADVICE}")
        source = self.signal(self.of(node.args[0], name))
        if cls in ("Flatten", "Dropout", "Identity"):
            if cls == "Flatten":
                return self.flatten(source, module.start_dim, module.end_dim, name)
            return Signal(self.add(name, cls, [source], _arguments(module)), source.axes)
        self.takes(module, source)
        args = _arguments(module)
        if cls in RECURRENT:
            wanted = ("n", "t", "f") if module.batch_first else ("t", "n", "f")
            self.check(source, [wanted, ("t", "f")], f"{name}: {cls}")
            directions = 2 if module.bidirectional else 1
            layer = self.add(name, cls, [source], args, path)
            return Recurrent(layer, source.axes, directions, cls == "LSTM")
        if cls in CELLS:
            return Recurrent(self.add(name, cls, [source], args, path), source.axes, 1, cls == "LSTMCell")
        axes = self.after(cls, module, source, name)
        if cls == "Embedding":
            return Signal(self.add(name, cls, [source], args, path), (*source.axes, "f"))
        if cls == "Softmax":
            args = {"dim": self.features(source, module.dim, name)}
        return Signal(self.add(name, cls, [source], args, path), axes)

    def is_zero(self, argument: Any) -> bool:
        """Whether an argument is a state of zeros, or a pair of them."""
        if isinstance(argument, (tuple, list)):
            return all(self.is_zero(part) for part in argument)
        return argument is None or isinstance(self.values.get(argument), Zeros)

    def takes(self, module: Any, source: Signal) -> None:
        """Notes the number of features of an input that a module reads."""
        if source.layer not in self.sizes:
            return
        known = [getattr(module, name) for name in NAMED_IN if hasattr(module, name)]
        if class_of(module).__name__ == "Embedding":
            self.sizes[source.layer] = 1
        elif known and len(source.axes) < 4:
            self.sizes[source.layer] = known[0]

    def after(self, cls: str, module: Any, source: Signal, name: str) -> Axes:
        """The axes of a layer's output; an error if it does not take those of its input."""
        what = f"{name}: {cls}"
        if cls in ("Conv1d", "MaxPool1d", "AvgPool1d", "AdaptiveAvgPool1d", "AdaptiveMaxPool1d"):
            self.check(source, [("n", "f", "t")], what)
        elif cls in ("Conv2d", "MaxPool2d", "AvgPool2d", "BatchNorm2d"):
            self.check(source, [("n", "c", "t", "w")], what)
        elif cls == "BatchNorm1d":
            self.check(source, [("n", "f", "t"), ("n", "f"), ("t", "f")], what)
        elif cls in ("Linear", "LayerNorm"):
            if source.axes[-1] != "f":
                raise _Layout(f"{what} reads the axis {source.axes[-1]!r} of {source.axes}, not the features")
        elif cls == "Embedding":
            if source.axes[-1] == "f":
                self.check(source, [], what)
        return source.axes

    def check(self, source: Signal, wanted: list[Axes], what: str) -> None:
        if source.axes not in wanted:
            raise _Layout(f"{what} does not take values with the axes {', '.join(source.axes)}")

    def features(self, source: Signal, dim: Any, name: str) -> int:
        """-1 if `dim` is that of the features."""
        if dim is None:
            raise Error(f"{name}: softmax needs dim=-1, the features")
        if source.axes[dim] != "f":
            raise _Layout(f"{name}: softmax over the axis {source.axes[dim]!r}, not over the features")
        return -1

    def function(self, name: str, node: Any) -> Any:
        """The call of a function or a method."""
        args, kwargs = list(node.args), dict(node.kwargs)
        if name == "getitem":
            return self.item(args[0], args[1])
        if name in ("zeros", "zeros_like", "new_zeros"):
            return Zeros()
        if name == "size" or name == "getattr" and args[1] in ("shape", "device", "dtype"):
            return Extent()
        if name in ("cat", "concat"):
            return self.concat(args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0))
        if name in ("add", "mul") and len(args) == 2 and not kwargs:
            sources = [self.signal(self.of(argument, name)) for argument in args]
            if sources[0].axes != sources[1].axes:
                raise Error(f"{name} of values with the axes {sources[0].axes} and {sources[1].axes}; {ADVICE}")
            return Signal(self.add(name, "Add" if name == "add" else "Multiply", sources, {}), sources[0].axes)
        value = self.of(args[0], name)
        if isinstance(value, States) and name == "squeeze" and args[1:] == [0] and value.index is None:
            return self.signal(States(value.of, -1)) if self.is_single(value.of) else self.signal(value)
        if isinstance(value, Zeros) and name in (*SAME, "unsqueeze", "expand", "repeat"):
            return value
        source = self.signal(value)
        if name in SAME:
            return source
        if name in FUNCTIONS:
            return self.activation(name, source, args[1:], kwargs)
        return self.moved(name, source, args[1:], kwargs)

    def is_single(self, of: Recurrent) -> bool:
        return of.directions == 1 and self.layer(of.layer).get("args", {}).get("num_layers", 1) == 1

    def activation(self, name: str, source: Signal, args: list[Any], kwargs: dict[str, Any]) -> Signal:
        kwargs = {key: value for key, value in kwargs.items() if key not in ("inplace", "dtype", "_stacklevel")}
        if name == "softmax":
            kwargs = {"dim": self.features(source, args[0] if args else kwargs.get("dim"), name)}
        elif args:
            raise Error(f"{name} with {args}: give its arguments by their names")
        return Signal(self.add(name, FUNCTIONS[name], [source], kwargs), source.axes)

    def moved(self, name: str, source: Signal, args: list[Any], kwargs: dict[str, Any]) -> Signal:
        """A function that moves values, or takes their mean over time."""
        axes = source.axes
        if name == "transpose" and len(args) == 2:
            swapped = list(axes)
            swapped[args[0]], swapped[args[1]] = axes[args[1]], axes[args[0]]
            return Signal(source.layer, tuple(swapped))
        if name == "permute":
            order = args[0] if args and isinstance(args[0], (tuple, list)) else args
            return Signal(source.layer, tuple(axes[place] for place in order))
        if name == "unsqueeze" and args == [1] and axes == ("n", "t", "f"):
            return Signal(source.layer, ("n", "c", "t", "w"))
        if name == "squeeze" and args in ([-1], [2]) and axes == ("n", "f", "t"):
            return Signal(source.layer, ("n", "f"))
        if name == "flatten":
            start = args[0] if args else kwargs.get("start_dim", 0)
            return self.flatten(source, start, args[1] if len(args) > 1 else kwargs.get("end_dim", -1), name)
        dim = args[0] if args else kwargs.get("dim")
        if name == "mean" and isinstance(dim, int) and axes[dim] == "t" and not kwargs.get("keepdim"):
            layer = self.add("mean", "AdaptiveAvgPool1d", [source], {"output_size": 1})
            return Signal(layer, tuple(axis for axis in axes if axis != "t"))
        raise Error(f"{name} with {[*args, *kwargs.items()]}: not supported; {ADVICE}")

    def flatten(self, source: Signal, start: int, end: int, name: str) -> Signal:
        axes = source.axes
        if end not in (-1, len(axes) - 1) or start not in (1, 2):
            raise Error(f"{name} from {start} to {end}: not supported; {ADVICE}")
        order = axes[start:]
        if len(order) == 1:
            return source
        # Where time and features stand before this, and what stays.
        known = {
            ("n", "t", "f"): (1, False), ("n", "f", "t"): (1, True), ("n", "c", "t", "w"): (1, True),
            ("n", "t", "c", "w"): (start, True),
        }  # fmt: skip
        if axes not in known or known[axes][0] != start:
            raise _Layout(f"{name} from {start} of values with the axes {', '.join(axes)}")
        args = {"start_dim": start, "channels_first": known[axes][1]}
        return Signal(self.add(name, "Flatten", [source], args), ("n", "f") if start == 1 else ("n", "t", "f"))

    def concat(self, parts: Any, dim: int) -> Signal:
        values = [self.of(part, "cat") for part in parts]
        if all(isinstance(value, States) for value in values):
            return self.both(values)
        sources = [self.signal(value) for value in values]
        if len({source.axes for source in sources}) > 1 or sources[0].axes[dim] != "f":
            raise _Layout(f"cat over the axis {sources[0].axes[dim]!r}, not over the features")
        return Signal(self.add("concat", "Concat", sources, {}), sources[0].axes)

    def both(self, values: list[States]) -> Signal:
        """The last states of both directions, the forward one first."""
        of = values[0].of
        if of.directions != 2 or any(value.of != of for value in values) or [v.index for v in values] != [-2, -1]:
            raise Error(f"cat of the states of {of.layer!r}: not supported; {ADVICE}")
        return self.final(States(of, -1))

    def final(self, states: States) -> Signal:
        if states.index != -1:
            raise Error(f"state {states.index} of {states.of.layer!r}: not supported; {ADVICE}")
        return Signal(self.take(states.of, "final"), ("n", "f"))

    def take(self, of: Recurrent, what: str) -> str:
        """Selects the outputs of a recurrent layer that are used."""
        layer = self.layer(of.layer)
        is_read = any(of.layer in other.get("inputs", []) for other in self.layers)
        if layer.get("take", what) != what or is_read or layer is not self.layers[-1]:
            raise Error(f"{of.layer!r}: its outputs are used in two ways: not supported; {ADVICE}")
        layer["take"] = what
        return of.layer

    def item(self, argument: Any, index: Any) -> Any:
        """A part of a value: outputs or states of a recurrent layer, or the last step of a sequence."""
        value = self.of(argument, "getitem")
        if isinstance(value, Extent):
            return value
        if isinstance(value, Recurrent):
            if self.layer(value.layer)["class"] in CELLS:
                return value if index == 0 else self.signal(States(value))
            if index == 0:
                return Signal(value.layer, value.axes)
            return States(value) if index == 1 else self.signal(States(value))
        if isinstance(value, States):
            if value.of.is_lstm and value.index is None and index == 0:
                # The hidden state of the pair, whose parts are selected next.
                return States(Recurrent(value.of.layer, value.of.axes, value.of.directions, False))
            if isinstance(index, int) and index < 0 and value.index is None and not value.of.is_lstm:
                return States(value.of, index)
            raise Error(f"item {index} of the states of {value.of.layer!r}: not supported; {ADVICE}")
        source = self.signal(value)
        places = list(index) if isinstance(index, tuple) else [index]
        time = source.axes.index("t") if "t" in source.axes else None
        whole = [place == slice(None) for place in places]
        if time is None or len(places) <= time or places[time] != -1 or whole.count(False) != 1:
            raise Error(f"item {index} of {source.layer!r}: not supported; {ADVICE}")
        layer = self.layer(source.layer) if source.layer not in self.sizes else {}
        axes = tuple(axis for axis in source.axes if axis != "t")
        if layer.get("class") in RECURRENT and layer is self.layers[-1] and "take" not in layer:
            layer["take"] = "last"
            return Signal(source.layer, axes)
        return Signal(self.add("last", "Last", [source], {}), axes)


def _of(value: Any) -> str:
    return value.of.layer if isinstance(value, States) else str(value.layer)


def _arguments(module: Any) -> dict[str, Any]:
    """The arguments of a module's constructor that differ from their defaults."""
    found: dict[str, Any] = {}
    parameters: dict[str, inspect.Parameter] = {}
    for base in class_of(module).__mro__:
        parameters = {**inspect.signature(base.__init__).parameters, **parameters}
        if "args" not in parameters:
            break
        # Recurrent layers pass their arguments on to a base.
        del parameters["args"]
    if class_of(module).__name__ == "RNN":
        found["nonlinearity"] = module.nonlinearity
    for name, parameter in parameters.items():
        if name in ("self", "args", "kwargs", "device", "dtype", "mode") or not hasattr(module, name):
            continue
        value = getattr(module, name)
        if name == "bias" and not isinstance(value, bool):
            value = value is not None
        if value == parameter.default or not _is_json(value):
            continue
        found[name] = list(value) if isinstance(value, tuple) else value
    return found


def _is_json(value: Any) -> bool:
    items = value if isinstance(value, (tuple, list)) else [value]
    return all(item is None or isinstance(item, (bool, int, float, str)) for item in items)
