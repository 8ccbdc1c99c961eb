"""The keys of appConfig that tfapp reads: each is spelled as its schema has it, and read as the
type that it has there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.import_graph import ROOT
from tfapp.contract.job import SITE_GLOBAL, Settings
from tfapp.schema import defaults
from tfapp.schema.load import CONFIG, effective_schema
from tfapp.schema.parts import SchemaParts, types

SCHEMA = effective_schema("appConfig")
PARTS = SchemaParts(SCHEMA)
CONFIGURATION = PARTS.of((SCHEMA["$defs"][CONFIG],))
SOURCES = [*ROOT.rglob("*.py"), *(ROOT.parent / "app-packages").rglob("*.py")]
# A whole key, or all of one in a message. Examples that mean keys of the user's own are not.
KEY = re.compile(r"site\.global\.[a-z]+(?:\.[a-z]+)+")


def reads(path: Path) -> Iterator[tuple[str, str]]:
    """(how it is read, key) of each call that reads a setting: `setting(values, "run.mode")`,
    `settings(package, ...)`, `own.settings.names(...)`, `Settings(site).text(...)`, and in a
    script `context.config.get(...)`, `context.words(...)`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function, last = node.func, node.args[-1]
        if isinstance(function, ast.Name) and function.id in ("setting", "settings"):
            how = "text"
        elif isinstance(function, ast.Attribute) and ends_with_settings(function.value):
            how = function.attr
        elif isinstance(function, ast.Attribute) and is_of_a_script(function):
            how, last = "script", node.args[0]
        else:
            continue
        if isinstance(last, ast.Constant) and isinstance(last.value, str):
            yield how, last.value


def ends_with_settings(node: ast.expr) -> bool:
    node = node.func if isinstance(node, ast.Call) else node
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("settings", "Settings")


def is_of_a_script(function: ast.Attribute) -> bool:
    return ast.unparse(function) in ("context.config.get", "context.words")


def test_a_setting_is_read_as_the_schema_declares_it():
    found = {each for path in SOURCES for each in reads(path)}
    assert len(found) > 20
    assert {each: fault for each in found if (fault := wrong(*each))} == {}


def wrong(how: str, key: str) -> str:
    """What the schema has against a key that is read in this way."""
    declared = PARTS.member(CONFIGURATION, SITE_GLOBAL + key)
    if not declared:
        return "it is not in appConfig's schema"
    fits = {
        "flag": types(declared) == {"boolean"},
        "names": any(
            "separated by commas" in part.get("x-tfapp-expected", "") for part in declared
        ),
        "text": "boolean" not in types(declared),
        "script": True,
    }
    return "" if fits.get(how) else f"it is read as {how}"


def test_every_key_that_is_spelled_out_is_in_the_schema():
    spelled = {
        key
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for key in KEY.findall(node.value)
    }
    assert spelled
    assert {key for key in spelled if not PARTS.member(CONFIGURATION, key)} == set()


def test_what_has_neither_value_nor_default_is_empty():
    settings = Settings({})
    assert (settings.text("a.b"), settings.flag("a.b"), settings.names("a.b")) == ("", False, ())


def test_a_flag_and_names():
    settings = Settings({"site.global.a.b": "True", "site.global.a.c": " x ,, y"})
    assert (settings.flag("a.b"), settings.names("a.c")) == (True, ("x", "y"))


def test_defaults_fit_their_types():
    for key, value in defaults("appConfig").items():
        wanted = types(PARTS.member(CONFIGURATION, key))
        kind = {bool: "boolean", int: "integer", float: "number", str: "string"}[type(value)]
        assert wanted & {kind, "number" if kind == "integer" else kind}, key
