"""Every public function has an example, and every example runs. The example of docs/python.md runs too."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import tidegate
import tidegate.score

try:
    import tidegate.torch as training
except ImportError:
    training = None

try:
    import tidegate.keras as keras_training
except ImportError:
    keras_training = None

DOCS = Path(__file__).resolve().parents[3] / "docs" / "python.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """Every public name, and the public methods of the classes; properties are attributes."""
    modules = [module for module in (tidegate, tidegate.score, training, keras_training) if module is not None]
    for module, name in [(module, name) for module in modules for name in module.__all__]:
        item = getattr(module, name)
        if inspect.isclass(item) or callable(item):
            yield f"{module.__name__}.{name}", item
        if inspect.isclass(item):
            for method, value in vars(item).items():
                is_method = callable(value) and not inspect.isclass(value) or isinstance(value, (classmethod, staticmethod))
                if not method.startswith("_") and is_method:
                    yield f"{module.__name__}.{name}.{method}", getattr(item, method)


@pytest.mark.parametrize("name", [name for name, _ in public()])
def test_every_public_function_has_an_example_that_runs(name):
    item = dict(public())[name]
    text = inspect.getdoc(item) or ""
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples, f"{name} has no example"
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed == 0


@pytest.mark.parametrize(
    ("module", "lacks"),
    [(tidegate, ""), (tidegate.score, ""), (training, "no PyTorch"), (keras_training, "no Keras")],
    ids=["tidegate", "score", "torch", "keras"],
)
def test_a_module_has_an_example(module, lacks):
    if module is None:
        pytest.skip(lacks)
    test = doctest.DocTestParser().get_doctest(module.__doc__, {}, "tidegate", None, 0)
    assert test.examples and doctest.DocTestRunner(optionflags=OPTIONS).run(test).failed == 0


def test_the_page_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), scope)
