"""What programs write for a terminal: colours, titles, cursor movements. Where a text of theirs is
shown beside tfapp's own, it must move nothing, and no secret may come together when it goes."""

from __future__ import annotations

import re

# Escape sequences (ECMA-48: CSI; OSC and other strings; two bytes), and backspaces.
_CODE = (
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"
    r"|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    r"|[ -/]*[0-OQ-WYZ\\`-~])"
    r"|\x08"
)
CODE = re.compile(_CODE.encode())
UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]P^_X][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
MAX_UNFINISHED = 256  # bytes of a code that may go on
_TEXT_CODE = re.compile(_CODE)


def plain(text: str) -> str:
    """`text` without escape sequences. Other control characters, but for tabs and line breaks,
    become "\\N{REPLACEMENT CHARACTER}"."""
    found = _TEXT_CODE.sub("", text)
    if found.isprintable():
        return found
    return "".join(
        c if c.isprintable() or c in "\t\n" else "\N{REPLACEMENT CHARACTER}" for c in found
    )
