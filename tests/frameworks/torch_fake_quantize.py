"""Gradients that PyTorch computes through values that 16 bits count, for trainings that are to end in integers.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/torch.requirements.txt
    venv/bin/python tests/frameworks/torch_fake_quantize.py gpu-host/tests/counted [SEED]

For each network NAME.json with its architecture, and NAME.safetensors: its weights under PyTorch's names, a batch `x`
[sequences, steps, features] with `lengths` and classes `y`, what units are worth under `units.LAYER` [pseudo-layers, 3]
(hidden state, cell state, what a projection reads), its scores, the mean cross-entropy, and under `grad.NAME` the gradient
of that to each weight. Every state and output goes through `torch.fake_quantize_per_tensor_affine`. Units of `coarse`
networks change every value; those of `cut` networks are so small that a part of the values is cut off. In `clip` networks
nothing is counted, but an LSTM's cell state goes through `torch.clamp` (`cell_clip`). The sample is that of seed 1, or of the first seed behind it with which no value is so near to a tie or an end that another order of sums would
decide.
"""

import json
import os
import sys

# The folder of this script has a name that would hide the package.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
os.makedirs(FOLDER, exist_ok=True)

FEATURES, CLASSES, LENGTHS, MOST = 3, 4, [5, 2, 4, 1], 32767

# Class, arguments, which output counts, activation behind a Linear behind it.
CASES = {
    "gru": ("GRU", {"hidden_size": 5, "num_layers": 2}, "last", None),
    "lstm": ("LSTM", {"hidden_size": 4, "bidirectional": True}, "final", "Tanh"),
    "lstm_projection": ("LSTM", {"hidden_size": 6, "proj_size": 4, "num_layers": 2}, "last", None),
    "rnn_relu": ("RNN", {"hidden_size": 6, "nonlinearity": "relu"}, "last", "ReLU"),
}
# Where values end, as a multiple of what they are about.
COARSE, CUT, CLIP = 2.0**-6, 0.12, 0.1


class Near(Exception):
    """A value is too near to where it would be rounded otherwise."""


def counted(value, unit):
    if unit is None:
        return value
    units = value.detach().double() / unit
    # In f32 sums of a few numbers are some 1e-7 off; of what is cut off only its end counts.
    margin = 3e-7 / unit if unit > 1e-3 else 0
    inside = units[units.abs() < MOST + 0.5]
    tie = (inside - inside.floor() - 0.5).abs()
    end = (units.abs() - MOST - 0.5).abs()
    if (tie < margin).any() or (end < 2).any():
        raise Near
    return torch.fake_quantize_per_tensor_affine(value, unit, 0, -MOST, MOST)


def step(cls, weights, x, h, c, units, clip):
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    a, b = x @ w_ih.T + b_ih, h @ w_hh.T + b_hh
    if cls == "GRU":
        (r, z, n), (hr, hz, hn) = a.chunk(3), b.chunk(3)
        r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
        n = torch.tanh(n + r * hn)
        return counted((1 - z) * n + z * h, units[0]), c
    if cls == "RNN":
        return counted(torch.relu(a + b), units[0]), c
    i, f, g, o = (a + b).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    if clip and (c.abs() - clip).abs().min() < 1e-5:
        raise Near
    c = counted(c.clamp(-clip, clip) if clip else c, units[1])
    m = counted(torch.sigmoid(o) * torch.tanh(c), units[2])
    return (m if w_hr is None else counted(w_hr @ m, units[0])), c


def sequence(rnn, cls, x, units, take, clip):
    directions = 2 if rnn.bidirectional else 1
    size = rnn.proj_size or rnn.hidden_size
    for layer in range(rnn.num_layers):
        parts = []
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
            weights = [getattr(rnn, name + suffix, None) for name in names]
            h, c, rows = torch.zeros(size), torch.zeros(rnn.hidden_size), {}
            for t in reversed(range(len(x))) if direction else range(len(x)):
                h, c = step(cls, weights, x[t], h, c, units[layer * directions + direction], clip)
                rows[t] = h
            parts.append((torch.stack([rows[t] for t in range(len(x))]), h))
        x = torch.cat([rows for rows, _ in parts], 1)
    return torch.cat([h for _, h in parts]) if take == "final" else x[-1]


