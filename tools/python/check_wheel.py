"""Checks a built wheel: its size and contents, and that it works on each Python without Rust and is imported quickly.

    python tools/python/check_wheel.py target/wheel/dist/tidegate-*.whl python3.11 python3.12
"""

import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

BYTES = 8_000_000
SECONDS = 0.2
"""For `import tidegate`, NumPy included, without the start of Python: the median of ten processes."""
RUNS = 10
NEEDED = ["tidegate/__init__.py", "tidegate/_native.pyi", "tidegate/py.typed", "licenses/LICENSE-APACHE", "licenses/LICENSE-MIT"]
TIMED = "import time; start = time.perf_counter(); import tidegate; print(time.perf_counter() - start)"
USED = "import tidegate; image = tidegate.example().pack('f32'); print(image.run([[0.0] * 10] * 3).shape, 'ONNX', len(image.to_onnx()))"


def contents(wheel):
    """What is wrong with the size and the files of a wheel."""
    with zipfile.ZipFile(wheel) as file:
        names = sorted(file.namelist())
    print(f"{wheel.name}: {wheel.stat().st_size} bytes\n  " + "\n  ".join(names))
    if wheel.stat().st_size > BYTES:
        yield f"has {wheel.stat().st_size} bytes; at most {BYTES}"
    yield from (f"lacks {name}" for name in NEEDED if not any(found.endswith(name) for found in names))
    libraries = [name for name in names if name.startswith("tidegate/_native.") and not name.endswith(".pyi")]
    if len(libraries) != 1 or "abi3" not in wheel.name:
        yield f"is not one library for the stable ABI: {libraries}"
    folders = {name.split("/")[0] for name in names}
    others = [folder for folder in folders if folder != "tidegate" and not folder.endswith(".dist-info")]
    yield from (f"has the folder {folder}" for folder in others)


def on(python, wheel):
    """What is wrong with a wheel on a Python, in an environment whose PATH has no Rust."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own = Path(folder, "bin", "python")

        def run(*arguments):
            environment = {"PATH": str(own.parent), "HOME": folder, "PYTHONNOUSERSITE": "1"}
            return subprocess.run([own, *arguments], check=True, capture_output=True, text=True, env=environment, cwd=folder).stdout

        subprocess.run([own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy>=1.26"], check=True)
        run("-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", str(wheel.resolve()))
        print(run("-VV").strip(), run("-c", USED).strip())
        seconds = statistics.median(float(run("-c", TIMED)) for _ in range(RUNS))
    print(f"  import: {seconds:.3f} s")
    if not seconds <= SECONDS:
        yield f"takes {seconds:.3f} s to import with {python}; at most {SECONDS}"


def main(wheel, *pythons):
    wheel = Path(wheel)
    wrong = [*contents(wheel), *(reason for python in pythons for reason in on(python, wheel))]
    if wrong or not pythons:
        sys.exit("\n".join(f"{wheel.name} {reason}" for reason in wrong or ["was run by no Python"]))


main(*sys.argv[1:])
