"""Formats the results and judges the bars."""

from measure import LEAST_TURNS
from workloads import BARS, FLOOR, LOADING_SECONDS, NORMED_TO_PLAIN

COLUMNS = ("tidegate f32", "tidegate f32-2threads", "tidegate f16", "tidegate i8x16", "rtneural", "rtneural xsimd", "onnxruntime",
           "openvino", "onednn", "tract", "onednn int8", "onnxruntime int8", "onnxruntime int8-rows", "floor")


def bars(cases, results, isa):
    """Judges every bar whose case has run: `{row, case, ours, against, ratio, bar, verdict}`."""
    known, rows = {case.name: case for case in cases}, []
    for bar in BARS[isa]:
        if bar.case in known:
            rows.append(_judge(bar, known[bar.case], results))
    ours = lambda name: _usable(results.get(name, {}).get("tidegate f32", {}))
    plain, normed = ours("w2"), ours("w2-normed")
    if plain and normed:
        ratios = _ratios(normed, plain)
        row = _row("W2n", "w2-normed", "tidegate f32", "our plain W2", ratios, f"at most {NORMED_TO_PLAIN[isa]}x its time")
        rows.append(row | {"verdict": _verdict([ratio <= NORMED_TO_PLAIN[isa] for ratio in ratios], (plain, normed))})
    if normed:
        once = (normed["load_ns"] + normed["first_ns"] - normed["median_ns"]) / 1e9
        row = _row("W2n", "w2-normed", "tidegate f32", "nothing to build", (once, once),
                   f"loading and first call at most {LOADING_SECONDS:.3f} s beyond a call")
        rows.append(row | {"verdict": "met" if once <= LOADING_SECONDS else "NOT met"})
    return rows


def _row(row, case, ours, against, ratios, bar):
    return {"row": row, "case": case, "ours": ours, "against": against, "ratio": ratios[0], "ratio_of_all": ratios[1], "bar": bar}


def _ratios(one, other):
    """The ratio of the medians of quiet turns, and of all turns."""
    return tuple(one[median] / other[median] for median in ("median_ns", "median_of_all_ns"))


def _verdict(met, figures):
    """A bar is undecided if few turns were quiet, or if quiet turns and all turns disagree about it."""
    if len(set(met)) > 1:
        return "undecided: quiet turns and all turns disagree"
    if any(of["quiet_turns"] < LEAST_TURNS for of in figures):
        return f"undecided: fewer than {LEAST_TURNS} quiet turns ({'met' if met[0] else 'NOT met'} by them)"
    return "met" if met[0] else "NOT met"


def _usable(figures):
    return figures if figures.get("right") and "median_ns" in figures else None


def _judge(bar, case, results):
    found = results[bar.case]
    ours = _usable(found.get(bar.ours, {}))
    others = {name: figures for name in bar.against if (figures := _usable(found.get(name, {})))}
    missing = [name for name in bar.against if name not in others]
    wanted = f"at most {bar.factor}x its time" if bar.at_most else f"at least {bar.factor}x"
    wanted += ", smaller error" if bar.more_exact else ""
    if not ours or not others:
        reason = f"{bar.ours} did not run" if not ours else f"none of {', '.join(bar.against)} ran"
        return _row(bar.row, bar.case, bar.ours, ", ".join(bar.against), (None, None), wanted) | {"verdict": f"SKIP: {reason}"}
    # The fastest of all that ran, by the quiet turns and by all turns.
    fastest = [min(others, key=lambda other: others[other][median]) for median in ("median_ns", "median_of_all_ns")]
    ratios = tuple(others[name][median] / ours[median] for name, median in zip(fastest, ("median_ns", "median_of_all_ns")))
    exact = not bar.more_exact or all(ours["max_error"] < other["max_error"] for other in others.values())
    if bar.at_most:
        ratios = tuple(1 / ratio for ratio in ratios)
    met = [(ratio <= bar.factor if bar.at_most else ratio >= bar.factor) and exact for ratio in ratios]
    verdict = _verdict(met, (ours, others[fastest[0]]))
    floor = found.get("floor")
    if floor and bar.ours == "tidegate f32" and all(ratio <= FLOOR for ratio in _ratios(ours, floor)):
        verdict = "met: at the floor"
    label = fastest[0] + (f"; without {', '.join(missing)}" if missing else "")
    return _row(bar.row, bar.case, bar.ours, label, ratios, wanted) | {"verdict": verdict}


