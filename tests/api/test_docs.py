"""The examples of the guide and of the docstrings of public names run as they stand."""

import doctest
import importlib
import re
import types
from pathlib import Path

import pytest

import tfapp
from tests import programs

ROOT = Path(tfapp.__file__).parents[1]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "shows"),
    [
        ("README.md", "{'worker/0': 'worker/0', 'worker/1': 'worker/1'}\n"),
        ("docs/python-call.md", "{'accuracy': 0.9"),
    ],
)
def test_the_first_example_of_a_page(page, shows, tmp_path):
    (tmp_path / "example.py").write_text(PYTHON.findall((ROOT / page).read_text())[0])
    done = programs.python("example.py", cwd=tmp_path, environ={"PYTHONPATH": str(ROOT)})
    assert shows in done.stdout, done.stderr


def test_the_components_of_the_guide(tmp_path, monkeypatch):
    """docs/python-call.md has a call that needs a cluster: it is compiled."""
    examples = PYTHON.findall((ROOT / "docs" / "python-call.md").read_text())
    (call,) = (code for code in examples if '"ps": tfapp.Component(' in code)
    (tmp_path / "program.py").write_text("def train(context):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = []
    played = types.SimpleNamespace(
        Component=tfapp.Component, run=lambda *given: made.append(tfapp.compile(*given))
    )
    exec(call, {"tfapp": played, "train": importlib.import_module("program").train})
    (specification,) = made
    services = specification.services.items()
    counts = {name: one.instances for name, one in services if one.instances}
    assert counts == {"chief": 1, "worker": 8, "ps": 2, "evaluator": 1}
    assert specification.services["worker"].resources.gpus == 1
    assert specification.services["ps"].node_label == "bigmem"


PUBLIC = {*tfapp._NAMES.values(), "tfapp.program.reporting", "tfapp.tf_yarn"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLIC - {"tfapp.api.mlflow"}))  # that is in test_mlflow.py
def test_the_examples_of_docstrings(name):
    module = importlib.import_module(name)
    names = {"tfapp": tfapp, **vars(module), "__name__": "__main__"}
    done = doctest.testmod(module, extraglobs=names)
    assert (done.failed, done.attempted > 0) == (0, True)


@pytest.mark.parametrize("name", sorted(tfapp._NAMES))
def test_each_public_name_has_an_example(name):
    assert ">>> " in getattr(tfapp, name).__doc__
