"""Parts of a value have the very line and column at which they stand, or their value's."""

import pytest

from tfapp.documents import read_document
from tfapp.package.checked import Locator
from tfapp.problems import Position


def placeholders_in(text, syntax="yaml", key="a"):
    document, problems = read_document("f", text.encode(), syntax)
    assert problems == ()
    places = Locator(document, text)
    found = places.placeholders(document.at((key,)), document.text((key,)))
    return [(position.line, position.column) for position in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: ${X}/${Y}\n", [(1, 4), (1, 9)]),
        ("a: '${X}${X}'\n", [(1, 5), (1, 9)]),
        ('a: "é${X}"\n', [(1, 6)]),
        ("a: |\n  ${X}\n  ${Y} ${X}\nb: ${X}\n", [(2, 3), (3, 3), (3, 8)]),
        ("a: >-\r\n  one\r\n  ${X}\r\nb: c\r\n", [(3, 3)]),
        ("b: &b ${X}\na: *b\nc: ${X}\n", [(1, 7)]),
        ('a: "\\u0024{X}"\nb: ${X}\n', [(1, 4)]),
        ("a: none\nb: ${X}\n", []),
    ],
)
def test_placeholders_in_yaml(text, expected):
    assert placeholders_in(text) == expected


def test_placeholders_in_json():
    text = '{"b": "${X}",\n "a": "\\"${X}\\" ${Y}", "c": "${Y}"}'
    assert placeholders_in(text, "json") == [(2, 10), (2, 17)]


def test_a_value_of_the_command_line():
    document, _ = read_document("f", b"a: ${X}\n", "yaml")
    option = Position("--option a")
    document = document.with_value(("a",), "${X}", option)
    places = Locator(document, "a: ${X}\n")
    assert places.placeholders(option, "${X}") == (option,)
