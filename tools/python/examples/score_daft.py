"""Scores the clips of an index with Daft, batch by batch.

    python score_daft.py IMAGE INDEX.csv
"""

import csv
import sys
from pathlib import Path

import daft
import pyarrow as pa

from tidegate import score

image, index = sys.argv[1], Path(sys.argv[2])
with open(index) as file:
    rows = list(csv.DictReader(file))
table = pa.table({"file": [str(index.parent / row["file"]) for row in rows], "label": [row["label"] for row in rows]})

columns = pa.struct(list(score.batch(table.slice(0, 0), image).schema))


@daft.func.batch(return_dtype=daft.DataType.from_arrow_type(columns))
def listened(file: daft.Series, label: daft.Series) -> pa.Array:
    part = pa.table({"file": file.to_arrow(), "label": label.to_arrow()})
    return pa.concat_arrays(score.batch(part, image).to_struct_array().chunks)


frame = daft.from_arrow(table).into_partitions(8)
heard = frame.select(listened(daft.col("file"), daft.col("label")).alias("heard")).to_arrow()["heard"]
print(score.report(pa.Table.from_struct_array(heard)))
