"""Scores of a keyword spotter over many sounds, in parts that any engine may run and that add up to the same counts.

`batch` takes an Arrow table of sounds and returns one of events: in one process, in `map_batches` of Ray Data, in Daft or in
`mapInArrow` of Spark. `report` counts: keywords right, wrong and missed, and false accepts an hour with their bounds.

>>> import tidegate.score
>>> report = tidegate.score.Report({0.8: tidegate.score.Counts(keywords=10, right=9, missed=1, background_us=19_800_000_000)})
>>> print(report)
threshold 0.8: 9 of 10 keywords right, 0 wrong, 1 missed; 0 false accepts in 5.5 h: below 0.54/h with 95 %
"""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import Error
from ._image import Image, PathLike

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Counts", "Report", "batch", "bounds", "report"]

CONFIDENCE = 0.95
SILENCE = 0.6
"""Seconds after a sound in which its keyword may still be reported, as in `tidegate eval --stream`."""


def batch(
    table: pa.Table, image: Image | PathLike, *, thresholds: Sequence[float] = (), silence: float = SILENCE
) -> pa.Table:
    """Listens to the sounds of an Arrow table. Each row has a `file` (.wav, .flac) or a `sound` with the bytes of one, and it
    may have a `label`: a keyword, or nothing, or a name that begins with `_`, for background. Returns these columns without
    the sounds, and `microseconds`, the length of each sound, `thresholds`, and `events`: a list of `threshold`, `seconds`,
    `label` and `score`. Without `thresholds` it is that of the image, as a device has it; a list of them gives the events at
    each one. `silence` follows each sound.

    Each sound starts from a zero state, so that the result does not depend on how sounds are divided into batches.

    >>> import tidegate
    >>> try:
    ...     import pyarrow, tidegate.score
    ...     table = pyarrow.table({"file": pyarrow.array([], pyarrow.string())})
    ...     print(tidegate.score.batch(table, tidegate.example().pack("f32")).column_names)
    ... except ImportError:
    ...     print(["file", "microseconds", "thresholds", "events"])
    ['file', 'microseconds', 'thresholds', 'events']
    """
    import pyarrow as pa

    if not isinstance(image, Image):
        image = _loaded(os.fspath(image))
    names = table.column_names
    if "file" not in names and "sound" not in names:
        raise Error(f"the table has the columns {', '.join(names)}; it needs `file` or `sound`")
    given = table["sound" if "sound" in names else "file"].to_pylist()
    heard = [_heard(image, sound, [float(threshold) for threshold in thresholds], silence) for sound in given]
    number = pa.float32()
    event = pa.struct([("threshold", number), ("seconds", number), ("label", pa.string()), ("score", number)])
    kept = table.drop_columns(["sound"]) if "sound" in names else table
    columns = {
        "microseconds": pa.array([each.microseconds for each in heard], pa.int64()),
        "thresholds": pa.array([each.thresholds for each in heard], pa.list_(number)),
        "events": pa.array([each.events for each in heard], pa.list_(event)),
    }
    for name, column in columns.items():
        kept = kept.append_column(name, column)
    return kept


@dataclass(frozen=True)
class _Heard:
    microseconds: int
    thresholds: list[float]
    events: list[dict[str, Any]]


@functools.cache
def _loaded(path: str) -> Image:
    """An image, once in each process."""
    return Image.load(path)


def _heard(image: Image, sound: str | bytes, thresholds: list[float], silence: float) -> _Heard:
    if isinstance(sound, bytes):
        # The readers of sounds know their format by the name of the file.
        suffix = ".flac" if sound.startswith(b"fLaC") else ".wav"
        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(sound)
            file.flush()
            return _heard(image, file.name, thresholds, silence)
    more = json.loads(image._native.listen(sound, silence, thresholds)[2])
    if more["threshold"] is None:
        raise Error(f"{image._native.name}: has no detector: give it labels when it is imported")
    found = more["at"] if thresholds else [more["events"]]
    thresholds = thresholds or [more["threshold"]]
    events = [{"threshold": at, **event} for at, events in zip(thresholds, found, strict=True) for event in events]
    return _Heard(round(more["seconds"] * 1e6), thresholds, events)


