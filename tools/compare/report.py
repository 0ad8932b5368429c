"""Formats the results and judges the bars."""

from measure import LEAST_TURNS
from workloads import BARS, ELSEWHERE, LOADING_SECONDS, NORMED_TO_PLAIN, SIZES

COLUMNS = ("tidegate f32", "tidegate f32-2threads", "tidegate f16", "tidegate i8x16", "rtneural", "onnxruntime", "openvino",
           "onednn", "tract", "onednn int8", "onnxruntime int8")


def stand_in(case, results):
    """Estimates RTNeural if it has not run: its time on another machine, scaled by the ratio of a peer between the machines.

    The GRU is scaled by LSTM times too, because the peers' GRU times on that machine are unknown. The faster estimate counts.
    """
    if not case.stream or "skipped" not in results[case.name].get("rtneural", {}) or case.hidden not in SIZES:
        return None
    index, best = SIZES.index(case.hidden), None
    for peer in ("tract", "onnxruntime"):
        here = results.get(f"stream-lstm-{case.hidden}", {}).get(peer, {}).get("median_ns")
        if here:
            estimate = ELSEWHERE[f"rtneural {case.cell}"][index] * here / ELSEWHERE[peer][index]
            if best is None or estimate < best["median_ns"]:
                best = {"median_ns": estimate, "estimated": f"from {peer}", "right": True}
    return best


def bars(cases, results):
    """Judges every bar whose case has run: `{row, case, ours, against, ratio, bar, verdict}`."""
    known, rows = {case.name: case for case in cases}, []
    for bar in BARS:
        if bar.case in known:
            rows.append(_judge(bar, known[bar.case], results))
    ours = lambda name: _usable(results.get(name, {}).get("tidegate f32", {}))
    plain, normed = ours("w2"), ours("w2-normed")
    if plain and normed:
        ratio = normed["median_ns"] / plain["median_ns"]
        rows.append(_row("W2n", "w2-normed", "tidegate f32", "our plain W2", ratio, f"at most {NORMED_TO_PLAIN}x its time",
                         ratio <= NORMED_TO_PLAIN))
    if normed:
        once = (normed["load_ns"] + normed["first_ns"] - normed["median_ns"]) / 1e9
        rows.append(_row("W2n", "w2-normed", "tidegate f32", "nothing to build", once,
                         f"loading and first call at most {LOADING_SECONDS:.3f} s beyond a call", once <= LOADING_SECONDS))
    return rows


def _row(row, case, ours, against, ratio, bar, met):
    return {"row": row, "case": case, "ours": ours, "against": against, "ratio": ratio, "bar": bar,
            "verdict": "met" if met else "NOT met"}


def _usable(figures):
    return figures if figures.get("right") and "median_ns" in figures else None


def _judge(bar, case, results):
    found = results[bar.case]
    ours = _usable(found.get(bar.ours, {}))
    others = {}
    for name in bar.against:
        figures = _usable(found.get(name, {})) or (stand_in(case, results) if name == "rtneural" else None)
        if figures:
            others[name] = figures
    missing = [name for name in bar.against if name not in others]
    wanted = f"at least {bar.factor}x" + (", smaller error" if bar.more_exact else "")
    if not ours or not others:
        reason = f"{bar.ours} did not run" if not ours else f"none of {', '.join(bar.against)} ran"
        row = _row(bar.row, bar.case, bar.ours, ", ".join(bar.against), None, wanted, False)
        return row | {"verdict": f"SKIP: {reason}"}
    name = min(others, key=lambda other: others[other]["median_ns"])
    ratio = others[name]["median_ns"] / ours["median_ns"]
    met = ratio >= bar.factor
    if bar.more_exact:
        met = met and all(ours["max_error"] < other["max_error"] for other in others.values())
    label = f"{name} (estimated {others[name]['estimated']})" if "estimated" in others[name] else name
    if missing:
        label += f"; without {', '.join(missing)}"
    return _row(bar.row, bar.case, bar.ours, label, ratio, wanted, met)


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
        estimate = stand_in(case, results)
        return f"SKIP (≈ {_time(estimate['median_ns'])})" if estimate else "SKIP"
    error = figures["max_error"]
    text = f"{_time(figures['median_ns'])} ({'not finite' if error is None else f'{error:.0e}'})"
    return text if figures["right"] else f"WRONG {text}"


def _quiet(results):
    """The number of turns without other load on the machine."""
    runs = [figures for runs in results.values() for figures in runs.values() if "turns" in figures]
    quiet, turns = (sum(figures[name] for figures in runs) for name in ("quiet_turns", "turns"))
    loud = sum(figures["quiet_turns"] < LEAST_TURNS for figures in runs)
    text = f"{quiet} of {turns} turns were quiet and counted"
    return text + (f"; {loud} of {len(runs)} cells had too few, so all of their turns count, and their figures are meaningless." if loud else ".")


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
    lines += ["", "| | workload | ours | against | ratio | bar | |", "|---" * 7 + "|"]
    for bar in record["bars"]:
        ratio = "" if bar["ratio"] is None else f"{bar['ratio']:.2f}"
        lines.append(f"| {bar['row']} | {bar['case']} | {bar['ours']} | {bar['against']} | {ratio} | {bar['bar']} | {bar['verdict']} |")
    met = sum(bar["verdict"] == "met" for bar in record["bars"])
    skipped = sum(bar["verdict"].startswith("SKIP") for bar in record["bars"])
    lines += ["", f"{met} of {len(record['bars'])} bars met, {skipped} skipped.", ""]
    names = {}
    for case in cases:
        for run, figures in results[case.name].items():
            if "failed" in figures:
                lines.append(f"FAILED {case.name}, {run}: {figures['failed']}")
            elif "skipped" in figures:
                names[run] = f"SKIP: {figures['skipped']}"
            else:
                names.setdefault(run, figures["description"])
    if any("SKIP (≈" in line for line in lines):
        lines.append("≈: not measured. Times of another machine, scaled by the ratio of tract or ONNX Runtime between the machines, whichever is faster.")
    lines += ["", *(f"- {run}: {description}" for run, description in sorted(names.items())), ""]
    return "\n".join(lines)
