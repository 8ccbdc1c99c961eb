from __future__ import annotations

import pytest

from tfapp.documents import read_document
from tfapp.schema.normalise import normalised
from tfapp.schema.parts import SchemaParts


def normalise(text, schema, syntax="yaml"):
    document, problems = read_document("f", text.encode(), syntax)
    assert problems == ()
    return normalised(document.root, SchemaParts(schema))


TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, MAPPING, LIST = {"type": "boolean"}, {"type": "object"}, {"type": "array"}

SCALARS = [
    ("1.10", TEXT, "1.10"),
    ("true", TEXT, "true"),
    ("0x10", TEXT, "0x10"),
    ("~", TEXT, None),
    ("'2'", INTEGER, 2),
    ("' 2 '", INTEGER, 2),
    ("'0x10'", INTEGER, 16),
    ("2.0", INTEGER, 2),
    ("'2.0'", INTEGER, 2),
    ("2.5", INTEGER, 2.5),
    ("010", INTEGER, "010"),
    ("two", INTEGER, "two"),
    ("'true'", INTEGER, "true"),
    ("'2'", NUMBER, 2),
    ("'2.5'", NUMBER, 2.5),
    ("2", NUMBER, 2),
    ("'true'", BOOLEAN, True),
    ("'False'", BOOLEAN, False),
    ("yes", BOOLEAN, "yes"),
    ("1", BOOLEAN, 1),
    ("'2048'", {"type": ["integer", "string"]}, 2048),
    ("2 GiB", {"type": ["integer", "string"]}, "2 GiB"),
    ("2.5", {"type": ["integer", "string"]}, "2.5"),
    ("2.1", {"const": "2.1"}, "2.1"),
    ("'1'", {"enum": [0, 1]}, 1),
    ("'2'", {"anyOf": [INTEGER, {"const": "max"}]}, 2),
    ("'2'", {"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, 2),
    ("'2'", {"allOf": [INTEGER]}, 2),
    ("1.10", {}, 1.1),
    ("", MAPPING, {}),
    ("", LIST, []),
    ("", {"type": ["object", "null"]}, None),
    ("", INTEGER, None),
]


@pytest.mark.parametrize(("text", "schema", "value"), SCALARS)
def test_scalars(text, schema, value):
    result = normalise(text, schema)
    assert (result, type(result)) == (value, type(value))


def test_each_place_has_the_types_of_its_own_schema():
    schema = {
        "properties": {
            "version": TEXT,
            "counts": {"items": INTEGER},
            "pair": {"prefixItems": [TEXT]},
        },
        "patternProperties": {"^n\\.": NUMBER},
        "additionalProperties": {"type": "object", "additionalProperties": BOOLEAN},
    }
    text = "version: 1.0\ncounts: ['1', 2]\npair: [1.0, 1.0]\nn.a: '3'\nother: {x: 'true'}\n"
    assert normalise(text, schema) == {
        "version": "1.0",
        "counts": [1, 2],
        "pair": ["1.0", 1.0],
        "n.a": 3,
        "other": {"x": True},
    }


def test_json_is_treated_the_same():
    schema = {"properties": {"version": TEXT, "count": INTEGER}}
    assert normalise('{"version": 1.10, "count": "2"}', schema, "json") == {
        "version": "1.10",
        "count": 2,
    }
