"""A stream of a container as whole lines: two streams become one log, and an engine reads each of
them by itself, so that a piece of one may come before the line of the other has ended."""

from __future__ import annotations

_LONGEST = 64 * 1024  # bytes of a line that are held back


class WholeLines:
    """Takes a stream in pieces. Holds back a line until it ends, or a carriage return shows that
    more of it comes: progress bars stay alive."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """The lines that are whole by now."""
        text = self._held + piece
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if len(text) - end > _LONGEST:
            end = len(text)
        self._held = text[end:]
        return text[:end]

    def finish(self) -> bytes:
        """The bytes that were held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held
