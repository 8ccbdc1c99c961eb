import pytest

from tfapp.schema.expectation import either, expectation, shown

EXPECTATIONS = [
    ({"type": "integer"}, "a whole number"),
    ({"type": "integer", "minimum": 1}, "a whole number of at least 1"),
    ({"type": "integer", "maximum": 9}, "a whole number of at most 9"),
    ({"type": "integer", "minimum": 1, "maximum": 9}, "a whole number from 1 to 9"),
    ({"type": "number", "exclusiveMinimum": 0}, "a number above 0"),
    ({"type": "number", "exclusiveMaximum": 1}, "a number below 1"),
    ({"type": "integer", "multipleOf": 8}, "a whole number that is a multiple of 8"),
    ({"type": "string"}, "text"),
    ({"type": "string", "minLength": 1}, "text that is not empty"),
    ({"type": "string", "minLength": 3}, "text of at least 3 characters"),
    ({"type": "string", "maxLength": 3}, "text of 0 to 3 characters"),
    ({"type": "string", "pattern": "^a"}, "text that matches ^a"),
    ({"type": "boolean"}, "true or false"),
    ({"type": "array"}, "a list"),
    ({"type": "array", "minItems": 2}, "a list of 2 or more"),
    ({"type": "object"}, "a mapping of keys to values"),
    ({"type": ["integer", "string"]}, "a whole number or text"),
    ({"enum": ["local", "docker"]}, "'local' or 'docker'"),
    ({"const": "2.1", "type": "string"}, "'2.1'"),
    ({"const": 1}, "1"),
    ({"type": "string", "x-tfapp-expected": "a name"}, "a name"),
    ({}, "another value"),
]


@pytest.mark.parametrize(("schema", "words"), EXPECTATIONS)
def test_a_schema_in_words(schema, words):
    assert expectation(schema) == words


SHOWN = [
    (None, "nothing"),
    (True, "true"),
    (2, "2"),
    (1.5, "1.5"),
    ("two", "'two'"),
    ("", "an empty text"),
    ("x" * 99, "'" + "x" * 60 + "...'"),
    ([1], "a list"),
    ([], "an empty list"),
    ({"a": 1}, "a mapping of keys to values"),
    ({}, "an empty mapping of keys to values"),
]


@pytest.mark.parametrize(("value", "words"), SHOWN)
def test_a_value_in_words(value, words):
    assert shown(value) == words


def test_either():
    assert [either(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "a", "c"])] == [
        "", "a", "a or b", "a, b or c"
    ]  # fmt: skip
