"""Scores the clips of an index with Ray Data, on a local cluster. Work of a process that dies is done again by another one.

    python score_ray.py IMAGE INDEX.csv
"""

import csv
import functools
import os
import sys
from pathlib import Path

import pyarrow as pa
import ray

from tidegate import score

image, index = sys.argv[1], Path(sys.argv[2])
with open(index) as file:
    rows = list(csv.DictReader(file))
table = pa.table({"file": [str(index.parent / row["file"]) for row in rows], "label": [row["label"] for row in rows]})

# Workers take the package from where this process has it.
ray.init(num_cpus=2, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}})
listened = ray.data.from_arrow(table).repartition(8).map_batches(functools.partial(score.batch, image=image), batch_format="pyarrow")
print(score.report(ray.get(reference) for reference in listened.to_arrow_refs()))
