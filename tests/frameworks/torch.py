"""Writes models with PyTorch and records their outputs.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/torch.requirements.txt
    venv/bin/python tests/frameworks/torch.py FOLDER [SEED]

Each model has three files: the weights as torch.save or safetensors writes them, NAME.json with the architecture if the
names do not determine it (`--arch`), and NAME.golden.safetensors with one input sequence [steps, features], the output,
and in its metadata `model`, `arch` and `window`. The sample in tests/frameworks/torch is seed 1.
"""

import json
import os
import random
import sys

# A module in this script's folder has the name of the package and would hide it.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
torch.manual_seed(SEED)
CHOOSE = random.Random(SEED)
os.makedirs(FOLDER, exist_ok=True)


def size(least=2, most=9):
    return CHOOSE.randint(least, most)


def spread(module):
    """Random weights far from zero, so that no part of a network is inactive, and statistics as after training."""
    with torch.no_grad():
        for name, values in list(module.named_parameters()) + list(module.named_buffers()):
            if not values.is_floating_point():
                continue
            # A network of rectifiers grows with every step unless its weights are small.
            grows = "weight_hh" in name and getattr(module, "nonlinearity", "") == "relu"
            values.copy_(torch.randn_like(values) * (0.1 if grows else 0.5))
            if name.endswith("running_var"):
                values.copy_(values.abs() + 0.5)
    return module.eval()


def write(name, state, x, y, *, layers=None, window=None, save="pt", steps=None, shape=None, unused=None):
    """Writes one model: `state` is saved, `x` [steps, features] is one sequence, `y` is the whole output."""
    file = f"{name}.{'safetensors' if save == 'safetensors' else 'pth' if save == 'pth' else 'pt'}"
    path = os.path.join(FOLDER, file)
    if save == "safetensors":
        save_file({key: value.contiguous() for key, value in state.items()}, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=save != "old")
    metadata = {"model": file, "framework": "torch"}
    if layers is not None:
        source = {"name": "input", "size": shape or x.shape[-1]}
        if steps is not None:
            source["steps"] = steps
        arch = {"inputs": [source], "layers": layers}
        if unused:
            arch["unused"] = unused
        metadata["arch"] = f"{name}.json"
        with open(os.path.join(FOLDER, f"{name}.json"), "w") as out:
            json.dump(arch, out, indent=2)
            out.write("\n")
    if window is not None:
        metadata["window"] = str(window)
    golden = {"input": x.float().contiguous(), "output": y.float().contiguous()}
    save_file(golden, os.path.join(FOLDER, f"{name}.golden.safetensors"), metadata=metadata)
    print(f"{file}: {list(x.shape)} -> {list(y.shape)}")


def recurrent(name, cls, *, window=None, save="pt", layers=None, dtype=None, **options):
    """An nn.LSTM, nn.GRU or nn.RNN alone."""
    inputs, units = size(), size(4)
    module = spread(cls(inputs, units, **options).to(dtype or torch.float32))
    state = module.state_dict()
    module = computable(module)
    x = torch.randn(window or size(5, 12), inputs)
    with torch.no_grad():
        y, _ = module(x.double() if dtype == torch.float64 else x)
    if layers is None and "nonlinearity" in options:
        layers = [{"name": "rnn", "class": "RNN", "args": options, "prefix": ""}]
    write(name, state, x, y, window=window, save=save, layers=layers)


def computable(module):
    """The same weights in a type that every machine can compute with."""
    if next(module.parameters()).dtype in (torch.float16, torch.bfloat16):
        other = type(module)(module.input_size, module.hidden_size, module.num_layers)
        other.load_state_dict({key: value.float() for key, value in module.state_dict().items()})
        return other.eval()
    return module


def cell(name, cls, **options):
    """An nn.LSTMCell, nn.GRUCell or nn.RNNCell over a sequence."""
    inputs, units = size(), size(4)
    module = spread(cls(inputs, units, **options))
    x = torch.randn(size(5, 12), inputs)
    state, rows = None, []
    with torch.no_grad():
        for step in x:
            state = module(step, state)
            rows.append(state[0] if isinstance(state, tuple) else state)
    layers = None
    if cls is nn.RNNCell:
        layers = [{"name": "cell", "class": "RNNCell", "args": options, "prefix": ""}]
    write(name, module.state_dict(), x, torch.stack(rows), layers=layers)


class Classifier(nn.Module):
    """A recurrent network and a linear layer applied at every step."""

    def __init__(self, cls, inputs, units, classes, **options):
        super().__init__()
        self.rnn = cls(inputs, units, batch_first=True, **options)
        self.fc = nn.Linear(units * (2 if options.get("bidirectional") else 1), classes)

    def forward(self, x):
        return self.fc(self.rnn(x)[0])


