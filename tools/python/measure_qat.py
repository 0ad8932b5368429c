"""Measures quantization-aware training on GRU_S of Hello Edge: clips of other speakers that are right in f32, i8x16 and
i4x16, before and after a fine-tuning on the training clips, for three seeds, and the time of an epoch. Ends with 1 if less
than half of what i4x16 loses is won back, against the graph or against as many epochs in floats, if a seed has fewer than the
graph, if i8x16 has more than two clips fewer than the graph in f32, or if an epoch takes three times as long as in floats.

    PYTHONPATH=target/python/package python tools/python/measure_qat.py assets/hello_edge/GRU_S.pb ../shared/data/speech_commands_v2
"""

import csv
import copy
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tidegate
import tidegate.torch

GRAPH, CLIPS = sys.argv[1], Path(sys.argv[2])
EPOCHS, BATCH, RATE = 12, 32, 3e-4


class GruS(nn.Module):
    """The GRU of TensorFlow, whose reset gate acts before the product, over [n, frames, 10]."""

    def __init__(self, tensors):
        super().__init__()
        node = next(name.removesuffix(".recurrent_weights") for name in tensors if name.endswith(".recurrent_weights"))
        dense = next(name.removesuffix(".weights") for name in tensors if name.endswith(".weights"))
        units = tensors[f"{node}.recurrent_weights"].size // 3
        units = int(units**0.5)
        both = np.concatenate(
            [tensors[f"{node}.{part}_weights"].reshape(3 * units, -1) for part in ("input", "recurrent")], axis=1
        )
        bias = tensors[f"{node}.input_bias"]
        weight = lambda values: nn.Parameter(torch.from_numpy(np.ascontiguousarray(values)))
        self.gates, self.gates_bias = weight(both[: 2 * units].T), weight(bias[: 2 * units])
        self.candidate, self.candidate_bias = weight(both[2 * units :].T), weight(bias[2 * units :])
        self.kernel, self.bias = weight(tensors[f"{dense}.weights"].reshape(-1, units).T), weight(tensors[f"{dense}.bias"])

    def forward(self, x):
        h = x.new_zeros(len(x), self.candidate.shape[1])
        for row in x.unbind(1):
            r, u = torch.sigmoid(torch.cat([row, h], 1) @ self.gates + self.gates_bias).chunk(2, 1)
            c = torch.tanh(torch.cat([row, r * h], 1) @ self.candidate + self.candidate_bias)
            h = u * h + (1 - u) * c
        return h @ self.kernel + self.bias


graph = tidegate.import_model(GRAPH)
architecture = graph.architecture
frames = architecture["schedule"]["windows"]["frames"]
folder = Path(tempfile.mkdtemp())
(folder / "front_end.json").write_text(json.dumps(architecture["front_end"]))
labels = architecture["labels"]
image = graph.pack("i8x16")
with open(CLIPS / "index.csv") as file:
    rows = list(csv.DictReader(file))
x = np.stack([image.features(CLIPS / row["file"])[:frames] for row in rows])
y = torch.tensor([labels.index(row["label"]) for row in rows])
train = np.array([row["split"] == "train" for row in rows])
x_train, y_train, x_dev, y_dev = torch.from_numpy(x[train]), y[train], torch.from_numpy(x[~train]), y[~train]


def right(packed, x=x_dev, y=y_dev):
    return int((packed.run_batch(x)[:, -1].argmax(-1) == y.numpy()).sum())


def plain(model, numeric):
    return model.pack(numeric, **({} if numeric == "f32" else {"calibrate": x_train.numpy()}))


arch = {
    "framework": "tf1",
    "inputs": [{"name": "mfcc", "size": 10, "steps": frames}],
    "layers": [
        {"name": "rnn", "class": "GRUCell", "prefix": "", "take": "last", "tensors": {
            "gates/kernel": "gates", "gates/bias": "gates_bias",
            "candidate/kernel": "candidate", "candidate/bias": "candidate_bias"}},
        {"name": "logits", "class": "Dense", "prefix": "", "tensors": {"kernel": "kernel", "bias": "bias"}},
    ],
}  # fmt: skip
settings = {"arch": arch, "front_end": folder / "front_end.json", "schedule": f"{frames}/{frames}"}


def fine_tune(numeric, seed, epochs=EPOCHS):
    torch.manual_seed(seed)
    module = GruS({name: values for name, values in graph._native.tensors()})
    if numeric != "f32":
        tidegate.torch.quantize(module, numeric, **settings)
    optimizer = torch.optim.Adam(module.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        for batch in torch.randperm(len(x_train)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x_train[batch]), y_train[batch]).backward()
            optimizer.step()
        schedule.step()
        times.append(time.perf_counter() - start)
    return module, sorted(times)[len(times) // 2]


print(f"{len(x_train)} training clips, {len(x_dev)} others")
module = GruS({name: values for name, values in graph._native.tensors()})
with torch.no_grad():
    same = np.abs(torch.softmax(module(x_dev), -1).numpy() - plain(graph, "f32").run_batch(x_dev)[:, -1]).max()
print(f"PyTorch is {same:.1e} from the graph")
before = {numeric: right(plain(graph, numeric)) for numeric in ("f32", "i8x16", "i4x16")}
for numeric, count in before.items():
    print(f"{numeric} of the graph: {count} of {len(x_dev)}", flush=True)
seeds = [int(seed) for seed in sys.argv[3:]] or [1, 2, 3]
after, times = {}, {}
for numeric in ("f32", "i8x16", "i4x16"):
    for seed in seeds:
        module, seconds = fine_tune(numeric, seed)
        if numeric == "f32":
            model = tidegate.import_model(module, **settings)
            found = {numeric: right(plain(model, numeric)) for numeric in ("f32", "i8x16", "i4x16")}
        else:
            packed = tidegate.pack(module)
            found = {numeric: right(packed)}
            with torch.no_grad():
                assert np.array_equal(module.eval()(x_dev).numpy(), packed.run_batch(x_dev)[:, -1])
        print(f"{numeric}, seed {seed}: {found}, {seconds:.2f} s an epoch", flush=True)
        after.setdefault(numeric, []).append(found)
        times.setdefault(numeric, []).append(seconds)

lost = before["f32"] - before["i4x16"]
won = [found["i4x16"] - before["i4x16"] for found in after["i4x16"]]
# As many epochs in floats gain something too, so the images of these models count as well.
in_floats = np.mean([found["f32"] for found in after["f32"]])
floats = [found["i4x16"] for found in after["f32"]]
aware = [found["i4x16"] for found in after["i4x16"]]
short = in_floats - np.mean(floats)
slow = max(np.median(times[numeric]) for numeric in ("i8x16", "i4x16")) / np.median(times["f32"])
held = {
    f"i4x16 wins back {np.mean(won):.1f} of the {lost} clips that it lost": np.mean(won) >= lost / 2 and min(won) >= 0,
    f"of the {short:.1f} clips that i4x16 loses after as many epochs in floats, {np.mean(aware) - np.mean(floats):.1f}":
        np.mean(aware) - np.mean(floats) >= short / 2,
    f"i8x16 has at least {min(found['i8x16'] for found in after['i8x16'])}, the graph {before['f32']} in f32":
        min(found["i8x16"] for found in after["i8x16"]) >= before["f32"] - 2,
    f"an epoch takes {slow:.2f} times that of floats": slow <= 3,
}  # fmt: skip
for what, is_held in held.items():
    print(f"{what}: {'held' if is_held else 'not held'}")
sys.exit(not all(held.values()))
