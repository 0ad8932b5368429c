"""Runs the keyword recipe over several seeds with `tidegate-gpu train` and with PyTorch.

    python3 -m venv venv && venv/bin/pip install -r tests/frameworks/torch.requirements.txt
    venv/bin/python tests/frameworks/torch_seeds.py target/release/tidegate-gpu INDEX.csv FOLDER [EPOCHS [COPIES]]

Both start from the weights that PyTorch draws for a seed, and use the same features, copies, batches, noise and
dropout: the trainer writes the features, and this script draws the same random numbers as the trainer. Writes
tests/data/measured/torch_seeds.json, for docs/training.md: versions, and for each of three seeds the number of held-out
clips that both have right after the last epoch, and the largest difference of a weight. EPOCHS and COPIES default to
those of the recipe; the record is that of 30 and 10. Files that already exist in FOLDER are reused.
"""

import json
import math
import os
import subprocess
import sys
import time

# A module in this script's folder has the name of the package and would hide it.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torch import nn  # noqa: E402

TRAINER, INDEX, FOLDER = sys.argv[1:4]
EPOCHS, COPIES = (int(number) for number in sys.argv[4:] + ["100", "60"][len(sys.argv) - 4 :])
SEEDS = [1, 2, 3]
HERE = os.path.dirname(os.path.abspath(__file__))
RECIPES = os.path.join(HERE, "../../gpu-host/recipes")
RECORD = os.path.join(HERE, "../data/measured/torch_seeds.json")
BATCH, RATE, RATE_END, DECAY, CLIP, NOISE = 64, 0.003, 0.02, 0.3, 1.0, 0.3
FEATURES, HIDDEN, CLASSES, BETWEEN, BEFORE = 20, 96, 12, 0.3, 0.5
# Purposes of the trainer's random numbers: `Purpose` in gpu-host/src/train/mod.rs.
ORDER, VARIANTS, DROPOUT = 1, 2, 3
# Number of sequences that one thread of the trainer computes together, with their own random numbers.
SHARD = 32
torch.set_num_threads(1)


def words(seed, purpose, a, b, count):
    """Words of ChaCha with 8 rounds (Bernstein 2008), as `random` in gpu-host/src/train/mod.rs draws them."""
    key = np.array([seed, purpose, a, b], dtype="<u8").view("<u4")
    blocks = np.arange(-(-count // 16), dtype=np.uint32)
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, None, 0, 0, 0]
    start = [blocks if word is None else np.full(len(blocks), word, np.uint32) for word in start]
    state = [word.copy() for word in start]

    def quarter(a, b, c, d):
        for first, second, third, turn in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
            state[first] += state[second]
            mixed = state[third] ^ state[first]
            state[third] = mixed << np.uint32(turn) | mixed >> np.uint32(32 - turn)

    for _ in range(4):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12)
    return np.stack([a + b for a, b in zip(state, start)], 1).reshape(-1)[:count]


def uniform(drawn):
    return (drawn >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)


def order(seed, epoch, count):
    drawn = words(seed, ORDER, epoch, 0, count - 1)
    found = list(range(count))
    for k, word in zip(range(count - 1, 0, -1), drawn):
        other = int(word) * (k + 1) >> 32
        found[k], found[other] = found[other], found[k]
    return found


def batch(seed, epoch, step, chosen, x):
    """Sequences `[steps, rows, features]`, and the dropout masks between the layers and before the last."""
    parts = []
    for shard in range(0, len(chosen), SHARD):
        rows = chosen[shard : shard + SHARD]
        at = step << 16 | shard // SHARD
        steps = x.shape[2]
        size = steps * len(rows) * FEATURES
        drawn = words(seed, VARIANTS, epoch, at, len(rows) + 2 * size)
        variants = [int(word) * (1 + COPIES) >> 32 for word in drawn[: len(rows)]]
        heard = np.stack([x[row, variant] for row, variant in zip(rows, variants)], 1)
        radius, turn = uniform(drawn[len(rows) :]).reshape(-1, 2).T
        noise = np.sqrt(np.float32(-2) * np.log(1 - radius)) * np.cos(np.float32(math.tau) * turn)
        inner, outer = steps * len(rows) * HIDDEN, len(rows) * HIDDEN
        kept = uniform(words(seed, DROPOUT, epoch, at, inner + outer))
        between = (kept[:inner] >= np.float32(BETWEEN)).reshape(steps, len(rows), HIDDEN) / np.float32(1 - BETWEEN)
        before = (kept[inner:] >= np.float32(BEFORE)).reshape(len(rows), HIDDEN) / np.float32(1 - BEFORE)
        parts.append((heard + np.float32(NOISE) * noise.reshape(heard.shape), between, before))
    return [torch.from_numpy(np.concatenate(part, axis)) for part, axis in zip(zip(*parts), (1, 1, 0))]


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(FEATURES, HIDDEN, num_layers=2)
        self.fc = nn.Linear(HIDDEN, CLASSES)