def run(module, x):
    with torch.no_grad():
        return module(x.unsqueeze(0))[0]


recurrent("lstm", nn.LSTM)
recurrent("lstm_stack", nn.LSTM, num_layers=3, dropout=0.3)
recurrent("lstm_without_bias", nn.LSTM, bias=False)
recurrent("lstm_bidirectional", nn.LSTM, window=size(4, 9), bidirectional=True)
recurrent("lstm_stack_bidirectional", nn.LSTM, window=size(4, 9), num_layers=2, bidirectional=True)
recurrent("lstm_projection", nn.LSTM, proj_size=3)
recurrent("lstm_projection_stack_bidirectional", nn.LSTM, window=5, proj_size=2, num_layers=2, bidirectional=True)
recurrent("gru", nn.GRU, save="pth")
recurrent("gru_stack", nn.GRU, num_layers=2)
recurrent("gru_bidirectional_without_bias", nn.GRU, window=size(4, 9), bidirectional=True, bias=False)
recurrent("rnn_tanh", nn.RNN, nonlinearity="tanh")
recurrent("rnn_relu_stack", nn.RNN, nonlinearity="relu", num_layers=2)
recurrent("rnn_bidirectional", nn.RNN, window=size(4, 9), nonlinearity="tanh", bidirectional=True)
recurrent("old_lstm", nn.LSTM, save="old")
recurrent("old_gru_stack_bidirectional", nn.GRU, save="old", window=6, num_layers=2, bidirectional=True)
recurrent("tensors_lstm_stack", nn.LSTM, save="safetensors", num_layers=2)
recurrent("tensors_gru", nn.GRU, save="safetensors")
recurrent("double_gru", nn.GRU, dtype=torch.float64)
recurrent("old_double_lstm", nn.LSTM, dtype=torch.float64, save="old")
recurrent("half_lstm", nn.LSTM, dtype=torch.float16)
recurrent("bfloat16_gru", nn.GRU, dtype=torch.bfloat16)
recurrent("tensors_bfloat16_lstm", nn.LSTM, dtype=torch.bfloat16, save="safetensors")
cell("lstm_cell", nn.LSTMCell)
cell("lstm_cell_without_bias", nn.LSTMCell, bias=False)
cell("gru_cell", nn.GRUCell)
cell("rnn_cell_relu", nn.RNNCell, nonlinearity="relu")

# A linear layer behind the cells, found from the names.
inputs, units, classes = size(), size(4), size(2, 5)
model = spread(Classifier(nn.LSTM, inputs, units, classes))
x = torch.randn(size(5, 12), inputs)
write("classifier", model.state_dict(), x, run(model, x), save="pth")

# The same, wrapped in DataParallel, within a checkpoint.
optimizer = torch.optim.Adam(model.parameters())
model(x.unsqueeze(0)).sum().backward()
optimizer.step()
parallel = {f"module.{name}": value for name, value in model.state_dict().items()}
checkpoint = {"epoch": 3, "loss": 0.25, "model_state_dict": parallel, "optimizer_state_dict": optimizer.state_dict()}
write("checkpoint", checkpoint, x, run(model, x))

# State carried from one call to the next.
with torch.no_grad():
    first, carried = model.rnn(x[:3].unsqueeze(0))
    second, _ = model.rnn(x[3:].unsqueeze(0), carried)
    y = model.fc(torch.cat([first, second], 1))[0]
write("stateful", model.state_dict(), x, y)

# Only the last output, with a known number of steps: a schedule of windows.
layers = [
    {"name": "rnn", "class": "LSTM", "take": "last"},
    {"name": "fc", "class": "Linear"},
    {"name": "softmax", "class": "Softmax", "args": {"dim": -1}},
]
write("last", model.state_dict(), x, torch.softmax(run(model, x)[-1], -1), layers=layers, steps=len(x))

# Both directions: the last hidden states, the last step, and all steps.
inputs, units, classes, steps = size(), size(4), size(2, 5), size(4, 9)
model = spread(Classifier(nn.GRU, inputs, units, classes, bidirectional=True, num_layers=2))
x = torch.randn(steps, inputs)
with torch.no_grad():
    rows, h = model.rnn(x.unsqueeze(0))
    final = model.fc(torch.cat([h[-2], h[-1]], -1))[0]
    last = model.fc(rows[:, -1])[0]
