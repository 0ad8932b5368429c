"""Records gradients that PyTorch computes, for the layers that are trained on the CPU.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/torch.requirements.txt
    venv/bin/python tests/frameworks/torch_gradients.py gpu-host/tests/gradients [SEED]

Each network has NAME.json with its architecture, and NAME.safetensors: its weights under PyTorch's names, a batch `x`
[sequences, steps, features] with `lengths` and classes `y`, its scores, the mean cross-entropy, and under `grad.NAME`
the gradient of the mean cross-entropy with respect to each weight. The sample is seed 1.
"""

import json
import os
import sys

# A module in this script's folder has the name of the package and would hide it.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = sys.argv[1]
torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
os.makedirs(FOLDER, exist_ok=True)

FEATURES, CLASSES, LENGTHS = 3, 4, [7, 2, 5, 7, 1]

# Class, arguments, output used, layers before and behind it.
CASES = {
    "lstm": ("LSTM", {"hidden_size": 5}, "last", [], []),
    "lstm_stack": ("LSTM", {"hidden_size": 4, "num_layers": 3, "bidirectional": True}, "last", [], ["Tanh"]),
    "lstm_projection": ("LSTM", {"hidden_size": 6, "proj_size": 4, "num_layers": 2}, "final", [], []),
    "gru": ("GRU", {"hidden_size": 5}, "final", ["ReLU"], []),
    "gru_both_ways": ("GRU", {"hidden_size": 4, "num_layers": 2, "bidirectional": True}, "final", [], ["Sigmoid"]),
    "gru_without_bias": ("GRU", {"hidden_size": 5, "bias": False, "num_layers": 2}, "last", [], []),
    "rnn_tanh": ("RNN", {"hidden_size": 6, "bidirectional": True}, "final", ["Tanh"], []),
    "rnn_relu": ("RNN", {"hidden_size": 6, "nonlinearity": "relu", "num_layers": 2}, "last", [], ["ReLU"]),
}


def chain(before, behind, width):
    """Layers by name, before and behind the recurrent ones."""
    front = [("before", nn.Linear(FEATURES, FEATURES)), ("bend", getattr(nn, before[0])())] if before else []
    back = [("hidden", nn.Linear(width, 5)), ("curve", getattr(nn, behind[0])())] if behind else []
    return front, back + [("fc", nn.Linear(5 if behind else width, CLASSES))]


def described(name, layer):
    args = {"out_features": layer.out_features} if isinstance(layer, nn.Linear) else {}
    return {"name": name, "class": type(layer).__name__, "args": args}


for name, (cls, args, take, before, behind) in CASES.items():
    rnn = getattr(nn, cls)(FEATURES, batch_first=True, **args)
    directions = 2 if args.get("bidirectional") else 1
    width = args.get("proj_size", args["hidden_size"])
    front, back = chain(before, behind, width * directions)
    model = nn.ModuleDict(dict(front + [("rnn", rnn)] + back))
    x = torch.randn(len(LENGTHS), max(LENGTHS), FEATURES)
    for row, length in zip(x, LENGTHS):
        row[length:] = 0
    y = torch.randint(CLASSES, [len(LENGTHS)])
    value = x
    for _, layer in front:
        value = layer(value)
    packed = nn.utils.rnn.pack_padded_sequence(value, LENGTHS, batch_first=True, enforce_sorted=False)
    value, state = rnn(packed)
    if take == "last":
        value, _ = nn.utils.rnn.pad_packed_sequence(value, batch_first=True)
        value = value[torch.arange(len(LENGTHS)), torch.tensor(LENGTHS) - 1]
    else:
        state = state[0] if isinstance(state, tuple) else state
        value = torch.cat(list(state[-directions:]), dim=1)
    for _, layer in back:
        value = layer(value)
    loss = nn.functional.cross_entropy(value, y)
    loss.backward()
    tensors = {key: weight.detach() for key, weight in model.state_dict().items()}
    tensors |= {f"grad.{key}": weight.grad for key, weight in model.named_parameters()}
    tensors |= {"x": x, "y": y.float(), "lengths": torch.tensor(LENGTHS).float()}
    tensors |= {"scores": value.detach(), "loss": loss.detach().reshape(1)}
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, f"{FOLDER}/{name}.safetensors")
    os.chmod(f"{FOLDER}/{name}.safetensors", 0o644)
    arch = {
        "framework": "torch",
        "inputs": [{"name": "x", "size": FEATURES, "steps": max(LENGTHS)}],
        "layers": [described(key, layer) for key, layer in front]
        + [{"name": "rnn", "class": cls, "args": args, "take": take}]
        + [described(key, layer) for key, layer in back],
    }
    with open(f"{FOLDER}/{name}.json", "w") as out:
        json.dump(arch, out, indent=1)
        out.write("\n")
