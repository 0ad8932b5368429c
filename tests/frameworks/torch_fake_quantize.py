"""Records gradients that PyTorch computes through 16-bit fake quantization, for training towards integers.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/torch.requirements.txt
    venv/bin/python tests/frameworks/torch_fake_quantize.py gpu-host/tests/counted [SEED]

Each network has NAME.json with its architecture, and NAME.safetensors: its weights under PyTorch's names, a batch `x`
[sequences, steps, features] with `lengths` and classes `y`, the scales under `units.LAYER` [pseudo-layers, 3] (hidden
state, cell state, input of a projection), its scores, the mean cross-entropy, and under `grad.NAME` the gradient of the
mean cross-entropy with respect to each weight. Every state and output passes through
`torch.fake_quantize_per_tensor_affine`. The scales of `coarse` networks are so large that they change every value;
those of `cut` networks are so small that some values saturate. `clip` networks are not quantized, but an LSTM's cell
state passes through `torch.clamp` (`cell_clip`). The sample is seed 1, or the first later seed for which no value is so
near to a tie or a limit that another order of summation could change its rounding.
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
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
os.makedirs(FOLDER, exist_ok=True)

FEATURES, CLASSES, LENGTHS, MOST = 3, 4, [5, 2, 4, 1], 32767

# Class, arguments, output used, activation behind a Linear layer behind it.
CASES = {
    "gru": ("GRU", {"hidden_size": 5, "num_layers": 2}, "last", None),
    "lstm": ("LSTM", {"hidden_size": 4, "bidirectional": True}, "final", "Tanh"),
    "lstm_projection": ("LSTM", {"hidden_size": 6, "proj_size": 4, "num_layers": 2}, "last", None),
    "rnn_relu": ("RNN", {"hidden_size": 6, "nonlinearity": "relu"}, "last", "ReLU"),
}
# Scales and limits, relative to the magnitude of the values.
COARSE, CUT, CLIP = 2.0**-6, 0.12, 0.1


class Near(Exception):
    """A value is too near to a point where its rounding changes."""


def counted(value, unit):
    if unit is None:
        return value
    units = value.detach().double() / unit
    # In f32, sums of a few numbers are off by about 1e-7; of saturated values only the limit matters.
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
    # A power of two is exact; the other scales differ between layers.
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