def _time(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def _cell(case, name, results):
    figures = results[case.name].get(name)
    if figures is None:
        return ""
    if "failed" in figures:
        return "FAILED"
    if "skipped" in figures:
        return "SKIP"
    error = figures["max_error"]
    every = "" if figures["quiet_turns"] == figures["turns"] else f", all turns {_time(figures['median_of_all_ns'])}"
    text = f"{_time(figures['median_ns'])} ({'not finite' if error is None else f'{error:.0e}'}{every})"
    return text if figures["right"] else f"WRONG {text}"


def _quiet(results):
    """The number of turns without other load on the machine."""
    runs = [figures for runs in results.values() for figures in runs.values() if "turns" in figures]
    quiet, turns = (sum(figures[name] for figures in runs) for name in ("quiet_turns", "turns"))
    loud = sum(figures["quiet_turns"] < LEAST_TURNS for figures in runs)
    text = f"{quiet} of {turns} turns were quiet and counted"
    return text + (f"; {loud} of {len(runs)} cells have fewer than {LEAST_TURNS}, so that their bars are undecided." if loud else ".")


def turns(results):
    """Every turn as CSV, taken out of the results."""
    lines = ["case,run,turn,ns_a_call,quiet,waited"]
    for case, runs in results.items():
        for run, figures in runs.items():
            for turn, (took, quiet, waited) in enumerate(figures.pop("raw", ())):
                lines.append(f"{case},{run},{turn},{took:.1f},{int(quiet)},{waited:.4f}")
    return "\n".join(lines) + "\n"


def markdown(record, cases):
    """The results page."""
    results, machine = record["results"], record["machine"]
    columns = [name for name in COLUMNS if any(name in results[case.name] for case in cases)]
    lines = [
        f"# {record['date']}, {machine['cpu']}",
        "",
        f"{machine['cores']} cores, {' '.join(machine['flags'])}. {_quiet(results)}",
        f"{record['commit']}. Medians of a call (a step of a stream, or the whole batch), and the largest difference from f64.",
        "",
        "| | workload | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for case in cases:
        cells = [_cell(case, name, results) for name in columns]
        lines.append(f"| {case.row} | {case.name} | " + " | ".join(cells) + " |")
    lines += ["", "| | workload | ours | against | ratio | of all turns | bar | |", "|---" * 8 + "|"]
    for bar in record["bars"]:
        ratios = ("" if bar[of] is None else f"{bar[of]:.2f}" for of in ("ratio", "ratio_of_all"))
        lines.append(f"| {bar['row']} | {bar['case']} | {bar['ours']} | {bar['against']} | {' | '.join(ratios)} | {bar['bar']} | {bar['verdict']} |")
    count = lambda start: sum(bar["verdict"].startswith(start) for bar in record["bars"])
    lines += ["", f"{count('met')} of {len(record['bars'])} bars met, {count('undecided')} undecided, {count('SKIP')} skipped.", ""]
    names = {}
    for case in cases:
        for run, figures in results[case.name].items():
            if "failed" in figures:
                lines.append(f"FAILED {case.name}, {run}: {figures['failed']}")
            elif "skipped" in figures:
                names[run] = f"SKIP: {figures['skipped']}"
            else:
                names.setdefault(run, figures["description"])
    lines += ["", *(f"- {run}: {description}" for run, description in sorted(names.items())), ""]
    return "\n".join(lines)
