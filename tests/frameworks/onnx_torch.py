"""Writes the models in tests/frameworks/onnx that PyTorch's default exporter makes (`dynamo=True`, its own opset or 18, the
weights in a file beside the model), with PyTorch's outputs.

    pip install torch==2.15.0 onnxscript==0.7.2 -r tests/frameworks/onnx.requirements.txt
    python tests/frameworks/onnx_torch.py

The files of a case are those of onnx_models.py. ONNX Runtime must agree with PyTorch within the tolerance.
"""

import os
import sys

# PyTorch, not the script torch.py beside this one.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.numpy import save_file
from torch import nn

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx")
TOLERANCE = 1e-6
SEED = 1
FEATURES, UNITS, CLASSES, STEPS = 5, 6, 3, 7


class Recurrent(nn.Module):
    """A recurrent layer and a dense one, over a sequence."""

    def __init__(self, layer, **arguments):
        super().__init__()
        self.layer = layer(FEATURES, UNITS, batch_first=True, **arguments)
        self.head = nn.Linear(UNITS * (2 if arguments.get("bidirectional") else 1), CLASSES)

    def forward(self, x):
        return self.head(self.layer(x)[0])


class Keywords(nn.Module):
    """A convolution along time, an exact GELU, an LSTM, and the class of the whole sequence."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(FEATURES, 4, 3), nn.BatchNorm1d(4)
        self.lstm, self.head = nn.LSTM(4, UNITS, batch_first=True), nn.Linear(UNITS, CLASSES)

    def forward(self, x):
        y = nn.functional.gelu(self.norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)
        return torch.softmax(self.head(self.lstm(y)[0][:, -1]), -1)


class Mixed(nn.Module):
    """Einsum with weights, and attention over the features of a step."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(2, UNITS, FEATURES))
        self.gru = nn.GRU(FEATURES, FEATURES, batch_first=True)

    def forward(self, x):
        y = torch.einsum("bti,ui->btu", self.gru(x)[0], self.weights[0])
        return torch.einsum("btu,uv->btv", torch.tanh(y), self.weights[1])


class Step(nn.Module):
    """An LSTM cell, one step at a time."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(FEATURES, UNITS), nn.Linear(UNITS, CLASSES)

    def forward(self, x, h, c):
        h, c = self.cell(x, (h, c))
        return torch.sigmoid(self.head(h)), h, c


class StepOfGru(nn.Module):
    """A GRU cell, one step at a time."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(FEATURES, UNITS), nn.Linear(UNITS, CLASSES)

    def forward(self, x, h):
        h = self.cell(x, h)
        return torch.sigmoid(self.head(h)), h


class Attention(nn.Module):
    """Attention over the steps of a recurrent layer: of the last step, of every step, and gates from their mean."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(FEATURES, UNITS, batch_first=True)
        self.query, self.key, self.score = nn.Linear(UNITS, UNITS), nn.Linear(UNITS, UNITS), nn.Linear(UNITS, 1)
        self.gates, self.heads = nn.Linear(UNITS, UNITS), nn.MultiheadAttention(UNITS, 2, batch_first=True)
        self.head = nn.Linear(3 * UNITS, CLASSES)

    def forward(self, x):
        h, last = self.gru(x)
        scores = self.score(torch.tanh(self.key(h) + self.query(last[-1])[:, None]))
        context = torch.einsum("bt,bth->bh", torch.softmax(scores.squeeze(-1), -1), h)
        gated = (h * torch.sigmoid(self.gates(h.mean(1)))[:, None]).mean(1)
        among = self.heads(h, h, h, need_weights=False)[0][:, 2]
        return self.head(torch.cat([context, gated, among], -1))


class Functions(nn.Module):
    """A normalization over the steps, and functions that exporters write as operators of ONNX or of their own."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(FEATURES, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        y = self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)
        for layer, function in zip(self.layers, [nn.functional.softplus, nn.functional.mish, nn.functional.hardswish]):
            y = function(layer(3 * y))
        return self.head(y.mean(1))


class RootMeanSquare(nn.Module):
    """Normalization by the root mean square, of PyTorch and as people write it."""

    def __init__(self):
        super().__init__()
        self.gru, self.norm = nn.GRU(FEATURES, UNITS, batch_first=True), nn.RMSNorm(UNITS)
        self.gain, self.head = nn.Parameter(torch.randn(UNITS)), nn.Linear(UNITS, CLASSES)

    def forward(self, x):
        y = self.norm(3 * self.gru(x)[0])
        y = torch.tanh(y) * torch.rsqrt(torch.tanh(y).pow(2).mean(-1, keepdim=True) + 1e-3) * self.gain
        return self.head(y)


class Frames(nn.Module):
    """A convolution over each frame of a sequence, as a batch, and an LSTM over the frames, whose states are given."""

    def __init__(self):
        super().__init__()
        self.conv, self.lstm, self.head = nn.Conv1d(1, 4, 3, 2), nn.LSTM(4, UNITS), nn.Conv1d(UNITS, 1, 1)

    def forward(self, x, h, c):
        y = torch.relu(self.conv(x[:, None])).mean(2)[:, None]
        y, (h, c) = self.lstm(y, (h, c))
        return torch.sigmoid(self.head(y.permute(1, 2, 0))).flatten(), h, c


