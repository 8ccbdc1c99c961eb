"""Characters that look like a space or are invisible, but are neither for a parser."""

from __future__ import annotations

import re

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
