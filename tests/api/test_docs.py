"""The examples of the guide and of the docstrings of public names run as they stand."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfapp

ROOT = Path(tfapp.__file__).parents[1]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "shows"),
    [
        ("README.md", "{'worker/0': 'worker/0', 'worker/1': 'worker/1'}\n"),
        ("docs/python-call.md", "{'accuracy': 0.9"),
    ],
)
def test_the_first_example_of_a_page(page, shows, tmp_path):
    (tmp_path / "example.py").write_text(PYTHON.findall((ROOT / page).read_text())[0])
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert shows in done.stdout, done.stderr


PUBLIC = {*tfapp._NAMES.values(), "tfapp.program.reporting", "tfapp.tf_yarn"}


@pytest.mark.parametrize("name", sorted(PUBLIC - {"tfapp.api.mlflow"}))  # that is in test_mlflow.py
def test_the_examples_of_docstrings(name):
    module = importlib.import_module(name)
    names = {"tfapp": tfapp, **vars(module), "__name__": "__main__"}
    done = doctest.testmod(module, extraglobs=names)
    assert (done.failed, done.attempted > 0) == (0, True)


@pytest.mark.parametrize("name", sorted(tfapp._NAMES))
def test_each_public_name_has_an_example(name):
    assert ">>> " in getattr(tfapp, name).__doc__