@dataclass(frozen=True)
class Counts:
    """What was heard at one threshold. Counts of parts add up to those of the whole.

    >>> from tidegate.score import Counts
    >>> (Counts(keywords=2, right=1, missed=1) + Counts(keywords=3, right=3)).right
    4
    """

    keywords: int = 0
    right: int = 0
    """Keywords with exactly one event, of their own label."""
    wrong: int = 0
    """Keywords with an event of another label."""
    missed: int = 0
    false_accepts: int = 0
    """Events in the background."""
    background_us: int = 0
    """Microseconds of background."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def hours(self) -> float:
        """Hours of background."""
        return self.background_us / 3.6e9

    @property
    def false_accepts_per_hour(self) -> float:
        """`nan` without background."""
        return self.false_accepts / self.hours if self.background_us else math.nan

    @property
    def bounds_per_hour(self) -> tuple[float, float]:
        """The rate of false accepts is at least the first, and at most the second number, each with 95 %."""
        low, high = bounds(self.false_accepts)
        return (low / self.hours, high / self.hours) if self.background_us else (0.0, math.inf)


@dataclass(frozen=True)
class Report:
    """The counts at each threshold.

    >>> from tidegate.score import Counts, Report
    >>> report = Report({0.5: Counts(keywords=4, right=3, missed=1, false_accepts=2, background_us=3_600_000_000)})
    >>> (report + report).det()
    [(0.5, 0.25, 2.0)]
    """

    counts: dict[float, Counts] = field(default_factory=dict)

    def __add__(self, other: Report) -> Report:
        if not (self.counts and other.counts):
            return self if self.counts else other
        if self.counts.keys() != other.counts.keys():
            raise Error(f"reports at the thresholds {sorted(self.counts)} and {sorted(other.counts)} cannot be added")
        return Report({at: counts + other.counts[at] for at, counts in self.counts.items()})

    def det(self) -> list[tuple[float, float, float]]:
        """The detection error tradeoff: for each threshold the share of keywords that are not right, and the false accepts
        an hour.

        >>> from tidegate.score import Report
        >>> Report().det()
        []
        """
        return [
            (at, 1 - counts.right / counts.keywords if counts.keywords else math.nan, counts.false_accepts_per_hour)
            for at, counts in sorted(self.counts.items())
        ]

    def __str__(self) -> str:
        return "\n".join(_line(at, counts) for at, counts in sorted(self.counts.items()))


def _line(at: float, counts: Counts) -> str:
    keywords = f"{counts.right} of {counts.keywords} keywords right, {counts.wrong} wrong, {counts.missed} missed"
    low, high = counts.bounds_per_hour
    least = f"above {low:.3g}/h and " if low else ""
    rate = f"{counts.false_accepts} false accepts in {counts.hours:.3g} h: {least}below {high:.2g}/h with 95 %"
    return f"threshold {at:.6g}: {keywords}; {rate}"


def report(tables: pa.Table | Iterable[pa.Table]) -> Report:
    """Counts the events of one or more tables of `batch`. A sound whose label begins with `_`, or that has none, is
    background: each of its events is a false accept.

    >>> import tidegate
    >>> try:
    ...     import pyarrow, tidegate.score
    ...     event = {"threshold": 0.8, "seconds": 1.0, "label": "yes", "score": 0.9}
    ...     table = pyarrow.table({"label": ["yes", None], "microseconds": [1_000_000] * 2,
    ...                            "thresholds": [[0.8]] * 2, "events": [[event], [event]]})
    ...     print(tidegate.score.report(table).counts[0.8].right)
    ... except ImportError:
    ...     print(1)
    1
    """
    import pyarrow as pa

    total = Report()
    for table in [tables] if isinstance(tables, pa.Table) else tables:
        total += _counted(table.to_pylist())
    return total


def _counted(rows: list[dict[str, Any]]) -> Report:
    known = {_number(at) for row in rows for at in row["thresholds"]}
    counts = dict.fromkeys(known, Counts())
    for row in rows:
        for at in counts:
            events = [event["label"] for event in row["events"] if _number(event["threshold"]) == at]
            counts[at] += _of_sound(row.get("label"), events, row["microseconds"])
    return Report(counts)


def _number(threshold: float) -> float:
    """A threshold as it was written: tables hold `float32`."""
    return float(str(np.float32(threshold)))


def _of_sound(label: str | None, events: list[str], microseconds: int) -> Counts:
    if label is None or label.startswith("_"):
        return Counts(false_accepts=len(events), background_us=microseconds)
    right, wrong = events == [label], any(event != label for event in events)
    return Counts(1, int(right), int(wrong), int(not right and not wrong))


def bounds(events: int) -> tuple[float, float]:
    """The bounds of the mean of a Poisson distribution that gave this many events: it is at least the first number with 95 %,
    and at most the second with 95 %. Without an event the upper bound is -ln 0.05, 3.0: after 5.5 hours without a false
    accept the rate is below 0.54 an hour.

    >>> from tidegate.score import bounds
    >>> [round(bound, 3) for bound in bounds(0)], [round(bound, 3) for bound in bounds(10)]
    ([0.0, 2.996], [5.425, 16.962])
    """
    below = _mean_with(events, 1 - CONFIDENCE)
    return (_mean_with(events - 1, CONFIDENCE) if events else 0.0), below


def _mean_with(events: int, share: float) -> float:
    """The mean with which at most this many events have this probability."""
    counts = np.arange(events + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, events + 1)))])
    low, high = 0.0, events + 10 * math.sqrt(events + 1) + 10
    # The probability falls with the mean.
    while high - low > 1e-12 * high:
        mean = (low + high) / 2
        if mean in (low, high):
            break
        probability = float(np.exp(counts * math.log(mean) - factorials - mean).sum())
        low, high = (mean, high) if probability > share else (low, mean)
    return (low + high) / 2
