"""A program's output on its way to the container's log: secrets struck out, the end remembered."""

from __future__ import annotations

import bisect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from urllib.parse import quote, quote_plus

from tfapp.contract.job import MIN_SECRET
from tfapp.contract.last_lines import tells_something
from tfapp.contract.log_times import Log
from tfapp.contract.terminal import CODE, MAX_UNFINISHED, UNFINISHED, plain

STRUCK_OUT = b"[secret]"

_CHUNK = 64 * 1024
_WORDS = (8, 4)  # bytes of a word
_UNSEEN = 14  # bytes of the longest beginning of a secret in which there may be no aligned word
_FEW = 8  # secrets that are looked for one by one, which takes 0.4 ns for a byte and a secret


class Redactor:
    """Strikes secrets of at least MIN_SECRET characters out of a stream of bytes, also those that
    codes of a terminal divide. It holds back only an end that may become a secret with the bytes to
    come, so that progress bars stay alive."""

    def __init__(self, secrets: Iterable[str]):
        encoded = {utf8(text) for s in secrets if len(s) >= MIN_SECRET for text in _spellings(s)}
        self._search = _Search(encoded) if encoded else None
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The part of the stream so far that can be shown now."""
        return self._strike_out(data, hold=True)

    def finish(self) -> bytes:
        return self._strike_out(b"", hold=False)

    def _strike_out(self, data: bytes, hold: bool) -> bytes:
        if self._search is None:
            return data
        whole = self._held + data
        text, place = _without_codes(whole, hold)
        suspects = self._search.suspects(text)
        end = len(text) - (self._search.beginning(text, suspects) if hold else 0)
        shown = bytearray()
        position = 0
        for start, stop in _matches(text, suspects):
            if start >= end:
                break
            shown += whole[position : place(start)] + STRUCK_OUT
            position = place(stop - 1) + 1
        rest = max(place(end), position)
        self._held = whole[rest:]
        return bytes(shown + whole[position:rest])


def _spellings(secret: str) -> Iterator[str]:
    """The secret, and as it stands in JSON and in URLs."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    written = secret.encode(errors="surrogateescape")
    yield quote(written, safe="")
    yield quote(written)
    yield quote_plus(written)