args = {"num_layers": 2, "bidirectional": True, "batch_first": True}
for take, y in [("final", final), ("last", last), ("sequence", model.fc(rows)[0].detach())]:
    layers = [{"name": "rnn", "class": "GRU", "args": args, "take": take}, {"name": "fc", "class": "Linear"}]
    write(f"both_directions_{take}", model.state_dict(), x, y, layers=layers, window=steps)

# A packed sequence shorter than the window, padded with zeros.
module = spread(nn.LSTM(inputs, units, bidirectional=True))
with torch.no_grad():
    padded = torch.cat([x[: steps - 2], torch.zeros(2, inputs)]).unsqueeze(1)
    packed = nn.utils.rnn.pack_padded_sequence(padded, [steps - 2])
    y, _ = nn.utils.rnn.pad_packed_sequence(module(packed)[0], total_length=steps)
write("packed", module.state_dict(), x[: steps - 2], y[:, 0], window=steps)

# An embedding before the cells, found from the names.
words, wide, units, classes = size(5, 20), size(), size(4), size(2, 5)
model = nn.ModuleDict({"embedding": nn.Embedding(words, wide), "gru": nn.GRU(wide, units), "out": nn.Linear(units, classes)})
spread(model)
text = torch.randint(0, words, (size(5, 12),))
with torch.no_grad():
    y = model["out"](model["gru"](model["embedding"](text))[0])
write("embedding", model.state_dict(), text.float().unsqueeze(-1), y)

# Stacked cells with a residual connection.
inputs, units = size(), size(4)
model = spread(nn.ModuleDict({"below": nn.LSTMCell(inputs, units), "above": nn.GRUCell(units, units)}))
x = torch.randn(size(5, 12), inputs)
below, above, rows = None, None, []
with torch.no_grad():
    for step in x.unsqueeze(1):
        below = model["below"](step, below)
        above = model["above"](below[0], above)
        rows.append((above + below[0])[0])
layers = [
    {"name": "below", "class": "LSTMCell"},
    {"name": "above", "class": "GRUCell"},
    {"name": "sum", "class": "Add", "inputs": ["above", "below"]},
]
write("cells", model.state_dict(), x, torch.stack(rows), layers=layers)

# Stateless layers, each with arguments; some weights are transposed.
inputs, units = size(), size(4)
model = spread(
    nn.Sequential(
        nn.Linear(inputs, units), nn.LayerNorm(units, eps=1e-3), nn.GELU(), nn.Dropout(0.5),
        nn.Linear(units, units, bias=False), nn.LeakyReLU(0.2), nn.BatchNorm1d(units, eps=1e-3),
        nn.Linear(units, inputs), nn.Hardsigmoid(), nn.ELU(0.7),
    )
)
x = torch.randn(size(5, 12), inputs)
state = model.state_dict()
state["4.weight"] = state["4.weight"].t().contiguous().t()
with torch.no_grad():
    y = model(x)
names = [("Linear", {}), ("LayerNorm", {"normalized_shape": units, "eps": 1e-3}), ("GELU", {}), ("Dropout", {"p": 0.5}),
         ("Linear", {"bias": False}), ("LeakyReLU", {"negative_slope": 0.2}), ("BatchNorm1d", {"eps": 1e-3}),
         ("Linear", {}), ("Hardsigmoid", {}), ("ELU", {"alpha": 0.7})]
layers = [{"name": str(k), "class": cls, "args": args} for k, (cls, args) in enumerate(names)]
write("plain", state, x, y, layers=layers)


class Convolved(nn.Module):
    """Convolutions along time, then a recurrent network."""

    def __init__(self, inputs, filters, units, **options):
        super().__init__()
        self.conv = nn.Conv1d(inputs, filters, 3, **options)
        self.norm = nn.BatchNorm1d(filters)
        self.gru = nn.GRU(filters, units, batch_first=True)
        self.fc = nn.Linear(units, 2)

    def forward(self, x, pool=None):
        x = torch.relu(self.norm(self.conv(x.transpose(1, 2))))
        return self.fc(self.gru((pool(x) if pool else x).transpose(1, 2))[0])


filters, units = 2 * size(1, 4), size(4)
conv = lambda **args: {"name": "conv", "class": "Conv1d", "args": args}
around = [{"name": "norm", "class": "BatchNorm1d"}, {"name": "relu", "class": "ReLU"}]
behind = [{"name": "gru", "class": "GRU"}, {"name": "fc", "class": "Linear"}]

model = spread(Convolved(4, filters, units, dilation=2, groups=2))
x = torch.randn(size(9, 14), 4)
write("conv", model.state_dict(), x, run(model, x), layers=[conv(dilation=2, groups=2), *around, *behind])

