"""Standard output and standard error of a container in one log, line by line.

An engine reads each of them by itself, so that a piece of one may come before the other's line
has ended; and a program without buffers writes a line in several pieces.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator

OUT, ERR = "stdout", "stderr"

_PATIENCE = 0.2  # seconds that one stream waits for the end of the other's line
_AHEAD = 16  # pieces that may be read before they are written


def merged(pieces: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """What goes to the log of the pieces of both streams, which are read in another thread."""
    arriving: queue.Queue[tuple[str, bytes] | None] = queue.Queue(_AHEAD)

    def read() -> None:
        for piece in pieces:
            arriving.put(piece)
        arriving.put(None)

    threading.Thread(target=read, name="tfapp-docker-streams", daemon=True).start()
    log = OneLog()
    due: float | None = None  # when what waits has waited long enough
    while True:
        left = None if due is None else max(0.0, due - time.monotonic())
        try:
            piece = arriving.get(timeout=left)
        except queue.Empty:
            piece = ("", b"")
        if piece is None:
            yield log.release()
            return
        yield log.feed(*piece)
        if due is not None and time.monotonic() >= due:
            yield log.release()
        due = (due or time.monotonic() + _PATIENCE) if log.waits else None


class OneLog:
    """While the line of one stream is unfinished, the other waits."""

    def __init__(self) -> None:
        self._open = ""  # the stream whose unfinished line is the last of the log
        self._other, self._held = "", b""  # the stream that waits, and what it has to say

    @property
    def waits(self) -> bool:
        """Whether anything is held back."""
        return bool(self._held)

    def feed(self, stream: str, piece: bytes) -> bytes:
        """What goes to the log now."""
        if not piece:
            return b""
        if self._open not in ("", stream):
            self._other, self._held = stream, self._held + piece
            return b""
        self._open = "" if piece.endswith(b"\n") else stream
        return piece if self._open else piece + self.release()

    def release(self) -> bytes:
        """What was held back, on a line of its own."""
        if not self._held:
            return b""
        held = b"\n" + self._held if self._open else self._held
        self._open, self._held = "" if held.endswith(b"\n") else self._other, b""
        return held
