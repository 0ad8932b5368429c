"""Installs the other runtimes in a folder and builds the drivers there. Uses only the standard library."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HAS_AVX512 = "avx512f" in Path("/proc/cpuinfo").read_text()
# The instruction sets of `--isa`: how C++ is compiled for them, and the environment that holds runtimes to them. By default,
# GCC prefers vectors of 256 bits to those of AVX-512. Haswell is the first CPU with AVX2.
FLAGS = {"native": ["-march=native", "-mprefer-vector-width=512"], "avx2": ["-march=haswell"]}
HELD = {"native": {}, "avx2": {"TIDEGATE_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}}


def cpp(isa):
    return ["-std=c++17", "-O3", *FLAGS[isa], "-DNDEBUG"]


def backends(isa):
    """RTNeural's README recommends to measure XSIMD too, which may be faster for small networks. Its vectors are aligned to
    their own size."""
    alignment = 64 if HAS_AVX512 and isa == "native" else 32
    return {
        "eigen": ["-DRTNEURAL_USE_EIGEN=1", "-DRTNEURAL_DEFAULT_ALIGNMENT=32", "-DEIGEN_STACK_ALLOCATION_LIMIT=0"],
        "xsimd": ["-DRTNEURAL_USE_XSIMD=1", f"-DRTNEURAL_DEFAULT_ALIGNMENT={alignment}"],
    }


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


def described(rtneural, compiler, backend, isa):
    """The commit of RTNeural, its backend, and how its driver is compiled."""
    asked = lambda *command: subprocess.run(list(map(str, command)), capture_output=True, text=True).stdout.splitlines()
    commit = asked("git", "-C", rtneural, "rev-parse", "--short", "HEAD") or ["of an unknown commit"]
    version = asked(compiler, "--version") or [compiler]
    return f"RTNeural {commit[0]}, sizes known at compile time, {backend}, {version[0]}, {' '.join(cpp(isa))}"


def drivers(work, cases, rtneural, onednn, isa):
    """Builds all drivers. Returns a function from case and run to the command, its variant, and why there is no command."""
    venv, target = work / "venv", work / "target"
    cargo_environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    for manifest, what in ((HERE / "drivers" / "Cargo.toml", ["--workspace"]), (ROOT / "Cargo.toml", ["--bin", "tidegate"])):
        run("cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest, *what, env=cargo_environment)
    onednn = onednn or venv
    built, lib = target / "release", onednn / "lib"
    compiler = os.environ.get("CXX", "c++")
    native = work / isa
    native.mkdir(exist_ok=True)
    run(compiler, *cpp(isa), f"-I{onednn / 'include'}", HERE / "drivers" / "onednn.cpp", f"-L{lib}", "-ldnnl", f"-Wl,-rpath,{lib}",
        "-o", native / "onednn")
    run(compiler, *cpp(isa), HERE / "drivers" / "floor.cpp", "-o", native / "floor")
    for case in cases:
        for backend, more in backends(isa).items() if rtneural and "rtneural" in case.runs else ():
            flags = [f"-DCELL_{case.cell.upper()}", f"-DSIZE={case.hidden}", *more, f"-I{rtneural}",
                     *(f"-I{rtneural / 'modules' / folder}" for folder in ("Eigen", "xsimd/include")),
                     f'-DDESCRIPTION="{described(rtneural, compiler, backend, isa)}"']
            run(compiler, *cpp(isa), *flags, HERE / "drivers" / "rtneural.cpp", "-o", native / f"rtneural-{backend}-{case.cell}-{case.hidden}")

    # These choose the instruction set themselves.
    free = isa != "native" and HAS_AVX512

    def command(case, what):
        name, _, variant = what.partition(" ")
        if free and name in ("tract", "onnxruntime", "openvino"):
            return None, variant, "not comparable here: it would use AVX-512"
        program = {
            "tidegate": [built / "compare-tidegate"],
            "tract": [built / "compare-tract"],
            "onnxruntime": [built / "compare-onnxruntime"],
            "openvino": [venv / "bin" / "python", HERE / "drivers" / "openvino_driver.py"],
            "onednn": [native / "onednn"],
            "floor": [native / "floor"],
            "rtneural": [native / f"rtneural-{variant or 'eigen'}-{case.cell}-{case.hidden}"] if rtneural else None,
        }[name]
        return program and [*map(str, program)], variant or "f32", "no source folder was given"

    return command, built / "tidegate"
