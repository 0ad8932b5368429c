"""Scores of many sounds: counts do not depend on how the sounds are divided, on the engine, or on whether a sound is a file or
its bytes."""

import gc
import itertools
import math
import os
import subprocess
import sys
import tracemalloc
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="no pyarrow")

import tidegate  # noqa: E402
from tidegate import score  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
CLIPS = ROOT / "assets" / "speech_commands"
THRESHOLDS = [0.3, 0.5, 0.7, 0.9]


@pytest.fixture(scope="module")
def image():
    return tidegate.Image.load(ROOT / "assets" / "keywords" / "keywords.tgi")


@pytest.fixture(scope="module")
def table():
    rows = [row.split(",") for row in (CLIPS / "index.csv").read_text().split()[1:]]
    files = [str(CLIPS / row[0]) for row in rows]
    return pa.table({"file": files, "label": [row[1] for row in rows]})


def parts(table, count):
    ends = [len(table) * part // count for part in range(count + 1)]
    return [table.slice(start, end - start) for start, end in itertools.pairwise(ends)]


def test_counts_do_not_depend_on_the_parts(image, table):
    whole = score.batch(table, image, thresholds=THRESHOLDS)
    expected = score.report(whole)
    at = expected.counts[0.5]
    assert at.keywords + sum(label.startswith("_") for label in table["label"].to_pylist()) == len(table)
    assert at.right + at.wrong + at.missed == at.keywords and at.right > at.keywords / 2
    for count in (8, 64):
        divided = [score.batch(part, image, thresholds=THRESHOLDS) for part in parts(table, count)]
        assert pa.concat_tables(divided).equals(whole)
        assert score.report(divided) == expected
        assert sum((score.report(part) for part in divided), score.Report()) == expected
    det = expected.det()
    assert [at for at, _, _ in det] == THRESHOLDS


def test_events_are_those_of_listen(image, table):
    few = table.slice(0, 6)
    own = score.batch(few, image, silence=0)
    for row in own.to_pylist():
        heard = image.listen(row["file"])
        assert [(event["label"], event["seconds"]) for event in row["events"]] == [(e.label, np.float32(e.seconds)) for e in heard.events]
        assert row["microseconds"] == round(heard.seconds * 1e6)
    threshold = own["thresholds"][0].as_py()[0]
    again = score.batch(few, image, silence=0, thresholds=[threshold])
    labels = [[event["label"] for event in row] for row in own["events"].to_pylist()]
    assert [[event["label"] for event in row] for row in again["events"].to_pylist()] == labels


MANY = int(os.environ.get("TIDEGATE_CLIPS", "5000"))
"""The issue asks for a million."""


def simulated(count, part=100):
    """Tables as `batch` returns them, of clips of a second: every tenth is background, every third has an event at 0.5 and
    every ninth at 0.9 too."""
    for start in range(0, count, part):
        clips = range(start, min(start + part, count))
        events = [[event(at) for at, every in ((0.5, 3), (0.9, 9)) if clip % every == 0] for clip in clips]
        yield pa.table({
            "label": ["_silence_" if clip % 10 == 0 else "yes" for clip in clips],
            "microseconds": [1_000_000] * len(clips),
            "thresholds": [[0.5, 0.9]] * len(clips),
            "events": pa.array(events, pa.list_(pa.struct([("threshold", pa.float32()), ("label", pa.string())]))),
        })


def event(threshold):
    return {"threshold": threshold, "label": "yes"}


def peak(count):
    """The report of this many clips, and the most memory that Python and Arrow took for it."""
    pool = pa.default_memory_pool()
    gc.collect()
    tracemalloc.start()
    arrow = max(0, pool.bytes_allocated())
    largest = 0

    def seen():
        nonlocal largest
        for table in simulated(count):
            yield table
            largest = max(largest, pool.bytes_allocated() - arrow)

    counts = score.report(seen())
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return counts, taken + largest


def test_memory_does_not_grow_with_the_number_of_clips():
    peak(100)  # what is loaded at first use
    _, few = peak(MANY // 10)
    counts, many = peak(MANY)
    clips = np.arange(MANY)
    for at, every in ((0.5, 3), (0.9, 9)):
        background, heard = clips % 10 == 0, clips % every == 0
        expected = score.Counts(
            keywords=int((~background).sum()),
            right=int((~background & heard).sum()),
            missed=int((~background & ~heard).sum()),
            false_accepts=int((background & heard).sum()),
            background_us=int(background.sum()) * 1_000_000,
        )
        assert counts.counts[at] == expected
    print(f"{MANY} clips: {many} bytes; a tenth of them: {few}")
    # A tenth of the clips takes as much, but for what the interpreter keeps between parts.
    assert many < 1.25 * few


def test_sounds_may_be_bytes(image, table):
    few = table.slice(0, 4)
    blobs = few.append_column("sound", pa.array([Path(file).read_bytes() for file in few["file"].to_pylist()]))
    assert score.batch(blobs, image).equals(score.batch(few, image))


def test_a_damaged_sound_is_an_error_with_its_name(image, tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(tidegate.Error, match="a.wav"):
        score.batch(pa.table({"file": [str(tmp_path / "a.wav")]}), image)
    with pytest.raises(tidegate.Error, match="needs `file` or `sound`"):
        score.batch(pa.table({"path": ["a.wav"]}), image)


def counted(labels, events, microseconds=1_000_000):
    rows = [[{"threshold": 0.8, "seconds": 1.0, "label": label, "score": 0.9} for label in row] for row in events]
    table = {"label": labels, "microseconds": [microseconds] * len(labels), "thresholds": [[0.8]] * len(labels), "events": rows}
    return score.report(pa.table(table)).counts[0.8]


def test_keywords_are_counted_by_hand():
    found = counted(
        ["yes", "yes", "yes", "yes", "yes", "_unknown_", None, "_silence_"],
        [["yes"], [], ["no"], ["yes", "yes"], ["yes", "no"], ["yes", "no"], ["no"], []],
    )
    assert (found.keywords, found.right, found.wrong, found.missed) == (5, 1, 2, 2)
    assert (found.false_accepts, found.background_us) == (3, 3_000_000)
    assert math.isclose(found.false_accepts_per_hour, 3600)


def at_most(events, mean):
    """The probability of at most this many events, with 60 digits."""
    getcontext().prec = 60
    mean = Decimal(mean)
    term = total = (-mean).exp()
    for count in range(1, events + 1):
        term *= mean / count
        total += term
    return float(total)


def test_the_bounds_are_those_of_the_poisson_distribution():
    for events in (0, 1, 2, 10, 100, 1000):
        low, high = score.bounds(events)
        assert math.isclose(at_most(events, high), 0.05, rel_tol=1e-9), events
        assert low == 0 if events == 0 else math.isclose(1 - at_most(events - 1, low), 0.05, rel_tol=1e-9), events
    # The normal distribution is near.
    low, high = score.bounds(1_000_000)
    assert abs(low - (1e6 - 1644.85)) < 3 and abs(high - (1e6 + 1644.85)) < 3


def test_openwakeword_quotes_five_and_a_half_hours():
    found = score.Counts(background_us=int(5.5 * 3.6e9))
    assert round(found.bounds_per_hour[1], 2) == 0.54


def test_reports_of_other_thresholds_are_not_added():
    with pytest.raises(tidegate.Error, match="cannot be added"):
        score.Report({0.5: score.Counts()}) + score.Report({0.6: score.Counts()})


FLEET = pytest.mark.skipif(not os.environ.get("TIDEGATE_FLEET"), reason="TIDEGATE_FLEET is not set: Ray takes long to start")
KILLED = """
import os, pathlib, sys
from tidegate import score
batch, mark = score.batch, pathlib.Path(sys.argv[3])

def dying(table, **options):
    # The first process that comes here dies.
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return batch(table, **options)
    os._exit(1)

score.batch = dying
exec(compile(open(sys.argv[4]).read(), "score_ray.py", "exec"))
"""


def ran(arguments, home):
    """The last line that a script prints. Engines write to the home folder."""
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("\n")[-1]


@FLEET
@pytest.mark.parametrize("engine", ["ray", "daft"])
def test_an_engine_gives_the_same_counts(engine, table, image, tmp_path):
    pytest.importorskip(engine, reason=f"no {engine}")
    given = [str(ROOT / "assets" / "keywords" / "keywords.tgi"), str(CLIPS / "index.csv")]
    found = ran([str(ROOT / "tools" / "python" / "examples" / f"score_{engine}.py"), *given], tmp_path)
    assert found == str(score.report(score.batch(table, image)))


@FLEET
def test_a_worker_may_be_killed(table, image, tmp_path):
    pytest.importorskip("ray", reason="no ray")
    given = [str(ROOT / "assets" / "keywords" / "keywords.tgi"), str(CLIPS / "index.csv")]
    script = str(ROOT / "tools" / "python" / "examples" / "score_ray.py")
    found = ran(["-c", KILLED, *given, str(tmp_path / "died"), script], tmp_path)
    assert (tmp_path / "died").exists()
    assert found == str(score.report(score.batch(table, image)))