class Folded(nn.Module):
    """The frames of several sequences as one batch of a convolution and a transposed one, then an LSTM."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv1d(1, 4, 2), nn.MaxPool1d(2)
        self.up, self.lstm = nn.ConvTranspose1d(4, 2, 3, 2), nn.LSTM(10, UNITS, batch_first=True)

    def forward(self, x):
        batch, steps, features = x.shape
        y = self.pool(torch.relu(self.conv(x.reshape(batch * steps, 1, features))))
        return self.lstm(self.up(y).reshape(batch, steps, -1))[0]


class Grouped(nn.Module):
    """A linear layer in groups, as DeepFilterNet writes it, around a GRU."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Parameter(torch.randn(2, 3, 4)), nn.Parameter(torch.randn(4, 2, 3))
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        y = torch.einsum("btgi,gih->btgh", x.reshape(1, STEPS, 2, 3), self.first).reshape(1, STEPS, 8)
        y = self.gru(torch.relu(y))[0].reshape(1, STEPS, 4, 2)
        return torch.einsum("btgi,gih->bthg", y, self.last).reshape(1, STEPS, 12)


class Autoencoder(nn.Module):
    """The last state of a sequence, repeated for each step of another one."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(FEATURES, 4, batch_first=True), nn.LSTM(4, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, FEATURES)

    def forward(self, x):
        last = self.encoder(x)[1][0].reshape(1, 4).repeat(STEPS, 1).reshape(1, STEPS, 4)
        return self.head(self.decoder(last)[0].reshape(STEPS, UNITS))


class Moments(nn.Module):
    """A layer normalization as TensorFlow writes it: the reciprocal deviation times the gains is one factor."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(FEATURES, UNITS, batch_first=True), nn.Linear(UNITS, CLASSES)
        self.gain, self.bias = nn.Parameter(torch.randn(UNITS)), nn.Parameter(torch.randn(UNITS))

    def forward(self, x):
        y = self.gru(x)[0]
        mean = y.mean(-1, keepdim=True)
        factor = (y - mean).pow(2).mean(-1, keepdim=True).add(1e-3).sqrt().reciprocal() * self.gain
        return self.head(y * factor + (-mean * factor + self.bias))


class Chosen(nn.Module):
    """The output of a layer where another one exceeds a number."""

    def __init__(self):
        super().__init__()
        self.gru, self.head, self.other = nn.GRU(FEATURES, UNITS, batch_first=True), nn.Linear(UNITS, 1), nn.Linear(UNITS, CLASSES)

    def forward(self, x):
        y = self.gru(x)[0]
        score = torch.sigmoid(self.head(y))
        return torch.where(score >= 0.5, self.other(y), torch.where(y[..., :CLASSES] < 0.1, -y[..., :CLASSES], 0.5))


def sequence():
    return {"x": torch.randn(1, STEPS, FEATURES)}


CASES = {
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2), sequence, ["y"]),
    "gru": (lambda: Recurrent(nn.GRU), sequence, ["y"]),
    "directions": (lambda: Recurrent(nn.LSTM, bidirectional=True), sequence, ["y"]),
    "keywords": (Keywords, sequence, ["y"]),
    "keywords_18": (Keywords, sequence, ["y"]),
    "einsum": (Mixed, sequence, ["y"]),
    "step": (Step, lambda: {"x": torch.randn(1, FEATURES), "h": torch.zeros(1, UNITS), "c": torch.zeros(1, UNITS)},
             ["y", "h_out", "c_out"]),
    "step_gru": (StepOfGru, lambda: {"x": torch.randn(1, FEATURES), "h": torch.zeros(1, UNITS)}, ["y", "h_out"]),
    "attention": (Attention, sequence, ["y"]),
    "functions": (Functions, sequence, ["y"]),
    "rms_norm": (RootMeanSquare, sequence, ["y"]),
    "frames": (Frames, lambda: {"x": torch.randn(STEPS, 9), "h": torch.zeros(1, 1, UNITS), "c": torch.zeros(1, 1, UNITS)},
               ["y", "hn", "cn"]),
    "frame": (Frames, lambda: {"x": torch.randn(1, 9), "h": torch.zeros(1, 1, UNITS), "c": torch.zeros(1, 1, UNITS)},
              ["y", "hn", "cn"]),
    "folded": (Folded, sequence, ["y"]),
    "grouped": (Grouped, lambda: {"x": torch.randn(1, STEPS, 6)}, ["y"]),
    "autoencoder": (Autoencoder, sequence, ["y"]),
    "moments": (Moments, sequence, ["y"]),
    "chosen": (Chosen, sequence, ["y"]),
}


def main():
    for name, (build, inputs, outputs) in CASES.items():
        torch.manual_seed(SEED)
        model, inputs = build().eval(), inputs()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.running_mean.normal_(), module.running_var.uniform_(0.5, 1.5)
        path = os.path.join(FOLDER, f"torch_{name}.onnx")
        torch.onnx.export(model, tuple(inputs.values()), path, input_names=list(inputs), output_names=outputs, dynamo=True,
                          external_data=True, verbose=False, opset_version=18 if name.endswith("_18") else None)
        # The stack trace of every node is larger than the graph.
        exported = onnx.load(path, load_external_data=False)
        for of in [exported.graph, *exported.graph.node, *exported.graph.value_info]:
            del of.metadata_props[:]
        onnx.save(exported, path)
        with torch.no_grad():
            results = model(*inputs.values())
        expected = dict(zip(outputs, results if isinstance(results, tuple) else [results]))
        expected = {name: np.ascontiguousarray(value.numpy()) for name, value in expected.items()}
        given = {name: value.numpy() for name, value in inputs.items()}
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for output, value in zip(outputs, session.run(outputs, given)):
            assert np.abs(value - expected[output]).max() < TOLERANCE, (name, output)
        save_file({"x": given["x"]}, path.replace(".onnx", ".in.safetensors"))
        source = f"torch {torch.__version__.split('+')[0]}, torch.onnx.export, seed {SEED}"
        save_file(expected, path.replace(".onnx", ".out.safetensors"), {"tolerance": str(TOLERANCE), "source": source})
        print(name, [node.op_type for node in exported.graph.node], flush=True)


if __name__ == "__main__":
    main()
