import pytest

from tfapp.schema.parts import SchemaParts, types

SCHEMA = {
    "properties": {
        "a": {"$ref": "#/$defs/a~1b"},
        "list": {"prefixItems": [{"const": 1}], "items": {"type": "string"}},
        "gone": {"not": {}, "x-tfapp-refused": "no"},
        "old": {"x-tfapp-ignored": "no"},
    },
    "patternProperties": {"^env\\.": {"type": "string"}},
    "additionalProperties": {"type": "boolean"},
    "allOf": [{"properties": {"a": {"minimum": 2}}}],
    "$defs": {
        "a/b": {"type": "integer", "anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}]},
        "loop": {"$ref": "#/$defs/loop"},
    },
}


@pytest.fixture
def schema():
    return SchemaParts(SCHEMA)


def test_types_are_found_through_references_and_branches(schema):
    assert types(schema.at(("a",))) == {"integer", "null"}
    assert types(schema.at(("list", 0))) == {"integer"}
    assert types(schema.at(("list", 7))) == {"string"}
    assert types(schema.at(("env.X",))) == {"string"}
    assert types(schema.at(("other",))) == {"boolean"}
    assert types(schema.at(("list", 0, "deeper"))) == frozenset()


def test_all_parts_of_a_key_are_found(schema):
    assert {"minimum": 2} in schema.at(("a",))


def test_working_keys_are_neither_refused_nor_ignored(schema):
    assert schema.working_keys(schema.whole()) == ("a", "list")


def test_a_reference_to_nothing_is_an_error(schema):
    with pytest.raises(KeyError):
        schema.resolve("#/$defs/nothing")
