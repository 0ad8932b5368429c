"""Measures the arena that TensorFlow Lite Micro uses for the TFLite networks of the zoo, and writes tflm_arena.json.

    pip install tflite-micro==0.dev20261023182759
    python tests/frameworks/tflm_arena.py ../shared/data

The package is for x86-64, where pointers have 64 bits, so a microcontroller uses somewhat less.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ZOO = HERE / "../../tools/cli/zoo.json"
# Allocations are printed by C code, so that a child process does it. Its argument is the file.
CHILD = """
import sys
from tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 20).print_allocations()
"""


def arena(path):
    """Bytes of the arena, or the reason why TensorFlow Lite Micro does not run the model."""
    ran = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=False)
    total = re.search(r"Arena allocation total (\d+) bytes", ran.stdout + ran.stderr)
    if total is None:
        raise SystemExit(f"{path}: {ran.stderr.strip().splitlines()[-1]}")
    return int(total.group(1))


def main():
    data = Path(sys.argv[1])
    found = {}
    for entry in json.loads(ZOO.read_text()):
        # A description stands beside its model.
        model = (data / entry["path"]).with_suffix(".tflite")
        if model.is_file():
            found[entry["name"]] = arena(model)
    (HERE / "tflm_arena.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
