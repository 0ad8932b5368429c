"""Runs the drivers of a case in turns on pinned cores, and records their times."""

import math
import os
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np

from workloads import TOLERANCE


# A core of a virtual machine may be half of a real core. Load on the other half is invisible and slows a driver up to twofold.
# A turn counts only if the reference loop before and after it takes at most QUIET times its minimum, and if the driver waits for
# its core at most WAITED of the time.
QUIET = 1.25
WAITED = 0.02
# Minimum number of quiet turns for each driver, and the factor by which a case may exceed its time to get them.
LEAST_TURNS = 20
PATIENCE = 12


# The available cores, read before this process is pinned.
CORES = os.sched_getaffinity(0)


class Probe:
    """The reference loop: a fixed amount of work, some tenths of a millisecond, on the core of this process."""

    least_ns = math.inf

    def __call__(self):
        took = min(self._once() for _ in range(3))
        self.least_ns = min(self.least_ns, took)
        return took

    @staticmethod
    def _once():
        begin, total = time.perf_counter_ns(), 0
        for number in range(4000):
            total += number
        return time.perf_counter_ns() - begin

    def is_quiet(self, took):
        return took <= QUIET * self.least_ns


class Driver:
    """A driver process. It waits for commands on its standard input."""

    def __init__(self, command, variant, folder, cores, library, held):
        threads = len(cores)
        more = {"OMP_NUM_THREADS": str(threads), "ONNXRUNTIME_LIB": str(library)} | held
        self.process = subprocess.Popen(
            [*command, str(folder), variant], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=os.environ | more, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        words = self._line().split(" ", 3)
        if words[0] != "ready":
            raise RuntimeError(f"the driver printed {' '.join(words)!r} instead of ready")
        self.load_ns, self.first_ns, self.description = int(words[1]), int(words[2]), words[3]

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read().strip().splitlines()[-1:] or "the driver ended without output")
        return line.strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    def run(self, calls):
        """Nanoseconds per call."""
        return int(self.ask(f"run {calls}")) / calls

    def waited(self):
        """Nanoseconds that its main thread has waited for a core."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def worst(driver, got, want):
    """The largest difference of a driver's outputs from f64, NaN if one of them is NaN."""
    driver.ask(f"output {got}")
    values = np.fromfile(got, "<f4")
    got.unlink()
    return float(np.abs(values.reshape(want.shape) - want).max())


def tolerance(run):
    """That of the numeric that the run names, otherwise of f32."""
    return next((limit for name, limit in TOLERANCE.items() if name in run), TOLERANCE["f32"])


def cores_of(run, core):
    """One core for each thread of a run."""
    threads = int(run.rpartition("-")[2].removesuffix("threads")) if run.endswith("threads") else 1
    others = [other for other in sorted(CORES, reverse=True) if other != core]
    if threads - 1 > len(others):
        raise RuntimeError(f"the run needs {threads} cores")
    return {core, *others[: threads - 1]}


def case(case, folder, want, command, library, core, seconds, turn_seconds, probe, held):
    """`{run: figures}`. A failed driver has `failed` instead of figures. `held` is the environment of the drivers."""
    results, live = {}, {}
    os.sched_setaffinity(0, {core})
    for run in case.runs:
        program, variant, missing = command(case, run)
        if program is None:
            results[run] = {"skipped": missing}
            continue
        try:
            driver = Driver(program, variant, folder, cores_of(run, core), library, held)
            error = 0.0 if run == "floor" else worst(driver, folder / "got.f32", want)
            results[run] = {"description": driver.description, "load_ns": driver.load_ns, "first_ns": driver.first_ns,
                            "max_error": error if math.isfinite(error) else None, "right": error <= tolerance(run), "turns": []}
            # One call gives a rough number of calls per turn, and that many calls a precise one.
            calls = max(1, round(turn_seconds * 1e9 / driver.run(1)))
            live[run] = driver, calls if calls == 1 else max(1, round(turn_seconds * 1e9 / driver.run(calls)))
        except (OSError, RuntimeError, ValueError) as error:
            results[run] = {"failed": str(error)}
    begin, turn = time.monotonic(), 0
    order = list(live)
    while order and goes_on(results, order, probe, time.monotonic() - begin, seconds):
        # The order rotates, so that no driver always runs after the same one.
        for run in order[turn % len(order):] + order[: turn % len(order)]:
            driver, calls = live[run]
            # Warm-up, because the other drivers have filled the caches.
            if calls > 1:
                driver.run(calls // 10 + 1)
            before, waited, start = probe(), driver.waited(), time.monotonic_ns()
            took = driver.run(calls)
            waited = (driver.waited() - waited) / (time.monotonic_ns() - start)
            results[run]["turns"].append((took, max(before, probe()), waited))
        turn += 1
    for run, (driver, calls) in live.items():
        driver.close()
        turns = results[run].pop("turns")
        quiet, every = quiet_times(turns, probe), [took for took, _, _ in turns]
        times = quiet or every
        quarters = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
        results[run] |= {"median_ns": statistics.median(times), "median_of_all_ns": statistics.median(every), "least_ns": min(times),
                         "quartiles_ns": [quarters[0], quarters[2]], "turns": len(turns), "quiet_turns": len(quiet),
                         "calls_a_turn": calls, "raw": [(took, probe.is_quiet(probed), waited) for took, probed, waited in turns]}
    return results


def quiet_times(turns, probe):
    return [took for took, probed, waited in turns if probe.is_quiet(probed) and waited <= WAITED]


def goes_on(results, order, probe, elapsed, seconds):
    """Whether to run another turn: until the time is over, or longer if a driver has too few quiet turns."""
    turns = [results[run]["turns"] for run in order]
    if elapsed < seconds or min(map(len, turns)) < 3:
        return True
    return elapsed < PATIENCE * seconds and min(len(quiet_times(of_one, probe)) for of_one in turns) < LEAST_TURNS


def machine():
    """The machine that the figures are from."""
    info = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines() if ":" in line)
    info = {name.strip(): value.strip() for name, value in info.items()}
    flags = [flag for flag in info.get("flags", "").split() if flag.startswith(("avx", "fma", "amx"))]
    return {"cpu": info.get("model name", "unknown"), "family": info.get("cpu family"), "model": info.get("model"),
            "cores": os.cpu_count(), "flags": flags, "kernel": os.uname().release, "load_average": os.getloadavg()[0]}
