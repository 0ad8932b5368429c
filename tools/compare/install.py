"""Installs the other runtimes in a folder and builds the drivers there. Uses only the standard library."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# With AVX-512 if the machine has it; by default GCC prefers vectors of 256 bits.
CPP = ["-std=c++17", "-O3", "-march=native", "-mprefer-vector-width=512", "-DNDEBUG"]


def run(*command, **more):
    print("+", *map(str, command), flush=True)
    subprocess.run(list(map(str, command)), check=True, **more)


def environment(work):
    """The Python of a virtual environment with the packages of requirements.txt."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", work / "venv")
    stamp, wanted = work / "venv" / "requirements.txt", (HERE / "requirements.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        run(python, "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt")
        stamp.write_text(wanted)
    return python


def drivers(work, cases, rtneural):
    """Builds all drivers. Returns a function from case and run to the command, or None for a missing driver."""
    venv, target = work / "venv", work / "target"
    cargo_environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    for manifest, what in ((HERE / "drivers" / "Cargo.toml", ["--workspace"]), (ROOT / "Cargo.toml", ["--bin", "tidegate"])):
        run("cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest, *what, env=cargo_environment)
    built, lib = target / "release", venv / "lib"
    compiler = os.environ.get("CXX", "c++")
    run(compiler, *CPP, f"-I{venv / 'include'}", HERE / "drivers" / "onednn.cpp", f"-L{lib}", "-ldnnl", f"-Wl,-rpath,{lib}",
        "-o", work / "onednn")
    for case in cases:
        if rtneural and "rtneural" in case.runs:
            flags = [f"-DCELL_{case.cell.upper()}", f"-DSIZE={case.hidden}", "-DRTNEURAL_USE_EIGEN=1",
                     "-DRTNEURAL_DEFAULT_ALIGNMENT=32", "-DEIGEN_STACK_ALLOCATION_LIMIT=0", f"-I{rtneural}", f"-I{rtneural / 'modules' / 'Eigen'}"]
            run(compiler, *CPP, *flags, HERE / "drivers" / "rtneural.cpp", "-o", work / f"rtneural-{case.cell}-{case.hidden}")

    def command(case, what):
        name, _, variant = what.partition(" ")
        program = {
            "tidegate": [built / "compare-tidegate"],
            "tract": [built / "compare-tract"],
            "onnxruntime": [built / "compare-onnxruntime"],
            "openvino": [venv / "bin" / "python", HERE / "drivers" / "openvino_driver.py"],
            "onednn": [work / "onednn"],
            "rtneural": [work / f"rtneural-{case.cell}-{case.hidden}"] if rtneural else None,
        }[name]
        return program and [*map(str, program)], variant or "f32"

    return command, built / "tidegate"
