"""Parses strict JSON (RFC 8259) into nodes, with messages for common mistakes."""

from __future__ import annotations

import bisect
import re
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]

from tfapp.documents.decode import (
    DATA_ELSEWHERE,
    MAX_DEPTH,
    MAX_NODES,
    Unreadable,
    check_scalar,
    refuse_conflict,
)
from tfapp.documents.document import Entry, Node, add_entry
from tfapp.documents.scalars import resolve_plain
from tfapp.problems import Position, Problem

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![\w.+-])")
_WORD = re.compile(r"(true|false|null)\b")
_NEWLINE = re.compile("\r\n|\r|\n")
_FOUND = re.compile(r"[\w.+-]+|.", re.DOTALL)


def parse_json(label: str, text: str, problems: list[Problem]) -> Node:
    """The root node of `text`. Duplicate keys are appended to `problems`. Raises Unreadable."""
    refuse_conflict(label, text)
    return _Reader(label, text, problems).document()


class _Reader:
    def __init__(self, label: str, text: str, problems: list[Problem]):
        self.label = label
        self.text = text
        self.problems = problems
        self.offset = 0
        self.nodes = 0
        self.lines = [0, *(newline.end() for newline in _NEWLINE.finditer(text))]

    def document(self) -> Node:
        if self.peek() == "":
            raise self.error("the file is empty, expected a JSON object")
        node = self.value(1)
        if self.peek() != "":
            raise self.error(f"expected the end of the file, found {self.found()}")
        return node

    def value(self, depth: int) -> Node:
        start = self.peek()
        self.count(depth)
        if start == "{":
            return self.object(depth)
        if start == "[":
            return self.array(depth)
        at = self.position()
        if start == '"':
            text = self.string(at)
            return Node(at, text, text)
        literal = _NUMBER.match(self.text, self.offset) or _WORD.match(self.text, self.offset)
        if literal is None:
            raise self.error(
                f"expected a value, found {self.found()}",
                self.foreign() or "text stands in double quotes",
            )
        self.offset = literal.end()
        return Node(at, resolve_plain(literal.group()), literal.group(), plain=True)

    def object(self, depth: int) -> Node:
        at = self.position()
        entries: dict[str, Entry] = {}
        while self.another("{", "}", at, first=not entries):
            key_at = self.position()
            if self.peek() != '"':
                raise self.error(
                    f"expected a key in double quotes, found {self.found()}",
                    self.foreign() or "a key stands in double quotes, even a single word",
                )
            key = self.string(key_at)
            if self.peek() != ":":
                raise self.error(f"expected ':' after the key '{key}', found {self.found()}")
            self.offset += 1
            add_entry(entries, key, key_at, self.value(depth + 1), self.problems)
        return Node(at, entries)

    def array(self, depth: int) -> Node:
        at = self.position()
        items: list[Node] = []
        while self.another("[", "]", at, first=not items):
            items.append(self.value(depth + 1))
        return Node(at, tuple(items))

    def another(self, opening: str, closing: str, at: Position, *, first: bool) -> bool:
        """Steps over the opening bracket or the comma; False after the closing bracket."""
        if first:
            self.offset += 1
        found = self.peek()
        if found == closing:
            self.offset += 1
            return False
        if not first and found == ",":
            self.offset += 1
            if self.peek() == closing:
                raise self.error(f"JSON has no comma before '{closing}'", "remove the comma")
        elif not first or found == "":
            where = f"the '{opening}' is at line {at.line}, column {at.column}"
            if found in ('"', "{", "["):
                where = "add the ',' after the value before it"
            raise self.error(
                f"expected ',' or '{closing}', found {self.found()}", self.foreign() or where
            )
        return True

    def string(self, at: Position) -> str:
        try:
            text, self.offset = scanstring(self.text, self.offset + 1, True)
        except JSONDecodeError as error:
            raise self.string_error(at, error) from error
        check_scalar(text, at)
        return text

    def string_error(self, at: Position, error: JSONDecodeError) -> Unreadable:
        if error.msg.startswith("Unterminated"):
            message, hint = "the text that begins here is never closed", "add the closing '\"'"
            return Unreadable(at, "syntax", message, hint)
        if error.msg.startswith("Invalid control"):
            message = "a line break or a tab inside a text"
            hint = "add the closing '\"', or write \\n or \\t"
        else:
            message, hint = "an unknown escape sequence", "write '\\\\' for a backslash"
        return Unreadable(self.place(error.pos), "syntax", message, hint)

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        space = _SPACE.match(self.text, self.offset)
        self.offset = space.end() if space else self.offset
        return self.text[self.offset : self.offset + 1]

    def found(self) -> str:
        found = _FOUND.match(self.text, self.offset)
        if found is None:
            return "the end of the file"
        return '"\'"' if found.group() == "'" else f"'{found.group()[:40]}'"

    def foreign(self) -> str:
        """The hint for syntax of other notations that JSON does not have."""
        rest = self.text[self.offset : self.offset + 9]
        if rest.startswith(("//", "/*", "#")):
            return "JSON has no comments; a .yaml file may have them"
        if rest.startswith(("'", "`", "\u201c", "\u201d", "\u201e", "\u2018", "\u2019")):
            return 'JSON wants plain double quotes: "'
        if re.match(r"(?i)(true|false|null|none)\b", rest):
            return "JSON writes true, false and null"
        return ""

    def count(self, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            message = f"the document has more than {MAX_NODES} values"
            raise self.error(message, DATA_ELSEWHERE, "too-large")
        if depth > MAX_DEPTH:
            raise self.error(f"values are nested more than {MAX_DEPTH} deep", code="too-large")

    def position(self) -> Position:
        """The position of the next character that is not white space."""
        self.peek()
        return self.place(self.offset)

    def place(self, offset: int) -> Position:
        line = bisect.bisect_right(self.lines, offset)
        return Position(self.label, line, offset - self.lines[line - 1] + 1)

    def error(self, message: str, hint: str = "", code: str = "syntax") -> Unreadable:
        return Unreadable(self.position(), code, message, hint)
