"""In a Spark task: connections of the feed. Those of a task that ends well stay open for the next
one of the same Python worker, which needs no handshakes then. It travels to executors."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator

from tfapp.feed.wire import Credentials, Line, connect


class _Pool:
    """Of one feed."""

    def __init__(self, credentials: str):
        self.tls: ssl.SSLContext = Credentials.unpacked(credentials).tls(server=False)
        self.idle: dict[tuple[str, str], list[Line]] = {}  # by address and role

    def prune(self) -> None:
        """Closes what the other side has closed."""
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
    """What connects a task: (address, role) -> a connection that has said its role. On all of them
    every question is answered when the block ends well; otherwise they are closed."""
    for each in _pools.values():
        each.prune()
    if credentials not in _pools:
        for key in [key for key, each in _pools.items() if not each.idle]:
            del _pools[key]  # of a feed that has ended
        _pools[credentials] = _Pool(credentials)
    pool = _pools[credentials]
    used: list[tuple[tuple[str, str], Line]] = []

    def connected(address: str, role: str) -> Line:
        idle = pool.idle.get((address, role))
        line = idle.pop() if idle else connect(address, pool.tls, {"role": role})
        used.append(((address, role), line))
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
    """While a task talks to a program. OSError only after the driver knows that the program is
    gone, or has not found it so: Spark gives up the job of a task that fails a few times."""
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError):
            driver.ask({"lost": True})  # the end of the connection is the answer
        raise
