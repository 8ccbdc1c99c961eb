"""The YAML parser's complaints, in words that say what to do."""

from __future__ import annotations

import re

import yaml

from tfapp.documents.decode import Unreadable
from tfapp.problems import Position

# What libyaml or PyYAML says -> what is wrong, and what to do about it. The first that matches.
_WORDS = (
    (
        r"mapping values are not allowed",
        "a ':' that cannot begin a value here",
        "quote text that has ': ' in it; a nested key goes on a line of its own, indented",
    ),
    (
        r"unexpected end of stream",
        "the quoted text that begins here is never closed",
        "add the closing quote",
    ),
    (
        r"expected ',' or '\]'",
        "the list that begins here is not closed before the text goes on",
        "add the missing ',' or ']'",
    ),
    (
        r"expected ',' or '\}'",
        "the mapping that begins here is not closed before the text goes on",
        "add the missing ',' or '}'; quote text that holds a brace",
    ),
    (
        r"expected (the )?node content",
        "expected a value",
        "close every '[' and '{', and quote text that begins with a special character",
    ),
    (
        r"could not find expected ':'",
        "a line that is neither 'key: value' nor '- item'",
        "add the ':' and a space after it; indent a text of several lines",
    ),
    (
        r"expected '-' indicator",
        "expected another list item ('- ...'), found something else",
        "give the line the indentation of what it belongs to",
    ),
    (
        r"expected key|expected <block end>|expected '?<document start>",
        "the line fits nothing above it: its indentation, or text after a closing quote or bracket",
        "give keys of one mapping the same indentation, and quote values as a whole",
    ),
    (
        r"unknown escape character",
        "an unknown escape sequence in double quotes",
        "write '\\\\' for a backslash, or use single quotes",
    ),
    (
        r"sequence entries are not allowed",
        "a '-' that cannot begin a list item here",
        "start the list on a line of its own, below its key",
    ),
    (
        r"found undefined tag handle",
        "an undeclared tag",
        "quote text that begins with '!'",
    ),
)  # fmt: skip
_POINT_AT_BEGINNING = re.compile(
    r"unexpected end of stream|expected ',' or|could not find expected ':'"
)


def syntax_error(label: str, text: str, error: yaml.MarkedYAMLError) -> Unreadable:
    """The Problem, as an exception, that tells the parser's `error` to a person."""
    problem = error.problem or error.context or "cannot be parsed"
    mark = error.problem_mark or error.context_mark
    if _POINT_AT_BEGINNING.search(problem) and error.context_mark is not None:
        mark = error.context_mark
    at = Position(label, mark.line + 1, mark.column + 1) if mark else Position(label, 1, 1)
    message, hint = _words(problem, _character(text, at))
    return Unreadable(at, "syntax", message, hint)


def _words(problem: str, character: str) -> tuple[str, str]:
    if "cannot start any token" in problem:
        if character == "\t":
            return "a tab, where YAML wants spaces", "indent with spaces"
        return f"a value cannot begin with '{character}'", "put the value into quotes"
    for pattern, message, hint in _WORDS:
        if re.search(pattern, problem):
            return message, hint
    return f"not YAML: {problem}", ""


def _character(text: str, at: Position) -> str:
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    return line[at.column - 1 : at.column]
