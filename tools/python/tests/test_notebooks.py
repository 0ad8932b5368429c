"""The notebooks run from their first to their last cell."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="no PyTorch")

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "notebooks"


@pytest.mark.parametrize("notebook", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = notebook.read_text()
    assert source.count("# %%") > 4
    exec(compile(source, str(notebook), "exec"), {"__name__": "notebook"})
    print(capsys.readouterr().out)
