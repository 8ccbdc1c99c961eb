import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfapp.documents import read_document
from tfapp.problems import Position


def read(text):
    """(data or None, ["line:col code: message", ...])"""
    document, problems = read_document("f", text.encode(), "json")
    found = [f"{p.position.line}:{p.position.column} {p.code}: {p.message}" for p in problems]
    return document and document.data, found


NOT_JSON = [
    ("", "1:1 syntax: the file is empty, expected a JSON object"),
    ('{"a": 1,}', "1:9 syntax: JSON has no comma before '}'"),
    ("[1,\n]", "2:1 syntax: JSON has no comma before ']'"),
    ('{"a": [1 2]}', "1:10 syntax: expected ',' or ']', found '2'"),
    ('{"a": 1 "b": 2}', "1:9 syntax: expected ',' or '}', found '\"'"),
    ('{"a": {"b": 1}', "1:15 syntax: expected ',' or '}', found the end of the file"),
    ("{'a': 1}", '1:2 syntax: expected a key in double quotes, found "\'"'),
    ("{a: 1}", "1:2 syntax: expected a key in double quotes, found 'a'"),
    ("{,}", "1:2 syntax: expected a key in double quotes, found ','"),
    ('{"a" 1}', "1:6 syntax: expected ':' after the key 'a', found '1'"),
    ('{"a": }', "1:7 syntax: expected a value, found '}'"),
    ('{"a": True}', "1:7 syntax: expected a value, found 'True'"),
    ('{"a": NaN}', "1:7 syntax: expected a value, found 'NaN'"),
    ('{"a": 010}', "1:7 syntax: expected a value, found '010'"),
    ('{"a": 1.}', "1:7 syntax: expected a value, found '1.'"),
    ('{"a": 1 // x\n}', "1:9 syntax: expected ',' or '}', found '/'"),
    ('{"a', "1:2 syntax: the text that begins here is never closed"),
    ('{"a": "x\ny"}', "1:9 syntax: a line break or a tab inside a text"),
    ('{"a": "\\q"}', "1:8 syntax: an unknown escape sequence"),
    ('{"a": 1} x', "1:10 syntax: expected the end of the file, found 'x'"),
    ('{"a": "\\ud800"}', "1:7 encoding: the character U+D800 cannot be used in a value"),
    ("[" * 99, "1:51 too-large: values are nested more than 50 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "finding"), NOT_JSON)
def test_what_cannot_be_read_is_said_at_its_place(text, finding):
    assert read(text) == (None, [finding])


def test_a_duplicate_key_does_not_hide_the_rest():
    assert read('{"a": 1,\n "a": 2, "b": 3}') == (
        {"a": 1, "b": 3},
        ["2:2 duplicate-key: the key 'a' stands here a second time"],
    )


def test_places_and_source_text():
    document, problems = read_document(
        "f", b'{\r\n  "v": 1.10,\r\n  "l": [true, "\xc3\xa9", null]\r\n}', "json"
    )
    assert (document.data, problems) == ({"v": 1.1, "l": [True, "é", None]}, ())
    assert document.at(()) == Position("f", 1, 1)
    assert document.key_at(("v",)) == Position("f", 2, 3)
    assert document.at(("v",)) == Position("f", 2, 8)
    assert document.at(("l", 2)) == Position("f", 3, 20)
    assert (document.text(("v",)), document.node(("v",)).plain) == ("1.10", True)
    assert (document.text(("l", 1)), document.node(("l", 1)).plain) == ("é", False)


def test_a_number_that_is_not_finite_stays_text():
    assert read('{"a": 1e999}') == ({"a": "1e999"}, [])


TEXTS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff")
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20
)


@settings(max_examples=40)  # they are large
@given(st.dictionaries(TEXTS, VALUES), st.sampled_from([None, 2]), st.booleans())
def test_every_json_object_is_read_as_the_standard_library_reads_it(value, indent, ascii_only):
    assert read(json.dumps(value, indent=indent, ensure_ascii=ascii_only)) == (value, [])