def record(name, seed, kind):
    cls, args, take, curve = CASES[name]
    torch.manual_seed(seed)
    rnn = getattr(nn, cls)(FEATURES, batch_first=True, **args)
    pseudo_layers = args.get("num_layers", 1) * (2 if args.get("bidirectional") else 1)
    width = args.get("proj_size", args["hidden_size"]) * (2 if args.get("bidirectional") else 1)
    back = [("hidden", nn.Linear(width, 5)), ("curve", getattr(nn, curve)())] if curve else []
    back += [("fc", nn.Linear(5 if curve else width, CLASSES))]
    model = nn.ModuleDict(dict([("rnn", rnn)] + back))
    x = torch.randn(len(LENGTHS), max(LENGTHS), FEATURES)
    for row, length in zip(x, LENGTHS):
        row[length:] = 0
    y = torch.randint(CLASSES, [len(LENGTHS)])
    # A power of two is exact; others differ from layer to layer.
    unit = lambda k: COARSE * (1 + k % 3 / 4) if kind == "coarse" else CUT * (1 + k % 3) / MOST  # noqa: E731
    units = {"rnn": torch.tensor([[unit(k), unit(k + 1), unit(k + 2)] for k in range(pseudo_layers)])}
    if not args.get("proj_size"):
        units["rnn"][:, 2] = units["rnn"][:, 0]
    clip = CLIP if kind == "clip" else None
    units |= {key: torch.full([1, 3], unit(k)) for k, (key, _) in enumerate(back)}
    rows = []
    for row, length in zip(x, LENGTHS):
        value = sequence(rnn, cls, row[:length], [[None] * 3] * 4 if clip else units["rnn"].tolist(), take, clip)
        for key, layer in back:
            value = counted(layer(value), None if clip else units[key][0, 0].item())
        rows.append(value)
    scores = torch.stack(rows)
    loss = nn.functional.cross_entropy(scores, y)
    loss.backward()
    if any(weight.grad.abs().max() == 0 for weight in model.parameters()):
        raise Near
    tensors = {key: weight.detach() for key, weight in model.state_dict().items()}
    tensors |= {f"grad.{key}": weight.grad for key, weight in model.named_parameters()}
    tensors |= {} if clip else {f"units.{key}": value for key, value in units.items()}
    tensors |= {"x": x, "y": y.float(), "lengths": torch.tensor(LENGTHS).float()}
    tensors |= {"scores": scores.detach(), "loss": loss.detach().reshape(1)}
    path = f"{FOLDER}/{name}_{kind}"
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, f"{path}.safetensors")
    os.chmod(f"{path}.safetensors", 0o644)
    out_features = lambda layer: {"out_features": layer.out_features} if isinstance(layer, nn.Linear) else {}  # noqa: E731
    args = args | ({"cell_clip": clip} if clip else {})
    layers = [{"name": "rnn", "class": cls, "args": args, "take": take}]
    layers += [{"name": key, "class": type(layer).__name__, "args": out_features(layer)} for key, layer in back]
    arch = {"framework": "torch", "inputs": [{"name": "x", "size": FEATURES, "steps": max(LENGTHS)}], "layers": layers}
    with open(f"{path}.json", "w") as out:
        json.dump(arch, out, indent=1)
        out.write("\n")


for name in CASES:
    for kind in ["coarse", "cut"] + (["clip"] if CASES[name][0] == "LSTM" else []):
        seed = SEED
        while True:
            try:
                record(name, seed, kind)
                break
            except Near:
                seed += 1
        print(name, kind, "seed", seed)
