"""A program's output on its way to the container's log: secrets struck out, the end remembered."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

STRUCK_OUT = b"[secret]"
MIN_SECRET = 3  # characters; striking out "1" or "no" would only spoil the text

_CHUNK = 64 * 1024


class Redactor:
    """Strikes secrets out of a stream of bytes. It holds back only an end that may become a
    secret with the bytes to come, so that progress bars stay alive."""

    def __init__(self, secrets: Iterable[str]):
        encoded = {secret.encode() for secret in secrets if len(secret) >= MIN_SECRET}
        # The longest first: one secret may be the beginning of another.
        self._secrets = sorted(encoded, key=lambda secret: (-len(secret), secret))
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What of the stream so far can be shown now."""
        if not self._secrets:
            return data
        text = self._held + data
        shown = bytearray()
        position = 0
        end = len(text) - self._possible_beginning(text)
        for match in self._pattern.finditer(text):
            if match.start() >= end:
                break
            shown += text[position : match.start()] + STRUCK_OUT
            position = match.end()
        end = max(end, position)
        self._held = text[end:]
        return bytes(shown + text[position:end])

    def finish(self) -> bytes:
        """The rest, when nothing more comes."""
        rest, self._held = self._held, b""
        return self._pattern.sub(STRUCK_OUT, rest) if self._secrets else rest

    def _possible_beginning(self, text: bytes) -> int:
        """Length of the longest end of `text` that is a true beginning of a secret."""
        longest = min(len(text), len(self._secrets[0]) - 1)
        for length in range(longest, 0, -1):
            end = text[-length:]
            if any(len(s) > length and s.startswith(end) for s in self._secrets):
                return length
        return 0


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` without any of the secrets."""
    redactor = Redactor(secrets)
    shown = redactor.feed(text.encode()) + redactor.finish()
    return shown.decode(errors="replace")


class LastLines:
    """The end of a stream, as the lines that a terminal would show."""

    def __init__(self, limit: int):
        self.total = 0  # bytes of the whole stream so far
        self._limit = limit
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Remembers `data`, or the end of it."""
        self.total += len(data)
        self._tail += data[-2 * self._limit :]
        # Twice the limit: the beginning of a line is cut away, and control characters go.
        if len(self._tail) > 2 * self._limit:
            del self._tail[: -2 * self._limit]

    def text(self) -> str:
        """The last lines, at most `limit` bytes of UTF-8, cut at the beginning of a line unless
        one line alone is longer."""
        lines = (_as_shown(line) for line in bytes(self._tail).split(b"\n"))
        text = "\n".join(lines).strip("\n").encode()
        if len(text) > self._limit:
            text = text[-self._limit :]
            _, newline, rest = text.partition(b"\n")
            text = rest if newline else text
        return text.decode(errors="ignore")


def _as_shown(line: bytes) -> str:
    """A line after its carriage returns and without backspaces: progress bars use both."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2].replace(b"\b", b"")
    return shown.decode(errors="replace")


def pump(source: int, sink: int, redactor: Redactor, last: LastLines) -> None:
    """Copies file descriptor `source` to `sink` until its end."""
    relay(iter(lambda: os.read(source, _CHUNK), b""), sink, redactor, last)


def relay(chunks: Iterable[bytes], sink: int, redactor: Redactor, last: LastLines) -> None:
    """Writes all `chunks` to file descriptor `sink`. What `sink` does not take (a full disk) is
    lost; the program goes on, and its last lines are known all the same. The last line is ended
    if the stream did not: what the runner says next has a line of its own."""
    end = b"\n"

    def show(data: bytes) -> None:
        nonlocal end
        end = data[-1:] or end
        last.feed(data)
        _write(sink, data)

    for data in chunks:
        show(redactor.feed(data))
    show(redactor.finish())
    if end != b"\n":
        _write(sink, b"\n")


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(sink, view) :]
    except OSError:
        return
