# %% [markdown]
# # A gesture recognizer, from a CSV file to an image
#
# A wristband samples its acceleration 50 times a second. This notebook trains a GRU on recordings of five gestures, packs
# it with weights of 4 bits, and trains on with the integers of the device.
#
# Open it with Jupytext (`jupytext --to ipynb gestures.py`), or run it as it is. It needs PyTorch.

# %%
import copy
import csv

import numpy as np
import torch
from torch import nn

import tidegate
import tidegate.torch

torch.manual_seed(1)
torch.set_num_threads(1)

# %% [markdown]
# ## The recordings
#
# Your own recordings come from a file with a row for each sample. Here the file is drawn: gestures of other speeds,
# strengths and orientations, with noise.

# %%
GESTURES = ["rest", "shake", "circle", "swipe", "tap"]
STEPS = 50


def recording(label, draw):
    """Acceleration [steps, 3] in g."""
    time = np.linspace(0, 1, STEPS) - draw.uniform(0.3, 0.5)
    speed, strength = draw.uniform(0.7, 1.4), draw.uniform(0.5, 1.5)
    near = np.exp(-((time * speed * 3) ** 2))
    turn = 2 * np.pi * speed
    motion = {
        "rest": np.zeros((STEPS, 3)),
        "shake": np.stack([near * np.sin(4 * turn * time), 0.2 * near * np.sin(4 * turn * time), 0 * time], 1),
        "circle": np.stack([near * np.sin(2 * turn * time), near * np.cos(2 * turn * time), 0 * time], 1),
        "swipe": np.stack([-near * time * 8 * speed, 0.3 * near, 0 * time], 1),
        "tap": np.stack([0 * time, 0.2 * np.exp(-((time * speed * 12) ** 2)), np.exp(-((time * speed * 12) ** 2))], 1),
    }[label]
    rotation = np.linalg.qr(np.eye(3) + 0.35 * draw.standard_normal((3, 3)))[0]
    rotation *= np.sign(np.diag(rotation))
    gravity = np.array([0, 0, 1.0])
    return (strength * motion + gravity) @ rotation + 0.08 * draw.standard_normal((STEPS, 3))


def write(path, count, seed):
    draw = np.random.default_rng(seed)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["recording", "label", "x", "y", "z"])
        for number in range(count):
            label = GESTURES[number % len(GESTURES)]
            rows.writerows([number, label, *sample] for sample in recording(label, draw).round(3))


def read(path):
    """The recordings [n, steps, 3] and the numbers of their labels."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    x = np.array([[row["x"], row["y"], row["z"]] for row in rows], "f4").reshape(-1, STEPS, 3)
    return torch.from_numpy(x), torch.tensor([GESTURES.index(row["label"]) for row in rows[::STEPS]])


write("train.csv", 1000, seed=1)
write("test.csv", 1000, seed=2)
(x, y), (x_test, y_test) = read("train.csv"), read("test.csv")

# %% [markdown]
# ## Training in floats


# %%
class Gestures(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 24, batch_first=True)
        self.classes = nn.Linear(24, len(GESTURES))

    def forward(self, x):
        return self.classes(self.gru(x)[0][:, -1])


def train(module, epochs, rate):
    optimizer = torch.optim.Adam(module.train().parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
    return module


def right(image):
    """The share of the test recordings that an image names right."""
    return float((image.run_batch(x_test)[:, -1].argmax(-1) == y_test.numpy()).mean())


module = train(Gestures(), epochs=40, rate=1e-2)
model = tidegate.import_model(module, sample=x, labels=GESTURES)
in_floats = right(model.pack("f32"))
print(f"f32: {in_floats:.1%} right")

# %% [markdown]
# ## Packing
#
# Weights of 8 bits are nearly as good as floats. Those of 4 bits take half of the flash.

# %%
for numeric in ("i8x16", "i4x16"):
    image = model.pack(numeric, calibrate=x)
    print(f"{numeric}: {right(image):.1%} right, {len(image.to_bytes())} bytes")

# %% [markdown]
# ## Training on with the integers of the device
#
# `quantize` converts the module in place. From now on its forward pass is that of the packed image, so that training sees
# what rounding does. The learning rate is a tenth of the one before.

# %%
module = train(tidegate.torch.quantize(copy.deepcopy(module), "i4x16"), epochs=8, rate=1e-3)
image = tidegate.pack(module, "gestures.tgi", labels=GESTURES)
trained = right(image)
print(f"i4x16, trained: {trained:.1%} right, {len(image.to_bytes())} bytes")
assert trained >= in_floats - 0.003

# %% [markdown]
# The module and the image give the same numbers, and a stream gives them sample by sample, as on the wristband.

# %%
with torch.no_grad():
    assert np.array_equal(module.eval()(x_test).numpy(), image.run_batch(x_test)[:, -1])

stream = image.stream()
rows = [stream.step(sample) for sample in x_test[1].numpy()]
print("heard:", GESTURES[int(rows[-1].argmax())], "said:", GESTURES[y_test[1]])

# %% [markdown]
# ## On to the device
#
# `gestures.tgi` is what firmware includes: see the first paths for Rust and for C. For C, the header has its constants.

# %%
image.save("gestures.tgi")
print(image.c_header("gestures").split("\n")[0])
