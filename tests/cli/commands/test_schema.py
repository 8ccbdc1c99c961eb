import json

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import Output
from tfapp.schema import KINDS, describe, schema_text


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_the_schema_itself(tmp_path, kind):
    code, a_shell = call(tmp_path, None, "schema", kind, "--format", "json")
    assert (code, a_shell.out.text) == (0, schema_text(kind))
    assert json.loads(a_shell.out.text)["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_shown(tmp_path, kind, form):
    shown = {}
    for flags in ((), ("--without-effect",)):
        code, a_shell = call(tmp_path, None, "schema", kind, "--format", form, *flags)
        assert code == 0
        shown[bool(flags)] = a_shell.out.text
    for key in describe(kind):
        name = key.key.replace("|", "\\|") if form == "markdown" else key.key
        assert name in shown[bool(key.status)]


def test_without_a_kind_all_are_shown(tmp_path):
    _, a_shell = call(tmp_path, None, "schema")
    for key in ("commandOrders", "site.global.run.mode", "yarn.role.priority"):
        assert f"  {key}  (" in a_shell.out.text


def test_descriptions_fit_a_narrow_terminal(tmp_path):
    narrow = {"out": Output(terminal=True), "environ": {"COLUMNS": "50"}}
    _, a_shell = call(tmp_path, None, "schema", "run.mode", **narrow)
    description = [line for line in a_shell.out.text.splitlines() if line.startswith("    ")]
    assert len(description) > 9 and max(map(len, description)) <= 50


def test_json_of_all_is_wrong_usage(tmp_path):
    code, a_shell = call(tmp_path, None, "schema", "--format", "json")
    assert (code, a_shell.out.text) == (2, "")


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("yarn.memory", ["resources: components.", "  yarn.memory  (a whole number of MiB"]),
        ("gang.timeout", ["  site.global.gang.timeout  (", "default"]),
        ("site.global.kubernetes", ["  site.global.kubernetes.volumes  ("]),
    ],
)
def test_keys_that_are_meant(tmp_path, what, shown):
    code, a_shell = call(tmp_path, None, "schema", what)
    assert code == 0
    assert [text for text in shown if text not in a_shell.out.text] == []
    keys = [line for line in a_shell.out.text.splitlines() if line[:3].strip() and line[:2] == "  "]
    assert keys and all(what in key for key in keys)


def test_a_key_that_there_is_none_of(tmp_path):
    code, a_shell = call(tmp_path, None, "schema", "yarn.memroy")
    assert (code, a_shell.err.text) == (
        44,
        "error: there is no key yarn.memroy\n  Did you mean yarn.memory?\n",
    )
