"""Decodes the bytes of a file, or reports the byte that is wrong."""

from __future__ import annotations

import codecs
import re

from tfapp.problems import Position, Problem

_UTF16_OR_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

CONFLICT = re.compile(r"^(<{7}|>{7})(?= |$)", re.MULTILINE)

# The largest size of a document. An app package's files are far below these.
MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 50_000  # keys and values, with aliases followed: a YAML bomb is refused by this

DATA_ELSEWHERE = "data belongs into the package's files/ folder"


class Unreadable(Exception):
    """Parsing stops at this problem."""

    def __init__(self, position: Position, code: str, message: str, hint: str = ""):
        super().__init__(message)
        self.problem = Problem(position, code, message, hint=hint)


def decode(label: str, data: bytes) -> str:
    """The text of a UTF-8 file without byte order mark. Raises Unreadable."""
    if len(data) > MAX_BYTES:
        raise Unreadable(
            Position(label),
            "too-large",
            f"the file has {len(data)} bytes, more than the {MAX_BYTES} that are read",
            DATA_ELSEWHERE,
        )
    if data.startswith(_UTF16_OR_32):
        raise Unreadable(
            Position(label, 1, 1), "encoding", "the file is UTF-16 or UTF-32, expected UTF-8",
            "save it as UTF-8",
        )  # fmt: skip
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise Unreadable(
            position_after(label, before),
            "encoding",
            f"byte 0x{data[error.start]:02x} is not UTF-8 text",
            "save the file as UTF-8",
        ) from error
    _refuse_unprintable(label, text)
    return text


def position_after(label: str, before: str) -> Position:
    """The position of the character after `before`, which is the beginning of the file."""
    lines = re.split("\r\n|\r|\n", before)
    return Position(label, len(lines), len(lines[-1]) + 1)


def refuse_conflict(label: str, text: str) -> None:
    """Raises Unreadable if the file has markers of a merge conflict."""
    if found := CONFLICT.search(text):
        raise Unreadable(
            position_after(label, text[: found.start()]),
            "syntax",
            f"the marker {found[0][:7]} of a merge conflict that is not resolved",
            "keep one of the two sides, and delete the lines with <<<<<<<, ======= and >>>>>>>",
        )


def check_scalar(text: str, at: Position) -> None:
    """Raises Unreadable for text that cannot be passed to a program: escape sequences can produce
    characters that are not allowed in the file itself."""
    for character in text:
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise Unreadable(
                at,
                "encoding",
                f"the character U+{ord(character):04X} cannot be used in a value",
                "remove what stands for it",
            )


def _refuse_unprintable(label: str, text: str) -> None:
    found = (_CONTROL if text.isascii() else _unprintable()).search(text)
    if found:
        name = "NUL" if found.group() == "\0" else f"U+{ord(found.group()):04X}"
        raise Unreadable(
            position_after(label, text[: found.start()]),
            "encoding",
            f"the control character {name} cannot stand in the file",
            "is it a text file at all? delete the character",
        )


def _unprintable() -> re.Pattern[str]:
    """All characters that are not printable in the sense of YAML. They are not allowed in YAML, and
    useless in JSON. Slow to compute; for ASCII text _CONTROL is equivalent."""
    return re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# ---- Characters that look like a space or are invisible, but are neither for a parser ----------

_NAMES = {
    "\u00a0": "a no-break space",
    "\u200b": "a zero-width space",
    "\u200c": "a zero-width non-joiner",
    "\u200d": "a zero-width joiner",
    "\u202f": "a narrow no-break space",
    "\u2060": "a word joiner",
    "\u3000": "an ideographic space",
    "\ufeff": "a byte order mark",
}
_ANY = "\u00a0\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff"
_CHARACTER = re.compile(f"[{_ANY}]")
_BEFORE_OR_AFTER_A_KEY = re.compile(rf"\s*?(?P<before>[{_ANY}])|[^'\"#]*?:(?P<after>[{_ANY}])")


def invisible_in(text: str) -> int:
    """The index of the first such character in `text`; -1 for none."""
    found = _CHARACTER.search(text)
    return found.start() if found else -1


def position_of_invisible(line: str) -> int:
    """The index of the first such character in the indentation of `line` or after a ':', where a
    space is expected; -1 for none."""
    found = _BEFORE_OR_AFTER_A_KEY.match(line)
    return found.start(found.lastgroup or 0) if found else -1


def name_of(character: str) -> str:
    """The name of a character, such as "a no-break space (U+00A0)"."""
    return f"{_NAMES.get(character, 'a special space')} (U+{ord(character):04X})"
