"""The witness of a runner, which it asks when it cannot reach its master: whether that one is lost,
so that it waits for the next one, or it is cut off itself, and has to end its program.
See tfapp.master.witness, and on Kubernetes tfapp.engines.kubernetes.pod.outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional

from tfapp.contract.names import ENV_WITNESS
from tfapp.standalone.bootstrap import ask_witness

LOOK_EVERY = 3.0  # seconds
DOUBT_EVERY = 15.0  # seconds between two looks whether the master that answers is the newest
PROOF = 8.0  # seconds in which a master that lives has renewed it

Ask = Callable[[], Optional[Mapping[str, Any]]]


class ReplacedError(Exception):
    """The master is lost, and another one has begun anew: nobody knows this container any more."""


class Witness:
    """`ask`: what the witness says. `limit`: seconds without the master in which it counts.
    `address`: where the master was. `move` is called with that of the next one."""

    def __init__(
        self,
        ask: Ask,
        limit: float,
        address: str,
        move: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self.limit = limit
        self.counts = True  # else the next master does not know all that this container does
        self._ask = ask
        self.address = address
        self._move = move
        self._clock = clock
        self._seen = ("", 0.0)  # a version, and since when it is known
        self._looked = self._doubted = 0.0
        self._lock = threading.Lock()

    def speaks(self) -> bool | None:
        """Whether the master that this runner has lost is lost to all, and none has its place: the
        runner may go on, as if it had been heard just now. None if that is not known yet.
        ReplacedError."""
        asked = self._clock()
        said = self._said()
        if said is None:
            return False
        if not said["may_live"]:
            raise ReplacedError("the master is lost, and another one has begun anew")
        version, since = self._seen
        if said["version"] != version:
            self._seen = said["version"], self._clock()
            return None
        # The answer may have been on its way for seconds, in which somebody has renewed it.
        return True if asked >= since + PROOF else None

    def check(self) -> None:
        """Where the master answers, but the next one would not know all: the API server may hear
        this container and not the master, whose place another one has. ReplacedError."""
        if self.counts or self._clock() < self._doubted + DOUBT_EVERY:
            return
        self._doubted = self._clock()
        said = self._ask()
        if said is not None and not (said["may_live"] and said["address"] in ("", self.address)):
            raise ReplacedError("another master has the place of this one, which does not know it")

    def find(self) -> None:
        """Looks whether there is another master. Called in any thread, as often as one likes."""
        with self._lock:
            if self._clock() < self._looked + LOOK_EVERY:
                return
            self._looked = self._clock()
        self._said()

    def _said(self) -> Mapping[str, Any] | None:
        """What it says, where that counts. Goes to the master that it names."""
        said = self._ask() if self.counts else None
        if said is not None and said["may_live"] and said["address"]:
            with self._lock:
                moves = self.address != said["address"]
                self.address = said["address"]
            if moves:
                self._move(said["address"])
                return None
        return said


def witness_of(
    environ: Mapping[str, str],
    key: bytes,
    move: Callable[[str], None],
    clock: Callable[[], float],
) -> Witness | None:
    """The witness of this container, with the application's private key; None where there is
    none."""
    id, address = environ.get("CONTAINER_ID", ""), environ.get("SKEIN_APPMASTER_ADDRESS", "")
    if ENV_WITNESS not in environ:
        return None
    limit = float(environ[ENV_WITNESS].split()[0])
    return Witness(lambda: ask_witness(id, environ, key), limit, address, move, clock)