class _Search:
    """Finds out which of many secrets may be in a text, without looking for each: a key file is
    a thousand secrets, one for each of its lines.

    The text is read as words of 8 bytes, one after the other. A secret of 15 bytes or more
    covers at least one whole word, and that is one of the 8 words which begin at its first 8
    bytes. A set of these words is compared with those of the text at once. Secrets of 7 to 14
    bytes are found by words of 4 bytes in the same way."""

    def __init__(self, secrets: Collection[bytes]):
        self._always: set[bytes] = set()
        tables: dict[int, dict[int, set[bytes]]] = {size: {} for size in _WORDS}
        for secret in secrets:
            size = next((size for size in _WORDS if len(secret) >= 2 * size - 1), 0)
            if not size or len(secrets) <= _FEW:
                self._always.add(secret)
                continue
            for offset in range(size):
                number = int.from_bytes(secret[offset : offset + size], sys.byteorder)
                tables[size].setdefault(number, set()).add(secret)
        self._tables = [(size, table, set(table)) for size, table in tables.items() if table]
        self._beginnings = {
            secret[:length]
            for secret in secrets
            for length in range(1, min(len(secret), _UNSEEN + 1))
        }

    def suspects(self, text: bytes) -> set[bytes]:
        """The secrets that may be in `text`, or begin at its end with more than _UNSEEN bytes."""
        found = set(self._always)
        for size, table, numbers in self._tables:
            whole = memoryview(text)[: len(text) // size * size]
            words = whole.cast("Q" if size == 8 else "I")
            for number in numbers.intersection(words):
                found |= table[number]
        return found

    def beginning(self, text: bytes, suspects: Iterable[bytes]) -> int:
        """Length of the longest end of `text` that is a true beginning of a secret."""
        longest = 0
        for secret in suspects:
            anchor = secret[:_UNSEEN]
            if len(text) <= _UNSEEN or text[-_UNSEEN:] not in secret:
                continue
            start = text.find(anchor, max(0, len(text) - len(secret) + 1))
            while start >= 0 and not secret.startswith(text[start:]):
                start = text.find(anchor, start + 1)
            if start >= 0:
                longest = max(longest, len(text) - start)
        short = range(min(len(text), _UNSEEN), longest, -1)
        return next((n for n in short if text[-n:] in self._beginnings), longest)


def _without_codes(whole: bytes, goes_on: bool) -> tuple[bytes, Callable[[int], int]]:
    """`whole` without codes of a terminal; and what gives, for a place in that, the place in
    `whole`. `goes_on`: a code that has not ended is left out too."""
    if b"\x1b" not in whole and b"\b" not in whole:
        return whole, lambda place: place
    unfinished = UNFINISHED.search(whole, max(0, len(whole) - MAX_UNFINISHED)) if goes_on else None
    end = unfinished.start() if unfinished else len(whole)
    parts, begins, removed = [], [0], [0]  # from which place in the parts on so much was removed
    position = size = 0
    for code in CODE.finditer(whole, 0, end):
        parts.append(whole[position : code.start()])
        size += len(parts[-1])
        position = code.end()
        begins.append(size)
        removed.append(position - size)
    parts.append(whole[position:end])
    length = size + len(parts[-1])

    def place(at: int) -> int:
        return end if at == length else at + removed[bisect.bisect_right(begins, at) - 1]

    return b"".join(parts), place


def _matches(text: bytes, secrets: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """Start and stop of each secret in `text` that begins after the one before. Of several that
    begin at one place the longest counts."""
    found = {secret: start for secret in secrets if (start := text.find(secret)) >= 0}
    while found:
        secret = min(found, key=lambda secret: (found[secret], -len(secret)))
        stop = found[secret] + len(secret)
        yield found[secret], stop
        for secret in [secret for secret, start in found.items() if start < stop]:
            found[secret] = text.find(secret, stop)
            if found[secret] < 0:
                del found[secret]


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text`, of a program or of a package's script, without any of the secrets and without codes
    of a terminal, and as valid UTF-8: the way of all such texts into reports."""
    redactor = Redactor(secrets)
    shown = redactor.feed(utf8(text)) + redactor.finish()
    return plain(shown.decode(errors="replace"))


def utf8(text: str) -> bytes:
    """Any text as bytes. Python keeps bytes that are no UTF-8, such as those of a file's name, as
    surrogates (PEP 383); they become these bytes again. Other surrogates, of JSON, become "?"."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="replace")


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
        one line alone is longer; without what TensorFlow says at each start."""
        lines = (_as_shown(line) for line in bytes(self._tail).split(b"\n"))
        text = "\n".join(filter(tells_something, lines)).strip("\n").encode()
        if len(text) > self._limit:
            text = text[-self._limit :]
            _, newline, rest = text.partition(b"\n")
            text = rest if newline else text
        return text.decode(errors="ignore")


def _as_shown(line: bytes) -> str:
    """A line after its carriage returns, which progress bars use, and without codes."""
    return plain(line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace"))


def pump(source: int, sink: int, redactor: Redactor, last: LastLines) -> None:
    """Copies file descriptor `source` to `sink` until its end."""
    relay(iter(lambda: os.read(source, _CHUNK), b""), sink, redactor, last)


def relay(chunks: Iterable[bytes], sink: int, redactor: Redactor, last: LastLines) -> None:
    """Writes all `chunks` to the log that is file descriptor `sink`. What it does not take (a full
    disk) is lost; the program goes on, and its last lines are known all the same. The last line is
    ended if the stream did not: what the runner says next has a line of its own."""
    log = Log(sink)
    end = b"\n"

    def show(data: bytes) -> None:
        nonlocal end
        end = data[-1:] or end
        last.feed(data)
        log.write(data)

    for data in chunks:
        show(redactor.feed(data))
    show(redactor.finish())
    if end != b"\n":
        log.write(b"\n")
