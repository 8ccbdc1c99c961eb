"""The pool of connections in a Spark task. Connections of a task that ends well are used again by
the next task of the same Python worker, without new TLS handshakes, and so is the memory that it
shares with programs. This module is shipped to executors."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator

from tfapp.errors import FeedError
from tfapp.feed.memory import share
from tfapp.feed.wire import Credentials, Line, connect

SHARED = 8  # most connections of a Python worker that have shared memory
WITH_ROWS = ("rows", "questions")  # roles of connections


class _Pool:
    def __init__(self, credentials: str):
        self.tls: ssl.SSLContext = Credentials.unpacked(credentials).tls(server=False)
        self.idle: dict[tuple[str, str], list[Line]] = {}  # by address and role

    def prune(self) -> None:
        """Closes connections that the other side has closed."""
        for key, lines in list(self.idle.items()):
            self.idle[key] = [line for line in lines if line.is_quiet()]
            for line in lines:
                if line not in self.idle[key]:
                    line.close()
            if not self.idle[key]:
                del self.idle[key]


_pools: dict[str, _Pool] = {}  # by the feed's credentials


@contextlib.contextmanager
def connections(credentials: str) -> Iterator[Callable[[str, str], Line]]:
    """Yields a function (address, role) -> connection with this role. If the block ends well, no
    connection may have an open question, and all are kept for the next task; otherwise they are
    closed. The function raises OSError."""
    for each in _pools.values():
        each.prune()
    if credentials not in _pools:
        for key in [key for key, each in _pools.items() if not each.idle]:
            del _pools[key]  # its feed has ended
        _pools[credentials] = _Pool(credentials)
    pool = _pools[credentials]
    used: list[tuple[tuple[str, str], Line]] = []

    def connected(address: str, role: str) -> Line:
        idle = pool.idle.get((address, role))
        if idle:
            line = idle.pop()
            used.append(((address, role), line))
            return line
        line = connect(address, pool.tls, {"role": role})
        used.append(((address, role), line))
        lines = [line for _, line in used] + [line for idle in pool.idle.values() for line in idle]
        if role in WITH_ROWS and sum(each.memory is not None for each in lines) < SHARED:
            share(line)
        return line

    try:
        yield connected
    except BaseException:
        for _, line in used:
            line.close()
        raise
    for place, line in used:
        pool.idle.setdefault(place, []).append(line)


@contextlib.contextmanager
def telling_of_loss(driver: Line) -> Iterator[None]:
    """For the communication of a task with a program. An OSError of the block is raised only after
    the driver has noticed that the program is gone, or has had time for it. Otherwise the task
    could fail several times before, and Spark would give up its job. FeedError if no attempt can
    succeed."""
    try:
        yield
    except OSError:
        answer = {}
        with contextlib.suppress(OSError):  # the end of the connection, usually
            answer = driver.ask({"lost": True})
        if "error" in answer:
            raise FeedError(answer["error"]) from None
        raise
