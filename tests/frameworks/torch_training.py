"""Records a training run of PyTorch that `tidegate-gpu train` must reproduce.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/torch.requirements.txt
    venv/bin/python tests/frameworks/torch_training.py gpu-host/tests/training [SEED]

Writes `data.npz` (sequences `x_train`, `lengths_train`, `y_train`, and the same with `_test`), `arch.json`,
`init.safetensors` (weights under PyTorch's names) and `trained.safetensors`: the weights after EPOCHS epochs of AdamW
with clipped gradients and a learning rate that falls along half a cosine, on batches in the order that `tidegate-gpu
train --seed 5` draws. The sample is seed 1.
"""

import json
import math
import os
import sys

# A module in this script's folder has the name of the package and would hide it.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = sys.argv[1]
RANDOM = torch.Generator().manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
torch.manual_seed(RANDOM.initial_seed())
os.makedirs(FOLDER, exist_ok=True)

SEED, ORDER = 5, 1
EPOCHS, BATCH, RATE, RATE_END, DECAY, CLIP = 20, 40, 0.01, 0.1, 0.05, 0.5
FEATURES, STEPS, CLASSES, HIDDEN = 3, 9, 4, 8


def chacha8(key):
    """Words of ChaCha with 8 rounds under a key of 8 words, counter and nonce from 0 (Bernstein 2008)."""
    counter = 0
    while True:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, counter & 0xFFFFFFFF, counter >> 32, 0, 0]
        state = list(start)

        def quarter(a, b, c, d):
            for first, second, third, turn in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
                state[first] = (state[first] + state[second]) & 0xFFFFFFFF
                mixed = state[third] ^ state[first]
                state[third] = (mixed << turn | mixed >> (32 - turn)) & 0xFFFFFFFF

        for _ in range(4):
            for column in range(4):
                quarter(column, column + 4, column + 8, column + 12)
            for column in range(4):
                quarter(column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12)
        yield from ((a + b) & 0xFFFFFFFF for a, b in zip(state, start))
        counter += 1


def order(count, epoch):
    """Draws as `shuffle` in gpu-host/src/train/mod.rs does."""
    key = np.array([SEED, ORDER, epoch, 0], dtype="<u8").view("<u4")
    words = chacha8([int(word) for word in key])
    found = list(range(count))
    for k in range(count - 1, 0, -1):
        other = next(words) * (k + 1) >> 32
        found[k], found[other] = found[other], found[k]
    return found


def sequences(count):
    y = torch.randint(CLASSES, [count], generator=RANDOM)
    lengths = torch.randint(2, STEPS + 1, [count], generator=RANDOM)
    x = torch.randn(count, STEPS, FEATURES, generator=RANDOM) + y[:, None, None] / 2
    for row, length in zip(x, lengths):
        row[length:] = 0
    return x, y, lengths


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, HIDDEN, num_layers=2, batch_first=True)
        self.hidden = nn.Linear(HIDDEN, HIDDEN)
        self.fc = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, lengths):
        outputs, _ = self.lstm(x)
        return self.fc(torch.relu(self.hidden(outputs[torch.arange(len(x)), lengths - 1])))


arrays = {}
for suffix, count in [("train", 100), ("test", 20)]:
    for name, array in zip(["x", "y", "lengths"], sequences(count)):
        arrays[f"{name}_{suffix}"] = array
np.savez_compressed(f"{FOLDER}/data.npz", **{name: array.float().numpy() for name, array in arrays.items()})
x, y, lengths = (arrays[f"{name}_train"] for name in ["x", "y", "lengths"])
model = Classifier()
path = f"{FOLDER}/init.safetensors"
save_file(model.state_dict(), path)
os.chmod(path, 0o644)
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
for epoch in range(EPOCHS):
    cosine = 0.5 + 0.5 * math.cos(epoch / (EPOCHS - 1) * math.pi)
    optimizer.param_groups[0]["lr"] = RATE * (RATE_END + (1 - RATE_END) * cosine)
    chosen = order(len(x), epoch)
    for batch in (chosen[k : k + BATCH] for k in range(0, len(chosen), BATCH)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[batch], lengths[batch]), y[batch])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
path = f"{FOLDER}/trained.safetensors"
save_file(model.state_dict(), path)
os.chmod(path, 0o644)
arch = {
    "framework": "torch",
    "inputs": [{"name": "x", "size": FEATURES, "steps": STEPS}],
    "layers": [
        {"name": "lstm", "class": "LSTM", "args": {"hidden_size": HIDDEN, "num_layers": 2}, "take": "last"},
        {"name": "hidden", "class": "Linear", "args": {"out_features": HIDDEN}},
        {"name": "relu", "class": "ReLU"},
        {"name": "fc", "class": "Linear", "args": {"out_features": CLASSES}},
    ],
}
with open(f"{FOLDER}/arch.json", "w") as out:
    json.dump(arch, out, indent=1)
    out.write("\n")