model = spread(Convolved(4, filters, units, stride=2))
x = torch.randn(9, 4)
last = [{"name": "gru", "class": "GRU", "take": "last"}, {"name": "fc", "class": "Linear"}]
write("conv_last", model.state_dict(), x, run(model, x)[-1], layers=[conv(stride=2), *around, *last], steps=9)
x = torch.randn(10, 4)
write("conv_last_uneven", model.state_dict(), x, run(model, x)[-1], layers=[conv(stride=2), *around, *last], steps=10)

model = spread(Convolved(4, filters, units, padding="same"))
pool = nn.MaxPool1d(2)
with torch.no_grad():
    y = model(x.unsqueeze(0), pool)[0]
pooled = {"name": "pool", "class": "MaxPool1d", "args": {"kernel_size": 2}}
write("conv_padded", model.state_dict(), x, y, layers=[conv(padding="same"), *around, pooled, *behind], window=10)


class Images(nn.Module):
    """Convolutions over time and features, flattened with the channels first."""

    def __init__(self, width, filters, units, padding):
        super().__init__()
        self.conv = nn.Conv2d(1, filters, (3, 2), padding=(padding, 0))
        self.norm = nn.BatchNorm2d(filters)
        self.pool = nn.AvgPool2d((1, 2))
        self.gru = nn.GRU(filters * ((width - 1) // 2), units, batch_first=True)

    def forward(self, x):
        x = self.pool(torch.tanh(self.norm(self.conv(x.unsqueeze(1)))))
        return self.gru(x.permute(0, 2, 1, 3).flatten(2))[0]


for padding, name in [(0, "images"), (1, "images_padded")]:
    width = size(5, 9)
    model = spread(Images(width, size(), size(4), padding))
    x = torch.randn(8, width)
    layers = [
        {"name": "conv", "class": "Conv2d", "args": {"padding": [padding, 0]}},
        {"name": "norm", "class": "BatchNorm2d"},
        {"name": "tanh", "class": "Tanh"},
        {"name": "pool", "class": "AvgPool2d", "args": {"kernel_size": [1, 2]}},
        {"name": "flatten", "class": "Flatten", "args": {"start_dim": 2, "channels_first": True}},
        {"name": "gru", "class": "GRU"},
    ]
    write(name, model.state_dict(), x, run(model, x), layers=layers, window=8 if padding else None)

# A convolution whose output is flattened with the channels first, and one that is averaged over time.
filters = size()
model = spread(nn.Sequential(nn.Conv1d(3, filters, 2), nn.ReLU(), nn.Flatten(), nn.Linear(5 * filters, 3)))
x = torch.randn(6, 3)
with torch.no_grad():
    y = model(x.t().unsqueeze(0))[0]
layers = [
    {"name": "0", "class": "Conv1d"}, {"name": "1", "class": "ReLU"},
    {"name": "2", "class": "Flatten", "args": {"channels_first": True}}, {"name": "3", "class": "Linear"},
]
write("flatten", model.state_dict(), x, y, layers=layers, window=6)
with torch.no_grad():
    y = model[1](model[0](x.t().unsqueeze(0))).mean(2)[0]
layers = [*layers[:2], {"name": "mean", "class": "AdaptiveAvgPool1d", "args": {"output_size": 1}}]
write("mean", model.state_dict(), x, y, layers=layers, steps=6, unused=["3"])


class Denoiser(nn.Module):
    """NSNet2, with functions that its state dict does not show."""

    def __init__(self, bands, units):
        super().__init__()
        self.fc1 = nn.Linear(bands, units)
        self.gru = nn.GRU(units, units, 2, batch_first=True)
        self.fc2 = nn.Linear(units, units + 1)
        self.fc3 = nn.Linear(units + 1, bands)

    def forward(self, x):
        return torch.sigmoid(self.fc3(torch.relu(self.fc2(self.gru(self.fc1(x))[0]))))


# A draft leaves open what follows each module; the layers "after ..." here are what the program has there.
bands, units = size(5), size(4)
model = spread(Denoiser(bands, units))
x = torch.randn(8, bands)
layers = [
    {"name": "fc1", "class": "Linear"},
    {"name": "gru", "class": "GRU", "args": {"num_layers": 2}},
    {"name": "fc2", "class": "Linear"},
    {"name": "after fc2", "class": "ReLU"},
    {"name": "fc3", "class": "Linear"},
    {"name": "after fc3", "class": "Sigmoid"},
]
write("draft_denoiser", model.state_dict(), x, run(model, x), layers=layers)
