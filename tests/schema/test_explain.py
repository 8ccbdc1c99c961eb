"""Each JSON Schema keyword that has a sentence of its own, on small schemas."""

import pytest
from jsonschema import Draft202012Validator

from tfapp.schema.explain import explain, name_of
from tfapp.schema.failure import failure
from tfapp.schema.parts import SchemaParts


def explained(schema, data):
    """(path, at the key or not, code, message, hint) of each finding."""
    parts = SchemaParts(schema)
    errors = Draft202012Validator(schema).iter_errors(data)
    return [tuple(finding) for error in errors for finding in explain(failure(error), parts)]


INTEGER, TEXT = {"type": "integer", "minimum": 1}, {"type": "string"}
POINT = {"type": "object", "required": ["x"], "properties": {"x": INTEGER}}

CASES = {
    "type": (
        {"properties": {"n": INTEGER}}, {"n": "two"},
        [(("n",), False, "wrong-type",
          "n: expected a whole number of at least 1, found 'two'", "")],
    ),
    "null for text": (
        {"properties": {"n": TEXT}}, {"n": None},
        [(("n",), False, "wrong-type", "n: expected text, found nothing",
          "write '' for an empty text, or remove the key")],
    ),
    "enum": (
        {"enum": ["local", "docker"]}, "lokal",
        [((), False, "wrong-value", "the document: expected 'local' or 'docker', found 'lokal'",
          "did you mean 'local'?")],
    ),
    "own words": (
        {"pattern": "^a", "x-tfapp-expected": "an a", "x-tfapp-hint": "write a"}, "b",
        [((), False, "wrong-value", "the document: expected an a, found 'b'", "write a")],
    ),
    "secret": (
        {"pattern": "^a", "x-tfapp-expected": "an a", "x-tfapp-secret": True}, "hunter2",
        [((), False, "wrong-value", "the document: expected an a, found something else", "")],
    ),
    "required": (
        {"items": POINT}, [{"x": 1}, {}],
        [((1,), True, "missing-key", "the key 'x' is missing in item 2 of the document",
          "add 'x': a whole number of at least 1")],
    ),
    "dependentRequired": (
        {"dependentRequired": {"a": ["b"]}}, {"a": 1},
        [(("a",), True, "missing-key", "'a' needs the key 'b' beside it", "add 'b'")],
    ),
    "additionalProperties": (
        {"properties": {"name": {}, "size": {}}, "additionalProperties": False}, {"nam": 1, "z": 2},
        [(("nam",), True, "unknown-key", "unknown key 'nam'", "did you mean 'name'?"),
         (("z",), True, "unknown-key", "unknown key 'z'", "expected 'name' or 'size'")],
    ),
    "unevaluatedProperties": (
        {"allOf": [{"properties": {"name": INTEGER}}], "unevaluatedProperties": False},
        {"name": 0, "z": 2},
        [(("name",), False, "wrong-value",
          "name: expected a whole number of at least 1, found 0", ""),
         (("z",), True, "unknown-key", "unknown key 'z'", "expected 'name'")],
    ),
    "propertyNames": (
        {"propertyNames": {"pattern": "^a", "x-tfapp-expected": "a word with a"}}, {"b": 1},
        [(("b",), True, "wrong-value",
          "the document: expected as a key a word with a, found 'b'", "")],
    ),
    "refused": (
        {"properties": {"a": {"not": {}, "x-tfapp-refused": "no", "x-tfapp-hint": "b"}}}, {"a": 1},
        [(("a",), True, "refused-key", "'a' is refused: no", "b")],
    ),
    "not": (
        {"not": {"const": 1}, "x-tfapp-expected": "anything but 1"}, 1,
        [((), False, "wrong-value", "the document: expected anything but 1, found 1", "")],
    ),
    "uniqueItems": (
        {"uniqueItems": True}, ["a", "b", "a"],
        [((2,), False, "wrong-value", "the document: 'a' stands in the list a second time",
          "keep one of them")],
    ),
    "if/then": (
        {"if": {"properties": {"k": {"const": 1}}}, "then": POINT}, {"k": 1},
        [((), True, "missing-key", "the key 'x' is missing in the document",
          "add 'x': a whole number of at least 1")],
    ),
    "anyOf, a scalar": (
        {"anyOf": [INTEGER, {"const": "max"}]}, "min",
        [((), False, "wrong-value",
          "the document: expected a whole number of at least 1 or 'max', found 'min'", "")],
    ),
    "anyOf, no type fits": (
        {"anyOf": [INTEGER, TEXT]}, [],
        [((), False, "wrong-type",
          "the document: expected a whole number of at least 1 or text, found an empty list", "")],
    ),
    "anyOf, the branch of the right type": (
        {"anyOf": [TEXT, POINT]}, {"x": 0},
        [(("x",), False, "wrong-value", "x: expected a whole number of at least 1, found 0", "")],
    ),
    "oneOf, the deepest branch": (
        {"oneOf": [
            {"required": ["y"], "properties": {"y": TEXT}},
            {"properties": {"p": {"properties": {"q": POINT}}}},
        ]},
        {"p": {"q": {"x": "two"}}},
        [(("p", "q", "x"), False, "wrong-type",
          "x: expected a whole number of at least 1, found 'two'", "")],
    ),
    "oneOf inside anyOf": (
        {"anyOf": [TEXT, {"items": {"oneOf": [INTEGER, POINT]}}]}, [1, {"x": "a"}],
        [((1, "x"), False, "wrong-type",
          "x: expected a whole number of at least 1, found 'a'", "")],
    ),
    "oneOf, several fit": (
        {"oneOf": [INTEGER, {"type": "number"}], "x-tfapp-expected": "one number"}, 2,
        [((), False, "wrong-value", "the document: expected one number, found 2", "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "data", "findings"), CASES.values(), ids=CASES)
def test_keyword(schema, data, findings):
    assert explained(schema, data) == findings


def test_a_key_that_belongs_elsewhere_is_sent_there():
    schema = {
        "additionalProperties": False,
        "properties": {"app": {"properties": {"exports": TEXT, "description": TEXT}}},
    }
    assert [finding[-1] for finding in explained(schema, {"exports": "x"})] == ["it belongs in app"]


def test_names():
    assert name_of(()) == "the document"
    assert name_of(("components", 0)) == "item 1 of components"
    assert name_of(("components", 0, "yarn.memory")) == "yarn.memory"
    assert name_of((2, 1)) == "item 2 of item 3 of the document"