class Apart(nn.Module):
    """The same network with separate layers, because dropout between them is given from outside."""

    def __init__(self, weights):
        super().__init__()
        self.layers = nn.ModuleList([nn.GRU(FEATURES, HIDDEN), nn.GRU(HIDDEN, HIDDEN)])
        self.fc = nn.Linear(HIDDEN, CLASSES)
        own = {f"layers.{k}.{name}_l0": weights[f"gru.{name}_l{k}"] for k in range(2) for name in NAMES}
        self.load_state_dict(own | {name: weights[name] for name in ["fc.weight", "fc.bias"]})

    def forward(self, x, between=1.0, before=1.0):
        first, _ = self.layers[0](x)
        second, _ = self.layers[1](first * between)
        return self.fc(second[-1] * before)


NAMES = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]


def ours(seed, path):
    """Runs the trainer and returns its report. The trainer also writes its features."""
    rates = f"--batch {BATCH} --lr {RATE} --lr-end {RATE_END} --noise {NOISE} --weight-decay {DECAY} --clip {CLIP}"
    files = ["--data", INDEX, "--front-end", f"{RECIPES}/keywords_front_end.json", "--arch", f"{RECIPES}/keywords.json"]
    files += ["--init", f"{FOLDER}/init-{seed}.safetensors", "--features", features(seed), "--out", f"{path}.safetensors"]
    files += ["--state-dict", f"{FOLDER}/state-{seed}.safetensors"]
    more = f"--copies {COPIES} --background _silence_ --epochs {EPOCHS} --seed {seed} --json {rates}"
    done = subprocess.run([TRAINER, "train", *files, *more.split()], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def features(seed):
    return f"{FOLDER}/features-{seed}.safetensors"


def torch_s(seed, path):
    data = load_file(features(seed))
    x, y = data["x_train"].numpy(), data["y_train"].long()[:: 1 + COPIES]
    x = x.reshape(len(y), 1 + COPIES, *x.shape[1:])
    model = Apart(load_file(f"{FOLDER}/init-{seed}.safetensors"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    started = time.monotonic()
    for epoch in range(EPOCHS):
        cosine = 0.5 + 0.5 * math.cos(epoch / (EPOCHS - 1) * math.pi)
        optimizer.param_groups[0]["lr"] = RATE * (RATE_END + (1 - RATE_END) * cosine)
        everything = order(seed, epoch, len(y))
        for step, first in enumerate(range(0, len(y), BATCH)):
            chosen = everything[first : first + BATCH]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(*batch(seed, epoch, step, chosen, x)), y[chosen])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
    with torch.no_grad():
        decided = model(data["x_test"].transpose(0, 1)).argmax(1)
    save_file(model.state_dict(), f"{path}.safetensors")
    right = (decided == data["y_test"].long()).double().mean()
    return {"accuracy": right.item(), "seconds": time.monotonic() - started}


def kept(who, make, seed):
    path = f"{FOLDER}/{who}-{seed}"
    if not os.path.exists(f"{path}.json"):
        report = make(seed, path)
        with open(f"{path}.json", "w") as out:
            json.dump(report, out)
    with open(f"{path}.json") as report:
        return json.load(report)


os.makedirs(FOLDER, exist_ok=True)
for seed in SEEDS:
    torch.manual_seed(seed)
    save_file(Spotter().state_dict(), f"{FOLDER}/init-{seed}.safetensors")


def right(report):
    return round(report["accuracy"] * len(load_file(features(SEEDS[0]))["y_test"]))


def apart(seed):
    """Largest difference between the weights of both."""
    ours, theirs = (load_file(f"{FOLDER}/{who}-{seed}.safetensors") for who in ["state", "torch"])
    own = {f"layers.{k}.{name}_l0": f"gru.{name}_l{k}" for k in range(2) for name in NAMES}
    return max(float((theirs[name] - ours[own.get(name, name)]).abs().max()) for name in theirs)


found = []
for seed in SEEDS:
    ours_right, torch_right = right(kept("ours", ours, seed)), right(kept("torch", torch_s, seed))
    found.append({"seed": seed, "tidegate": ours_right, "torch": torch_right, "apart": f"{apart(seed):.0e}"})
    print(found[-1], flush=True)
version = subprocess.run([TRAINER, "--version"], check=True, capture_output=True, text=True).stdout.split()[-1]
versions = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__, "tidegate-gpu": version}
held_out = len(load_file(features(SEEDS[0]))["y_test"])
record = {"versions": versions, "epochs": EPOCHS, "copies": COPIES, "held_out": held_out, "seeds": found}
with open(RECORD, "w") as out:
    out.write(json.dumps(record, indent=2) + "\n")
