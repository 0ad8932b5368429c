"""The notebooks run from their first to their last cell."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NEEDS = {"gestures": "torch", "scoring": "pyarrow", "spotter": "torch"}
LACKS = {"torch": "no PyTorch", "pyarrow": "no pyarrow"}


@pytest.mark.parametrize("notebook", sorted((ROOT / "docs" / "notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch, capsys):
    pytest.importorskip(NEEDS[notebook.stem], reason=LACKS[NEEDS[notebook.stem]])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_REPOSITORY", str(ROOT))
    source = notebook.read_text()
    assert source.count("# %%") > 4
    exec(compile(source, str(notebook), "exec"), {"__name__": "notebook"})
    print(capsys.readouterr().out)
