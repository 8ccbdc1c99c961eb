import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp.documents import Document, read_document
from tfapp.documents.decode import MAX_BYTES
from tfapp.problems import Position, Problem

BAD_BYTES = [
    (b"a: 1\nb: \xff\n", Position("f", 2, 4), "byte 0xff is not UTF-8 text"),
    ("é: ".encode() + b"\xc3", Position("f", 1, 4), "byte 0xc3 is not UTF-8 text"),
    (b"\xff\xfea\0", Position("f", 1, 1), "the file is UTF-16 or UTF-32, expected UTF-8"),
    (b"a: 1\r\nb: \0", Position("f", 2, 4), "the control character NUL cannot stand in the file"),
    (b"a: \x1b[0m", Position("f", 1, 4), "the control character U+001B cannot stand in the file"),
]


@pytest.mark.parametrize("syntax", ["yaml", "json"])
@pytest.mark.parametrize(("data", "position", "message"), BAD_BYTES)
def test_bytes_that_are_no_text(data, position, message, syntax):
    document, (problem,) = read_document("f", data, syntax)
    assert (document, problem.position, problem.code, problem.message) == (
        None, position, "encoding", message
    )  # fmt: skip


def test_a_byte_order_mark_is_dropped_and_not_counted():
    document, problems = read_document("f", b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "yaml")
    assert (document.data, problems) == ({"a": 1, "b": 2}, ())
    assert document.key_at(("a",)) == Position("f", 1, 1)
    assert document.at(("b",)) == Position("f", 2, 4)


def test_a_huge_file_is_not_parsed():
    assert read_document("f", b"#" * (MAX_BYTES + 1), "yaml") == (
        None,
        (
            Problem(
                Position("f"),
                "too-large",
                "the file has 1048577 bytes, more than the 1048576 that are read",
                hint="data belongs into the package's files/ folder",
            ),
        ),
    )


YAML_LIKE = st.text(st.sampled_from(list("ab1:-?[]{},&*!|>'\"%@#~<.\\ \n\t\r\0é\ufeff\u2028")))


@pytest.mark.parametrize("syntax", ["yaml", "json"])
@given(data=st.one_of(st.binary(), YAML_LIKE.map(str.encode)))
def test_any_bytes_give_a_document_or_a_problem_inside_the_file(syntax, data):
    document, problems = read_document("f", data, syntax)
    assert isinstance(document, Document) or problems
    lines = max(data.count(b"\n") + data.count(b"\r"), 0) + data.count(b"\xe2\x80\xa8") + 2
    assert all(problem.position.line <= lines for problem in problems)


@given(YAML_LIKE)
def test_every_place_is_inside_the_file(text):
    document, _ = read_document("f", text.encode(), "yaml")
    if document is not None:
        for path in paths(document.data, ()):
            assert document.at(path).line > 0 < document.key_at(path).column


def paths(value, path):
    yield path
    if isinstance(value, dict):
        value = tuple(value.items())
    elif isinstance(value, list):
        value = tuple(enumerate(value))
    else:
        return
    for step, inner in value:
        yield from paths(inner, (*path, step))
