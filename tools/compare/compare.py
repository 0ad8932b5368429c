#!/usr/bin/env python3
"""Benchmarks Tidegate beside other runtimes, and compares the results with bars. See README.md in this folder."""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import install

HERE = Path(__file__).resolve().parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="folder for the virtual environment, builds and cases (about 2 GB)")
    parser.add_argument("--quick", action="store_true", help="run one small case of each kind for some seconds, without bars")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="run only cases whose names start with a PREFIX, as in stream-lstm w1")
    parser.add_argument("--rtneural", type=Path, metavar="DIR", help="source folder of RTNeural with its submodules [default: skip RTNeural]")
    parser.add_argument("--onednn", type=Path, metavar="DIR", help="installed oneDNN (include and lib) [default: the newest package]")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the test data, with deployed/ [default: skip networks from their authors]")
    parser.add_argument("--isa", choices=list(install.FLAGS), default="native", help="instruction set that the runtimes are held to [default: the best of the machine]")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="core that all drivers are pinned to")
    parser.add_argument("--seconds", type=float, default=10, help="time per case; extended until each driver has 20 quiet turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file to write all figures to")
    parser.add_argument("--record", action="store_true", help="write results/DATE-CPU.md and .json beside this file")
    return parser.parse_args()


def main():
    given = arguments()
    given.work.mkdir(parents=True, exist_ok=True)
    python = install.environment(given.work.resolve())
    if Path(sys.prefix).resolve() != (given.work / "venv").resolve():
        os.execv(python, [str(python), __file__, *sys.argv[1:]])

    # This process has the packages of requirements.txt.
    import export
    import measure
    import networks
    import report
    import workloads

    every = (workloads.QUICK if given.quick else workloads.CASES)[given.isa]
    cases = [case for case in every if case.name.startswith(tuple(given.only)) and (given.data or not case.file)]
    if not cases:
        raise SystemExit(f"no case starts with that prefix, or it needs --data; the cases are {', '.join(case.name for case in every)}")
    command, tidegate = install.drivers(given.work.resolve(), cases, given.rtneural and given.rtneural.resolve(),
                                         given.onednn and given.onednn.resolve(), given.isa)
    library = next((given.work.resolve() / "venv").glob("lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*"))
    seconds, turn = (0.2, 0.005) if given.quick else (given.seconds, 0.05)
    git = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    now = datetime.datetime.now(datetime.timezone.utc)
    probe = measure.Probe()
    record = {"date": now.date().isoformat(), "commit": git, "machine": measure.machine(), "isa": given.isa, "results": {}}
    for case in cases:
        print(f"{case.name} ...", file=sys.stderr, flush=True)
        network = networks.Deployed(case, given.data.resolve()) if case.file else networks.Network(case)
        folder = given.work.resolve() / "cases" / case.name
        try:
            export.write(network, folder, tidegate)
        except RuntimeError as error:
            # The other cases still run.
            record["results"][case.name] = {run: {"failed": str(error)} for run in case.runs}
            continue
        want = network.outputs()
        record["results"][case.name] = measure.case(case, folder, want, command, library, given.core, seconds, turn, probe,
                                                    install.HELD[given.isa])
    record["bars"] = report.bars(cases, record["results"], given.isa)
    turns = report.turns(record["results"])
    page, figures = report.markdown(record, cases), json.dumps(record, indent=1) + "\n"
    print(page)
    if given.json:
        given.json.write_text(figures)
    if given.record:
        (HERE / "results").mkdir(exist_ok=True)
        cpu = "-".join(record["machine"]["cpu"].replace("(R)", "").lower().split()) + f"-{record['machine']['model']}"
        cpu += "" if given.isa == "native" else f"-{given.isa}"
        for suffix, text in ((".md", page), (".json", figures), ("-turns.csv", turns)):
            (HERE / "results" / f"{record['date']}-{cpu}{suffix}").write_text(text)
        print("The table of docs/hosts.md shows the newest record. Write it again:\n"
              "TIDEGATE_OVERWRITE_DOCS=1 cargo test --release -p tidegate-tests --test repository docs::tables")
    # Only wrong results and failed drivers count as a failure, not slow times.
    runs = [figures for results in record["results"].values() for figures in results.values()]
    return any("failed" in run or run.get("right") is False for run in runs)


if __name__ == "__main__":
    sys.exit(main())
