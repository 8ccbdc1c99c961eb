import pytest

from tfapp.documents import Document, read_document
from tfapp.problems import Position

SOURCE = b"""\
# a comment
version: 1.10
quoted: "1.10"
components:
  - name: ps
    empty:
  - {name: worker}
"""


@pytest.fixture
def document():
    document, problems = read_document("app.yaml", SOURCE, "yaml")
    assert problems == ()
    return document


def test_data_is_plain(document):
    assert document.data == {
        "version": 1.1,
        "quoted": "1.10",
        "components": [{"name": "ps", "empty": None}, {"name": "worker"}],
    }


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ((), (2, 1), (2, 1)),
        (("version",), (2, 1), (2, 10)),
        (("quoted",), (3, 1), (3, 9)),
        (("components",), (4, 1), (5, 3)),
        (("components", 0), (5, 5), (5, 5)),
        (("components", 0, "name"), (5, 5), (5, 11)),
        (("components", 0, "empty"), (6, 5), (6, 11)),
        (("components", 1), (7, 5), (7, 5)),
        (("components", 1, "name"), (7, 6), (7, 12)),
    ],
)
def test_every_key_and_value_has_its_place(document, path, key, value):
    assert document.key_at(path) == Position("app.yaml", *key)
    assert document.at(path) == Position("app.yaml", *value)


def test_a_scalar_keeps_its_source_text(document):
    assert [document.text((key,)) for key in ("version", "quoted")] == ["1.10", "1.10"]
    assert [document.node((key,)).plain for key in ("version", "quoted")] == [True, False]
    assert document.text(("components", 0, "empty")) == ""


@pytest.mark.parametrize(
    "path", [("no",), ("components", 2), ("components", -1), ("components", "name"), ("version", 0)]
)
def test_there_is_no_place_for_what_is_not_there(document, path):
    with pytest.raises(KeyError):
        document.at(path)


def test_a_mapping_has_no_text(document):
    with pytest.raises(KeyError):
        document.text(("components",))


OPTION = Position("--option")


def test_with_value_replaces_one_value_and_its_place(document):
    changed = document.with_value(("version",), "2", OPTION)
    assert changed.data == {**document.data, "version": "2"}
    assert (changed.at(("version",)), changed.key_at(("version",))) == (OPTION, OPTION)
    assert changed.at(("quoted",)) == document.at(("quoted",))
    assert document.data["version"] == 1.1


def test_with_value_makes_the_mappings_on_the_way(document):
    changed = document.with_value(("global", "worker", "a.b"), "x", OPTION)
    assert changed.data == {**document.data, "global": {"worker": {"a.b": "x"}}}
    assert changed.key_at(("global",)) == OPTION


def test_with_value_keeps_the_place_of_a_mapping_it_adds_to():
    document, _ = read_document("f", b"global:\n  a: 1\nempty:\n", "yaml")
    changed = document.with_value(("global", "b"), 2, OPTION).with_value(("empty", "c"), 3, OPTION)
    assert changed.data == {"global": {"a": 1, "b": 2}, "empty": {"c": 3}}
    assert changed.key_at(("global",)) == Position("f", 1, 1)
    assert changed.key_at(("empty",)) == Position("f", 3, 1)


def test_with_value_leaves_what_is_no_mapping_for_the_schema_to_report(document):
    assert document.with_value(("version", "a"), "x", OPTION).data == document.data


def test_python_values_are_a_document_without_lines():
    document = Document.from_value({"a": [1, "x", None, True, 1.5], "b": {}}, "<python>")
    assert document.data == {"a": [1, "x", None, True, 1.5], "b": {}}
    assert document.at(("a", 1)) == document.key_at(("b",)) == Position("<python>")
    assert [document.text(("a", i)) for i in range(5)] == ["1", "x", "null", "true", "1.5"]
    assert [document.node(("a", i)).plain for i in range(2)] == [True, False]


@pytest.mark.parametrize("value", [{1: "a"}, {"a": object()}, {"a": b"bytes"}, [{None: 1}]])
def test_python_values_that_no_file_could_hold_are_refused(value):
    with pytest.raises(TypeError):
        Document.from_value(value, "<python>")
