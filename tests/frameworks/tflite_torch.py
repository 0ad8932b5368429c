"""Writes the models in tests/frameworks/tflite that litert-torch converts from PyTorch, with the outputs of LiteRT.

    pip install -r tests/frameworks/tflite_torch.requirements.txt
    python tests/frameworks/tflite_torch.py             all models
    python tests/frameworks/tflite_torch.py float_unro  writes those whose names begin so

The converter unrolls a recurrent layer over its steps. The models of one step have their states as inputs and outputs,
which it names by number. PyTorch must agree with LiteRT within the tolerance.
"""

import os
import sys
import tempfile

# This folder has a torch.py.
sys.path.pop(0)

import litert_torch  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tflite")
TOLERANCE = 1e-6
SEED = 1
SEQUENCES, STEPS, FEATURES, UNITS = 3, 8, 3, 4


class Cells(nn.Module):
    """Cells of one step, and a dense layer."""

    def __init__(self, *cells, outputs=2):
        super().__init__()
        self.cells, self.dense = nn.ModuleList(cells), nn.Linear(UNITS, outputs)

    def forward(self, x, *states):
        states, after = list(states), []
        for cell in self.cells:
            if isinstance(cell, nn.LSTMCell):
                x, c = cell(x, (states.pop(0), states.pop(0)))
                after += [x, c]
            else:
                x = cell(x, states.pop(0))
                after.append(x)
        return self.dense(x), *after


class Layer(nn.Module):
    """A recurrent layer over a sequence of one step, and a dense layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.dense = nn.GRU(FEATURES, UNITS, batch_first=True), nn.Linear(UNITS, 2)

    def forward(self, x, h):
        y, h = self.layer(x, h)
        return torch.tanh(self.dense(y)), h


class Sequence(nn.Module):
    """A layer over a sequence, and a dense layer over all of its outputs or the last one."""

    def __init__(self, of, shown=slice(None), front=None, **options):
        super().__init__()
        self.front, self.shown = front or nn.Identity(), shown
        self.layer = of(FEATURES, UNITS, batch_first=True, **options)
        self.dense = nn.Linear(UNITS * (2 if options.get("bidirectional") else 1), 2)

    def forward(self, x):
        return self.dense(self.layer(self.front(x))[0][:, self.shown])


def norm():
    layer = nn.LayerNorm(6)
    nn.init.normal_(layer.weight, 1, 0.3)
    nn.init.normal_(layer.bias, 0, 0.3)
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), layer, nn.Linear(6, 2), nn.Softmax(-1))


def conv():
    layers = nn.Conv1d(FEATURES, UNITS, 3), nn.ReLU(), nn.Conv1d(UNITS, 5, 3, dilation=2), nn.AdaptiveAvgPool1d(1)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(5, 2))


def cases():
    """By name: a model, and the shapes of its inputs."""
    state = [1, UNITS]
    return dict(
        float_ports_torch_lstm=(Cells(nn.LSTMCell(FEATURES, UNITS)), [[1, FEATURES], state, state]),
        float_ports_torch_gru=(Cells(nn.GRUCell(FEATURES, UNITS)), [[1, FEATURES], state]),
        float_ports_torch_stacked=(
            Cells(nn.LSTMCell(FEATURES, UNITS), nn.GRUCell(UNITS, UNITS)), [[1, FEATURES], state, state, state]),
        float_ports_torch_layer=(Layer(), [[1, 1, FEATURES], [1, 1, UNITS]]),
        float_torch_conv=(conv(), [[1, FEATURES, 12]]),
        float_torch_norm=(norm(), [[1, 5]]),
        # All ports have one shape.
        float_ports_torch_alike=(Cells(nn.GRUCell(UNITS, UNITS), outputs=UNITS), [state, state]),
        float_unrolled_torch_lstm=(Sequence(nn.LSTM), [[1, 5, FEATURES]]),
        float_unrolled_torch_gru=(Sequence(nn.GRU, -1, num_layers=2), [[1, 5, FEATURES]]),
        float_unrolled_torch_rnn=(Sequence(nn.RNN, bidirectional=True), [[1, 5, FEATURES]]),
        float_unrolled_torch_dense=(
            Sequence(nn.LSTM, -1, nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh())), [[1, 5, FEATURES]]),
    )


def of_torch(model, x, states):
    """The output of each step of a sequence."""
    rows = []
    for step in x:
        with torch.no_grad():
            made = model(step, *states)
        made, *states = made if isinstance(made, tuple) else (made,)
        rows.append(made.numpy().ravel())
    return rows


def of_litert(content, x, states):
    made = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    made.allocate_tensors()
    signature, rows = made.get_signature_runner(), []
    for step in x:
        given = {f"args_{k + 1}": state for k, state in enumerate(states)}
        got = signature(args_0=step.numpy(), **given)
        states = [got[f"output_{k + 1}"] for k in range(len(states))]
        rows.append(got["output_0"].ravel())
    return rows


def main(begin=""):
    torch.manual_seed(SEED)
    for name, (model, shapes) in cases().items():
        model.eval()
        states = [torch.zeros(shape) for shape in shapes[1:]]
        path = os.path.join(FOLDER if name.startswith(begin) else tempfile.gettempdir(), f"{name}.tflite")
        litert_torch.convert(model, (torch.randn(shapes[0]), *states)).export(path)
        with open(path, "rb") as file:
            content = file.read()
        sequences = [[torch.randn(shapes[0]) for _ in range(STEPS)] for _ in range(SEQUENCES)]
        if not states:
            # Each call stands alone.
            sequences = [[step] for steps in sequences for step in steps]
        wanted = np.array([of_torch(model, x, states) for x in sequences], "f4")
        given = np.array([of_litert(content, x, [state.numpy() for state in states]) for x in sequences], "f4")
        assert np.abs(given - wanted).max() <= TOLERANCE, name
        inputs = np.array([[step.numpy().ravel() for step in x] for x in sequences], "f4")
        save_file({"input": inputs}, path.replace(".tflite", ".in.safetensors"))
        save_file({"output": given}, path.replace(".tflite", ".out.safetensors"))
        print(name, len(content), inputs.shape, given.shape)


main(*sys.argv[1:])
