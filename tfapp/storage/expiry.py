"""When credentials end, where that can be known, so that it is told before it happens."""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

AHEAD = 24 * 3600.0  # seconds before the end
LAST = 60.0  # seconds before the end, from which on hdfs-native uses no token
MOST = 1 << 20  # bytes of a file of tokens

_HDFS = b"HDFS_DELEGATION_TOKEN"


class Expiry:
    """Warns once, in the program's log, when less than AHEAD is left. `end`: in seconds since 1970;
    infinity where it is not known. `told`: of what, and what to do."""

    def __init__(self, end: float, told: str):
        self._end, self._told, self._tells = end, told, math.isfinite(end)

    def is_over(self) -> bool:
        """Whether they are no longer used."""
        return time.time() > self._end - LAST

    def look(self) -> None:
        """Called whenever the credentials are used."""
        if self._tells and time.time() > self._end - AHEAD:
            self._tells = False
            logging.getLogger(__name__).warning(self._told, in_words(self._end))


def in_words(end: float) -> str:
    """ "2026-12-04 18:24 UTC"."""
    return f"{datetime.datetime.fromtimestamp(end, datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"


def of_hdfs(environ: Mapping[str, str]) -> float:
    """When the first delegation token of HDFS ends for good, whoever renews it."""
    return min((end for _, end in tokens_of_hdfs(environ)), default=math.inf)


def tokens_of_hdfs(environ: Mapping[str, str]) -> list[tuple[str, float]]:
    """Of each delegation token of HDFS: its service, as "10.0.0.1:8020" or "ha-hdfs:NAME", and its
    end."""
    path = environ.get("HADOOP_TOKEN_FILE_LOCATION", "")
    # A file that is written otherwise is left to hdfs-native.
    with contextlib.suppress(OSError, IndexError), Path(path).open("rb") as file:
        return list(_tokens(file.read(MOST)))
    return []


def of_aws(environ: Mapping[str, str]) -> float:
    """When the session of AWS_SESSION_TOKEN ends: AWS_CREDENTIAL_EXPIRATION, as the command aws
    exports it."""
    text = environ.get("AWS_CREDENTIAL_EXPIRATION", "") if environ.get("AWS_SESSION_TOKEN") else ""
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    return math.inf


def _tokens(content: bytes) -> Iterator[tuple[str, float]]:
    """In a file as Hadoop's Credentials writes it."""
    if content[:5] != b"HDTS\0":
        return
    file = _Writable(content[5:])
    for _ in range(file.number()):
        file.text()  # its name here
        identifier, _, kind, service = (file.text() for _ in range(4))
        if kind == _HDFS:
            token = _Writable(identifier[1:])  # behind its version
            for _ in range(3):
                token.text()  # the owner, the renewer and the real user
            token.number()  # when it was issued
            yield service.decode(errors="replace"), token.number() / 1000


class _Writable:
    """What Hadoop's WritableUtils wrote. IndexError behind the end."""

    def __init__(self, content: bytes):
        self._content, self._at = content, 0

    def text(self) -> bytes:
        return self._take(self.number())

    def number(self) -> int:
        first = self._take(1)[0]
        if first < 128:
            return first
        if first >= 144:  # a byte from -112 on is the number itself
            return first - 256
        is_negative = first < 136
        found = int.from_bytes(self._take((136 if is_negative else 144) - first), "big")
        return ~found if is_negative else found

    def _take(self, count: int) -> bytes:
        begin, self._at = self._at, self._at + count
        if not begin <= self._at <= len(self._content):
            raise IndexError
        return self._content[begin : self._at]
