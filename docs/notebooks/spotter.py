# %% [markdown]
# # A keyword spotter, from PyTorch to a microcontroller in QEMU
#
# This notebook trains a small GRU on clips of spoken words, packs it with weights of 8 bits, listens with it, and writes a
# project for firmware that runs in QEMU.
#
# Open it with Jupytext (`jupytext --to ipynb spotter.py`), or run it as it is, from the root of the repository. It needs
# PyTorch.

# %%
import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tidegate
import tidegate.torch

torch.manual_seed(1)
torch.set_num_threads(1)

# %% [markdown]
# ## The clips
#
# The repository has a few clips of each word: enough to show each step, too few for a spotter that
# hears strangers. `CLIPS` may name a folder with all of Speech Commands and an `index.csv` of the same form. Silence and
# words that are no keywords are classes of their own.

# %%
here = Path(os.environ.get("TIDEGATE_REPOSITORY", "."))
folder = Path(os.environ.get("CLIPS", here / "tests/data/small/speech_commands_v2"))
with open(folder / "index.csv") as file:
    clips = [row for row in csv.DictReader(file) if (folder / row["file"]).exists()]
LABELS = sorted({row["label"] for row in clips})
print(len(clips), "clips:", ", ".join(LABELS))

# %% [markdown]
# ## Features
#
# The network reads the features that the device computes in integers, so a front end comes first. Here it is that of an
# image in the repository: 20 MFCCs every 20 ms. `image.features` runs it, with the bits of the device.

# %%
shipped = tidegate.Image.load(here / "assets/keywords/keywords.tgi")
front_end = shipped.inspect()["front_end"]
Path("front_end.json").write_text(json.dumps(front_end))
x = torch.from_numpy(np.stack([shipped.features(folder / row["file"]) for row in clips]))
y = torch.tensor([LABELS.index(row["label"]) for row in clips])
print("features:", tuple(x.shape))

# %% [markdown]
# ## Training
#
# Batch by batch, the words are moved in time and in loudness, which adds to the first coefficient.


# %%
class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(x.shape[2], 40, batch_first=True)
        self.classes = nn.Linear(40, len(LABELS))

    def forward(self, x):
        return torch.softmax(self.classes(self.gru(x)[0][:, -1]), -1)


def varied(batch):
    batch = torch.stack([row.roll(int(torch.randint(-4, 5, ())), 0) for row in batch])
    louder = torch.zeros(len(batch), 1, batch.shape[2])
    louder[:, 0, 0] = 2 * torch.randn(len(batch))
    return batch + louder


def train(module, epochs, rate):
    optimizer = torch.optim.Adam(module.train().parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(24):
            optimizer.zero_grad()
            posteriors = module(varied(x[batch])).clamp_min(1e-6)
            nn.functional.nll_loss(posteriors.log(), y[batch]).backward()
            optimizer.step()
        schedule.step()
    return module


def right(image):
    return float((image.run_batch(x)[:, -1].argmax(-1) == y.numpy()).mean())


settings = {"front_end": "front_end.json", "labels": LABELS, "schedule": (49, 12)}
module = train(Spotter(), epochs=60, rate=1e-2)
in_floats = right(tidegate.import_model(module, sample=x, **settings).pack("f32"))
print(f"f32: {in_floats:.0%} of the clips that it has learnt")

# %% [markdown]
# ## On with the integers of the device

# %%
module = train(tidegate.torch.quantize(module, "i8x16", **settings), epochs=4, rate=1e-3)
image = tidegate.pack(module, "spotter.tgi", **settings)
print(image)
print(f"i8x16: {right(image):.0%}, {len(image.to_bytes())} bytes")
assert right(image) >= in_floats - 0.05

# %% [markdown]
# ## Listening
#
# A window of a second starts every 240 ms, as the schedule says, and the detector averages the posteriors of three windows.

# %%
word = next(row for row in clips if not row["label"].startswith("_"))
heard = image.listen(folder / word["file"])
print("said:", word["label"], "- posteriors of the last window:", heard.posteriors[-1].round(2) if len(heard.posteriors) else "none")

# %% [markdown]
# ## In QEMU
#
# `tidegate new` writes a project that compiles the image into firmware for a Cortex-M4F. `cargo run` builds it and runs it in
# QEMU on two recorded words, for which it takes Rust, QEMU and a minute; set `TIDEGATE_QEMU=1` to do so from here.

# %%
commands = [["tidegate", "new", "spotter", "--model", "spotter.tgi", "--for", "qemu-m4"], ["cargo", "run", "--release"]]
if os.environ.get("TIDEGATE_QEMU") == "1" and shutil.which("tidegate") and shutil.which("qemu-system-arm"):
    subprocess.run(commands[0], check=True)
    print(subprocess.run(commands[1], check=True, cwd="spotter", capture_output=True, text=True).stdout)
else:
    print("run:", "; cd spotter; ".join(" ".join(command) for command in commands))
