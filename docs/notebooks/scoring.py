# %% [markdown]
# # Scoring a folder of sounds at scale
#
# How many keywords does a spotter hear, and how often does it fire without one? This notebook counts over a folder of sounds,
# in parts that any engine may run: here the threads of this machine, elsewhere Ray, Daft or Spark.
#
# Open it with Jupytext (`jupytext --to ipynb scoring.py`), or run it as it is, from the root of the repository. It needs
# pyarrow.

# %%
import csv
import functools
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import tidegate.score

# %% [markdown]
# ## The table
#
# A row has a file and its label: a keyword, or a name that begins with `_` for background.

# %%
here = Path(os.environ.get("TIDEGATE_REPOSITORY", "."))
folder = Path(os.environ.get("CLIPS", here / "assets/speech_commands"))
with open(folder / "index.csv") as file:
    rows = [row for row in csv.DictReader(file) if (folder / row["file"]).exists()]
table = pa.table({"file": [str(folder / row["file"]) for row in rows], "label": [row["label"] for row in rows]})
print(table.num_rows, "sounds")

# %% [markdown]
# ## One process
#
# `thresholds` gives the events at several thresholds in one pass: the network runs once.

# %%
IMAGE = str(here / "assets/keywords/keywords.tgi")
THRESHOLDS = [0.3, 0.5, 0.7, 0.8, 0.9]
score = functools.partial(tidegate.score.batch, image=IMAGE, thresholds=THRESHOLDS)
report = tidegate.score.report(score(table))
print(report)

# %% [markdown]
# ## Many parts
#
# Each sound starts from a zero state, so counts do not depend on the parts. A part returns counts, which add up; the events
# need not be kept. Threads suffice on one machine: other threads of Python run while the network does.


# %%
def counted(part):
    return tidegate.score.report(score(part))


def parts(table, count):
    ends = [table.num_rows * part // count for part in range(count + 1)]
    return [table.slice(start, end - start) for start, end in itertools.pairwise(ends)]


with ThreadPoolExecutor(os.cpu_count()) as pool:
    merged = sum(pool.map(counted, parts(table, 8)), tidegate.score.Report())
assert merged == report

# %% [markdown]
# With Ray Data the same function runs on a cluster, and `report` counts what comes back, batch by batch:
#
# ```python
# heard = ray.data.from_arrow(table).map_batches(score, batch_format="pyarrow")
# report = tidegate.score.report(heard.iter_batches(batch_format="pyarrow"))
# ```
#
# `tools/python/examples` has whole scripts for Ray and Daft.
#
# ## Which threshold?
#
# Few hours without an event do not prove a low rate: the report gives bounds. The detection error tradeoff shows what each
# threshold costs.

# %%
for threshold, missed, accepts in report.det():
    low, high = report.counts[threshold].bounds_per_hour
    print(f"{threshold:.1f}: {missed:5.1%} missed, {accepts:6.1f} false accepts an hour, at most {high:.0f} with 95 %")
