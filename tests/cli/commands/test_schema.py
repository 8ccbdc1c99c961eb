from __future__ import annotations

import json

import pytest

from tests.cli.commands.call import call
from tfapp.schema import KINDS, describe, schema_text


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_the_schema_itself(tmp_path, kind):
    code, a_shell = call(tmp_path, None, "schema", kind, "--format", "json")
    assert (code, a_shell.out.text) == (0, schema_text(kind))
    assert json.loads(a_shell.out.text)["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_shown(tmp_path, kind, form):
    code, a_shell = call(tmp_path, None, "schema", kind, "--format", form)
    assert code == 0
    for key in describe(kind):
        assert key.key.replace("|", "\\|") in a_shell.out.text or key.key in a_shell.out.text


def test_without_a_kind_all_are_shown(tmp_path):
    _, a_shell = call(tmp_path, None, "schema")
    for key in ("commandOrders", "site.global.run.mode", "yarn.role.priority"):
        assert f"  {key}  (" in a_shell.out.text


def test_json_of_all_is_wrong_usage(tmp_path):
    code, a_shell = call(tmp_path, None, "schema", "--format", "json")
    assert (code, a_shell.out.text) == (2, "")
