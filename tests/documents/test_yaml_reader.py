import pytest
import yaml

from tfapp.documents import read_document
from tfapp.documents.decode import MAX_DEPTH


def read(text):
    """(data or None, ["line:col code: message", ...])"""
    document, problems = read_document("f", text.encode(), "yaml")
    found = [f"{p.position.line}:{p.position.column} {p.code}: {p.message}" for p in problems]
    return document and document.data, found


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("--- \na: 1\n...\n", {"a": 1}),
        ("%YAML 1.2\n---\na: 1\n", {"a": 1}),
        ("a: on\nb: 2020-01-01\nc: 010\nd: 12:30\n",
         {"a": "on", "b": "2020-01-01", "c": "010", "d": "12:30"}),
        ("on: 1\n2: x\ntrue: y\n1.10: z\n", {"on": 1, "2": "x", "true": "y", "1.10": "z"}),
        ("a: 'x'\nb: |\n  two\n  lines\nc: >\n  folded\n  text\n",
         {"a": "x", "b": "two\nlines\n", "c": "folded text\n"}),
        ("a: &x {b: 1}\nc: *x\nd: [*x, *x]\n",
         {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}, {"b": 1}]}),
        ("a: &x 1\na2: &x 2\nb: *x\n", {"a": 1, "a2": 2, "b": 2}),
        ("a:\r\n  - b\r\n  - c\r\n", {"a": ["b", "c"]}),
        ('a: "\\u00e9 \\x41"\n', {"a": "é A"}),
        ("'<<': 1\n", {"<<": 1}),
    ],
)  # fmt: skip
def test_yaml_that_is_right(text, data):
    assert read(text) == (data, [])


NOT_CLOSED = "that begins here is not closed before the text goes on"

NOT_YAML = [
    ("a: b: c\n", "1:5 syntax: a second ': ' after 'a: '"),
    ("a:\n\t- b\n", "2:1 syntax: a tab, where YAML wants spaces"),
    ("a: [1, 2\nb: 3\n", f"1:4 syntax: the list {NOT_CLOSED}"),
    ("a: {b: 1\n", f"1:4 syntax: the mapping {NOT_CLOSED}"),
    ("a: 'x\n", "1:4 syntax: the quoted text that begins here is never closed"),
    ("a: @x\n", "1:4 syntax: a value cannot begin with '@'"),
    ("- a\nb: 1\n", "2:1 syntax: expected another list item ('- ...'), found something else"),
    ('a: "\\q"\n', "1:5 syntax: an unknown escape sequence in double quotes"),
    ("a: x\nbad\n", "2:1 syntax: a line that is neither 'key: value' nor '- item'"),
    ("é: 'y' x\n", "1:8 syntax: expected the end of the line after ', found 'x'"),
    ("é: [\n", "2:1 syntax: expected a value"),
    ("a: - b\n", "1:4 syntax: a '-' that cannot begin a list item here"),
    ("a: !e!x b\n", "1:4 syntax: an undeclared tag"),
    ("a: *x\n", "1:4 unsupported-yaml: the alias *x names no anchor above it"),
    ("a: &x [*x]\n", "1:8 unsupported-yaml: the alias *x stands inside the value that it names"),
    ('a: "\\0"\n', "1:4 encoding: the character U+0000 cannot be used in a value"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "finding"), NOT_YAML)
def test_what_cannot_be_read_is_said_at_its_place(text, finding):
    assert read(text) == (None, [finding])


BESIDE_A_DOCUMENT = [
    ("a: 1\nb: 2\na: 3\na: 4\n", {"a": 1, "b": 2},
     ["3:1 duplicate-key: the key 'a' stands here a second time",
      "4:1 duplicate-key: the key 'a' stands here a second time"]),
    ("a: 1\n'a': 2\n", {"a": 1}, ["2:1 duplicate-key: the key 'a' stands here a second time"]),
    ("a: !!python/name:os x\n", {"a": "x"},
     ["1:4 unsupported-yaml: the tag tag:yaml.org,2002:python/name:os has no meaning here"]),
    ("<<: {a: 1}\nb: 2\n", {"b": 2},
     ["1:1 unsupported-yaml: the merge key '<<' is not part of YAML 1.2"]),
    ("? [x]\n: y\n~: z\n", {},
     ["1:3 unsupported-yaml: expected text as a key, found a list or a mapping",
      "3:1 unsupported-yaml: expected text as a key, found nothing"]),
    ("a: 1\n---\nb: 2\n", {"a": 1},
     ["2:1 unsupported-yaml: a second document begins here, expected one in a file"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "data", "findings"), BESIDE_A_DOCUMENT)
def test_findings_that_do_not_hide_the_rest(text, data, findings):
    assert read(text) == (data, findings)


DEEP = {
    "brackets": "[" * 900,
    "braces": "{a: " * 3000,
    "items": "\n".join(" " * n + "- " for n in range(600)),
    "keys": "\n".join(" " * n + "a:" for n in range(600)),
}
PLACES = {"brackets": "1:51", "braces": "1:198", "items": "51:51", "keys": "50:50"}


@pytest.mark.parametrize("kind", DEEP)
def test_depth_is_bounded(kind):
    assert read(DEEP[kind]) == (
        None,
        [f"{PLACES[kind]} too-large: values are nested more than {MAX_DEPTH} deep"],
    )


def test_depth_that_the_parser_itself_refuses():
    """libyaml reads 1,024 characters ahead, and from 0.2.6 on takes no more than 1,000 levels."""
    data, (finding,) = read("[" * 3000)
    place, message = finding.split(" ", 1)
    assert (data, message) == (None, f"too-large: values are nested more than {MAX_DEPTH} deep")
    assert place in ("1:51", "1:1001")


def test_depth_is_bounded_with_aliases_followed():
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [[[[[*a{n - 1}]]]]]" for n in range(1, 20)]
    data, findings = read("\n".join(lines))
    assert (data, findings) == (
        None, [f"11:16 too-large: values are nested more than {MAX_DEPTH} deep"]
    )  # fmt: skip


def test_size_is_bounded_with_aliases_followed():
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    data, findings = read("\n".join(lines))
    assert (data, [finding.split(" ", 1)[1] for finding in findings]) == (
        None, ["too-large: the document has more than 50000 keys and values, its aliases followed"]
    )  # fmt: skip


@pytest.fixture
def pure_python_parser(monkeypatch):
    """As on a machine whose PyYAML is built without libyaml."""
    monkeypatch.setattr("tfapp.documents.yaml_reader._Loader", yaml.SafeLoader)


@pytest.mark.parametrize(("text", "data", "findings"), BESIDE_A_DOCUMENT)
def test_the_pure_python_parser_finds_the_same(pure_python_parser, text, data, findings):
    assert read(text) == (data, findings)


@pytest.mark.parametrize(("text", "finding"), NOT_YAML)
def test_the_pure_python_parser_stops_at_the_same_line(pure_python_parser, text, finding):
    data, (found,) = read(text)
    line, code = finding.split(":")[0], finding.split(" ")[1]
    assert (data, found.split(":")[0], found.split(" ")[1]) == (None, line, code)
