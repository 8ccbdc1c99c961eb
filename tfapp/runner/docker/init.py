"""What a container's init says of the end of its program.

An engine tells one number: 128 + n stands for signal n, and may as well be the program's own exit
code. Docker's init, tini, knows: with TINI_VERBOSITY 2 it writes two lines to standard output when
the program has ended, and ends.
"""

from __future__ import annotations

VERBOSITY = {"TINI_VERBOSITY": "2"}  # of the init's environment

_BEGINNING = b"[INFO  tini (1)] "
_BY_ITSELF = b"Main child exited normally "


class InitWords:
    """Takes the init's lines out of a container's standard output, which comes in pieces."""

    def __init__(self) -> None:
        self._held = b""  # what may be the beginning of a line of the init's
        self.by_itself = False  # whether the program has ended with an exit code of its own

    def feed(self, piece: bytes) -> bytes:
        """The program's part of what is known by now."""
        before, found, words = (self._held + piece).partition(_BEGINNING)
        shown = []
        while found:
            line, ended, rest = words.partition(b"\n")
            shown.append(before)
            if not ended:
                self._held = found + line
                return b"".join(shown)
            self.by_itself |= line.startswith(_BY_ITSELF)
            before, found, words = rest.partition(_BEGINNING)
        kept = len(before) - _beginning_at_the_end(before)
        self._held = before[kept:]
        return b"".join((*shown, before[:kept]))

    def finish(self) -> bytes:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held


def _beginning_at_the_end(data: bytes) -> int:
    """How many of the last bytes may be the beginning of `_BEGINNING`."""
    lengths = range(min(len(data), len(_BEGINNING) - 1), 0, -1)
    return next((n for n in lengths if data.endswith(_BEGINNING[:n])), 0)
