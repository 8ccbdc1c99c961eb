"""The interpreter of each component is asked, before submission, for all that its program needs."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

import tfapp
from tfapp.errors import InvalidPackageError

EXECUTABLE = "site.global.python.executable"


@pytest.fixture
def interpreter(tmp_path):
    """Makes an interpreter that gives one answer and keeps what it was asked."""

    def make(name: str, version: tuple[int, int, int] = sys.version_info[:3], lacking=()) -> str:
        answer = json.dumps({"version": version, "lacking": lacking, "syntax": None})
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ncat > {path}.asked\necho '{answer}'\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own."""
    (tmp_path / "vines.py").write_text(
        "import sklearn.linear_model\n\ndef train():\n    import yaml\n\ndef other():\n"
        "    import colour\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    yield
    sys.modules.pop("vines", None)


def problems(program, components) -> list[tuple[str, str, str]]:
    """(place, message, hint) of all that stands in the way."""
    with pytest.raises(InvalidPackageError) as caught:
        tfapp.submit(program, components, show=False)
    return [(str(one.position), one.message, one.hint) for one in caught.value.problems]


def asked(interpreter: str) -> list[str]:
    with open(f"{interpreter}.asked") as file:
        return json.load(file)["modules"]


def test_what_an_interpreter_lacks_is_told_with_the_import(interpreter, own, tfapp_home, capfd):
    mine = interpreter("mine", lacking=["sklearn", "colour"])
    found = problems("vines:train", {"worker": tfapp.Component(python=mine)})
    hint = "install it there, or ship it with --files"
    add = "add {} to packages (site.global.python.packages), "
    assert found == [
        (
            "vines.py:1:1",
            f"the program imports sklearn, which {mine} does not have",
            add.format("scikit-learn") + hint,
        ),
        (
            "vines.py:7:5",
            f"the program imports colour, which {mine} does not have",
            add.format("colour") + hint,
        ),
    ]
    assert set(asked(mine)) == {"sklearn", "sklearn.linear_model", "yaml", "colour"}
    assert not any((tfapp_home / "local").glob("*/*"))


@pytest.mark.slow
def test_what_a_function_imports_that_need_not_be_called_is_only_noted(own, tfapp_home, capfd):
    def train():
        import vines  # noqa: F401

    result = tfapp.run(train, {"worker": tfapp.Component()}, name="noted")
    assert result.state == "SUCCEEDED"
    noted = [line for line in capfd.readouterr().err.splitlines() if "warning" in line]
    assert noted == [
        "vines.py:7:5: warning: the program imports colour, which "
        f"{sys.executable} does not have [missing-module]"
    ]


def test_each_component_is_asked_for_its_own_program(interpreter, own, tfapp_home):
    def train():
        import yaml  # noqa: F401

    first, second = interpreter("first"), interpreter("second", lacking=["yaml"])
    found = problems(
        train,
        {
            "chief": tfapp.Component(python=first, program="vines:other"),
            "worker": tfapp.Component(python=second),
        },
    )
    assert [message for _, message, _ in found] == [
        f"the program imports yaml, which {second} does not have"
    ]
    assert set(asked(first)) == {"sklearn", "sklearn.linear_model", "colour", "yaml"}
    assert set(asked(second)) == {"yaml"}


def test_a_variable_that_needs_a_module_is_named(interpreter, tfapp_home):
    import yaml

    token = yaml.DocumentEndToken(None, None)
    names = {"__name__": "__main__", "token": token}
    exec(compile("def train():\n    return token\n", "cell.py", "exec"), names)
    mine = interpreter("mine", lacking=["yaml"])
    ((place, message, _),) = problems(names["train"], {"worker": tfapp.Component(python=mine)})
    assert (place, message) == ("cell.py:2:1", f"`token` needs yaml, which {mine} does not have")


def test_another_version_of_python_cannot_read_a_pickle(interpreter, own, tfapp_home):
    other = interpreter("other", version=(3, 8, 1))
    here = ".".join(map(str, sys.version_info[:2]))
    components = {"worker": tfapp.Component(python=other)}
    ((place, message, hint),) = problems(lambda: 1, components)
    assert place == "components['worker'].python"
    assert message == (
        f"the function of worker was pickled by Python {here}, and {other} is Python 3.8.1, "
        "which reads other bytecode"
    )
    assert hint == (
        f"use Python {here} there or 3.8 here, or name the function by its module: "
        "'module:function'"
    )


def test_a_function_by_name_has_no_version(interpreter, own, tfapp_home):
    other = interpreter("other", version=(3, 8, 1), lacking=["sklearn"])
    found = problems("vines:train", {"worker": tfapp.Component(python=other)})
    assert [place for place, _, _ in found] == ["vines.py:1:1"]
