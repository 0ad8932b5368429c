"""The package is strictly typed, and the stub names what Rust exports."""

import subprocess
import sys
from pathlib import Path

import pytest

import tidegate._native

FOLDER = Path(__file__).resolve().parents[1]


def test_the_stub_has_every_name_of_the_module():
    stub = (FOLDER / "package" / "tidegate" / "_native.pyi").read_text()
    for name in dir(tidegate._native):
        if name.startswith("__"):
            continue
        item = getattr(tidegate._native, name)
        assert f"{name}" in stub, name
        for method in vars(item) if isinstance(item, type) else []:
            assert method.startswith("__") or f"def {method}(" in stub or f"{method}:" in stub, f"{name}.{method}"


def test_mypy_accepts_the_package():
    pytest.importorskip("mypy", reason="no mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", str(FOLDER / "pyproject.toml"), str(FOLDER / "package" / "tidegate")]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
