"""The public names: what `import tfapp` has, and that type checkers see the same."""

import ast
import dataclasses
import inspect
import pydoc
import re
from pathlib import Path

import pytest

import tfapp
from tests import programs
from tfapp.api.arguments import Arguments, Call, made_call

STUB = Path(tfapp.__file__).with_suffix(".pyi")


def test_type_checkers_see_the_public_names():
    found = {
        alias.asname: node.module
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert found == {**tfapp._NAMES, "errors": "tfapp"}
    assert sorted(found) == sorted(tfapp.__all__)


def test_help_shows_the_public_names():
    text = pydoc.plain(pydoc.render_doc(tfapp))
    assert set(tfapp.__all__) <= set(dir(tfapp))
    for line in (
        r"    class Component\(",
        r"    run\(\s*program: 'object' = None",  # on a line of its own from Python 3.13 on
        r"    class Application\(",
    ):
        assert re.search(f"\n{line}", text)


@pytest.mark.parametrize("name", sorted(tfapp.__all__))
def test_a_public_name_is_there_and_says_what_it_is(name):
    assert inspect.getdoc(getattr(tfapp, name))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        tfapp.runn  # noqa: B018


def test_importing_tfapp_loads_nothing_of_it():
    code = "import sys; before = set(sys.modules); import tfapp; print(set(sys.modules) - before)"
    program = f"import sys; sys.path.insert(0, '.'); {code}"
    root = Path(tfapp.__file__).parents[1]
    assert programs.printed("-I", "-c", program, cwd=root).strip() == "{'tfapp'}"


def test_the_arguments_of_a_call_are_listed_once_for_all_who_read_them():
    fields = {field.name: field.type for field in dataclasses.fields(Call)}
    by_name = {k: v for k, v in fields.items() if k not in ("program", "components")}
    assert Arguments.__annotations__.keys() == by_name.keys()
    for name, annotation in Arguments.__annotations__.items():
        assert annotation.__forward_arg__ == by_name[name]
    for function in (tfapp.run, tfapp.submit, tfapp.compile, tfapp.write_package):
        assert fields.keys() <= inspect.signature(function).parameters.keys()
        assert "more" not in inspect.signature(function).parameters


def test_every_argument_is_explained():
    text = inspect.getdoc(tfapp.run)
    for name in inspect.signature(tfapp.run).parameters:
        assert f"`{name}`" in text


def test_a_wrong_argument_is_met_with_the_right_one():
    with pytest.raises(TypeError, match="no argument 'enigne'; did you mean engine?"):
        made_call(None, None, {"enigne": "yarn"})
