"""Converts errors of the YAML parser into messages that say what to do.

The parser reports where it stopped; the mistake is often in an earlier line. `syntax_error`
therefore examines the lines with each function of `_LOOKS` before it uses the message of the
parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import yaml

from tfapp.documents.decode import MAX_DEPTH, Unreadable, name_of, position_of_invisible
from tfapp.problems import Position

# Message of libyaml or PyYAML -> message and hint of the Problem. The first that matches.
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
        r"tab character",
        "a tab, where YAML wants spaces",
        "indent with spaces",
    ),
    (
        r"found undefined tag handle",
        "an undeclared tag",
        "quote text that begins with '!'",
    ),
)  # fmt: skip
_PASTED = "type the spaces anew; pasted text often holds such characters"
_POINT_AT_BEGINNING = re.compile(
    r"unexpected end of stream|expected ',' or|could not find expected ':'|"
    r"alphabetic or numeric character"
)
NEWLINE = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_KEY = r"[A-Za-z_$][\w.$-]*"
_OTHER_COMMENT = re.compile(r"\s*(//|/\*)")
_SECTION = re.compile(r"\s*\[([\w.]+)\]\s*\Z")
_EQUALS = re.compile(rf"\s*({_KEY})\s*=\s*(\S.*)\Z")
_NO_SPACE = re.compile(rf"\s*({_KEY}?):(\S.*)\Z")
_NO_DASH_SPACE = re.compile(r"\s*-([A-Za-z_]\S*: .*)\Z")
_KEY_WITH_TEXT = re.compile(rf"\s*(?:- +)*({_KEY}): +[^\s#|>&\[{{].*\Z")
_VALUE_ON_LINE = re.compile(rf"\s*(?:- +)*({_KEY}):[ \t]+(.+?)\s*\Z")


class _Case(NamedTuple):
    """An error of the parser: the lines of the file, the range of the error (lines and columns from
    0), the message, and the last part that was parsed."""

    lines: list[str]
    first: int  # the line at which what it could not read begins
    line: int
    column: int
    problem: str
    last: yaml.Event | None

    @property
    def text(self) -> str:
        return self.lines[self.line] if self.line < len(self.lines) else ""

    def indentation(self, line: int) -> int:
        """The number of spaces before the text of a line."""
        return len(self.lines[line]) - len(self.lines[line].lstrip(" "))

    def above(self) -> list[int]:
        """The non-empty lines above, the nearest first."""
        above = range(min(self.line, len(self.lines)) - 1, -1, -1)
        return [n for n in above if self.lines[n].strip() and self.lines[n].lstrip()[0] != "#"]

    def begins_the_line(self) -> bool:
        """Whether the error is at the first character of its line."""
        return not self.text[: self.column].strip()


Look = Callable[[_Case], "tuple[int, int, str, str] | None"]  # line, column, message, hint


def syntax_error(
    label: str, text: str, error: yaml.MarkedYAMLError, last: yaml.Event | None
) -> Unreadable:
    """The Problem, as an exception, for the parser's `error`. `last`: the last part that was
    parsed."""
    problem = error.problem or error.context or "cannot be parsed"
    mark = error.problem_mark or error.context_mark
    begin = error.context_mark or mark
    lines = NEWLINE.split(text)
    if mark is not None and "maximum nesting depth" in problem:
        return too_deep(Position(label, mark.line + 1, mark.column + 1))
    if mark is not None and begin is not None:
        first = min(begin.line, mark.line)
        case = _Case(lines, first, mark.line, mark.column, problem, last)
        for look in _LOOKS:
            if found := look(case):
                line, column, message, hint = found
                return Unreadable(Position(label, line + 1, column + 1), "syntax", message, hint)
    if _POINT_AT_BEGINNING.search(problem) and error.context_mark is not None:
        mark = error.context_mark
    at = Position(label, mark.line + 1, mark.column + 1) if mark else Position(label, 1, 1)
    message, hint = _words(problem, _character(lines, at))
    return Unreadable(at, "syntax", message, hint)


def too_deep(at: Position) -> Unreadable:
    """The Problem, as an exception, for nesting beyond MAX_DEPTH. libyaml has a limit of its own
    and may reach it first, because it reads ahead."""
    return Unreadable(at, "too-large", f"values are nested more than {MAX_DEPTH} deep")


def _words(problem: str, character: str) -> tuple[str, str]:
    if "cannot start any token" in problem or "alphabetic or numeric" in problem:
        if character == "\t":
            return "a tab, where YAML wants spaces", "indent with spaces"
        return f"a value cannot begin with '{character}'", "put the value into quotes"
    for pattern, message, hint in _WORDS:
        if re.search(pattern, problem):
            return message, hint
    return f"not YAML: {problem}", ""


def _character(lines: list[str], at: Position) -> str:
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    return line[at.column - 1 : at.column]


def _invisible(case: _Case) -> tuple[int, int, str, str] | None:
    for number in range(case.first, min(case.line + 1, len(case.lines))):
        column = position_of_invisible(case.lines[number])
        if column >= 0:
            message = f"{name_of(case.lines[number][column])}, where YAML wants a space"
            return number, column, message, _PASTED
    return None


def _unclosed_quote(case: _Case) -> tuple[int, int, str, str] | None:
    """An unclosed quote that ends at the next quote, some lines below, so that the text after it is
    invalid."""
    last = case.last
    if not isinstance(last, yaml.ScalarEvent) or last.style not in ("'", '"'):
        return None
    begin, end = last.start_mark, last.end_mark
    if begin is None or end is None or begin.line == end.line or end.line != case.line:
        return None
    message = "the quoted text that begins here is not closed on its line"
    return begin.line, begin.column, message, f"add the closing {last.style}"


def _foreign(case: _Case) -> tuple[int, int, str, str] | None:
    """Comments and sections of other notations, up to the line of the error."""
    for number in (*range(case.first, min(case.line + 1, len(case.lines))), *case.above()[:1]):
        line = case.lines[number]
        column = len(line) - len(line.lstrip())
        if _OTHER_COMMENT.match(line):
            return number, column, "this is no comment in YAML", "begin a comment with '#'"
        if section := _SECTION.match(line):
            hint = f"write '{section[1]}:', and below it '  key: value', indented"
            return number, column, f"'[{section[1]}]' is a list in YAML, no section", hint
    return None


def _no_key_and_value(case: _Case) -> tuple[int, int, str, str] | None:
    """A line without the space after ':' or '-', or with '=' in place of ':'."""
    if not re.search("expected ':'|'-' indicator|expected key|block end", case.problem):
        return None
    for number in range(case.first, min(case.line + 1, len(case.lines))):
        line = case.lines[number].rstrip()
        column = len(line) - len(line.lstrip())
        if match := _NO_DASH_SPACE.match(line):
            return number, column, "a space is missing after the '-'", f"write '- {match[1]}'"
        if "expected ':'" not in case.problem:
            continue
        if match := _NO_SPACE.match(line):
            hint = f"write '{match[1]}: {match[2]}'"
            return number, match.start(2), "a space is missing after the ':'", hint
        if match := _EQUALS.match(line):
            hint = f"write '{match[1]}: {match[2]}'"
            return number, line.index("=", column), "a '=', where YAML wants a ':'", hint
    return None


def _indentation(case: _Case) -> tuple[int, int, str, str] | None:
    """A line with an indentation that no line above has, or below a key that already has a
    value."""
    above = case.above()
    if not above or case.line >= len(case.lines) or case.text.lstrip().startswith("#"):
        return None
    own, before = case.indentation(case.line), case.indentation(above[0])
    if "mapping values" in case.problem:
        key = _KEY_WITH_TEXT.match(case.lines[above[0]])
        if key and own > before and not case.text[own : case.column].count(": "):
            message = f"this line is indented more than the '{key[1]}' above it, which has a value"
            return case.line, own, message, "give both the same indentation"
        return None
    if not re.search("block end|expected key|indicator", case.problem):
        return None
    if not case.begins_the_line():
        return None
    levels = sorted(set(_levels(case, above)))
    if own in levels:
        return None
    near = [max((n for n in levels if n < own), default=-1), min((n for n in levels if n > own),
            default=-1)]  # fmt: skip
    wanted = " or ".join(str(level) for level in near if level >= 0)
    message = f"no line above has the indentation of this one, {own}"
    return (
        case.line,
        own,
        message,
        f"expected {wanted} spaces, as before the line that it belongs to",
    )


def _levels(case: _Case, above: list[int]) -> list[int]:
    """The indentations that are open at the line of the error, from the lines above. The text after
    '- ' counts too."""
    levels: list[int] = []
    for number in above:
        indentation = case.indentation(number)
        if not levels or indentation < min(levels):
            rest = case.lines[number][indentation:]
            while rest.startswith("- "):
                inner = len(rest) - len(rest[1:].lstrip())
                levels.append(len(case.lines[number]) - len(rest) + inner)
                rest = rest[inner:]
            levels.append(indentation)
        if not indentation:
            break
    return levels


def _after_a_value(case: _Case) -> tuple[int, int, str, str] | None:
    """Text after a closing quote or bracket."""
    found = case.text[case.column :].strip()
    if case.begins_the_line() or not found or "expected" not in case.problem:
        return None
    if not re.search("block end|expected key", case.problem):
        return None
    closed = case.text[: case.column].rstrip()[-1]
    message = f"expected the end of the line after {closed}, found '{found[:40]}'"
    if found in (",", "}", "]"):
        return case.line, case.column, message, "remove it"
    value = _VALUE_ON_LINE.match(case.text)
    if closed == "'" and case.text[case.column - 1] == "'":
        hint = "within single quotes, two of them stand for one: 'it''s'"
        return case.line, case.column, message, hint
    if not value or "'" in value[2]:
        return case.line, case.column, message, "put the whole value into quotes"
    hint = f"put the whole value into quotes: {value[1]}: '{value[2]}'"
    return case.line, case.column, message, hint


def _second_colon(case: _Case) -> tuple[int, int, str, str] | None:
    """`key: text: more` in one line."""
    value = _VALUE_ON_LINE.match(case.text)
    if "mapping values" not in case.problem or not value or "'" in value[2]:
        return None
    if case.column <= value.start(2):
        return None
    hint = f"if it belongs to the text, quote it: {value[1]}: '{value[2]}'"
    return case.line, case.column, f"a second ': ' after '{value[1]}: '", hint


_LOOKS: tuple[Look, ...] = (
    _invisible,
    _unclosed_quote,
    _foreign,
    _no_key_and_value,
    _indentation,
    _after_a_value,
    _second_colon,
)
