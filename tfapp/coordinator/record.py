"""The application's record, which outlives its master where the engine starts another one: what the
next coordinator goes on from. The loop never waits for where it lies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from tfapp import threads
from tfapp.contract.encoding import encode
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UnavailableError
from tfapp.frozen import replace

READ_LIMIT = 120.0  # seconds in which the record of an earlier attempt must be read
LAST_LIMIT = 10.0  # seconds that the end of an application waits for its verdict to be written
PAUSES = (1.0, 30.0)  # seconds until a failed call is made again: the first pause, and the longest


class Attempt(Protocol):
    """The present attempt of an application, as its engine's module knows it. Its methods raise
    UnavailableError."""

    number: int  # from 1

    def read(self) -> bytes | None:
        """The newest record of the earlier attempts; None if there is none."""

    def write(self, record: bytes) -> None:
        """Replaces the record, as a whole or not at all."""

    def end(self, state: str, diagnostics: str) -> None:
        """Lets the application end without another attempt."""

    def why_lost(self) -> str:
        """Why the last attempt was lost, where a user could prevent it: a clause; else ""."""

    def end_master(self) -> None:
        """Ends the master, which does not answer this coordinator any more."""


def earlier(
    number: int,
    read: Callable[[], bytes | None],
    fresh: ApplicationStatus,
    say: Callable[[str], None],
) -> ApplicationStatus:
    """The record that the attempts before `number` have left, which `read` gives. If they were lost
    before they wrote one, it is `fresh`, the status of an application that begins, with what is
    certain: each was lost, and had a generation. UnavailableError if it cannot be read for
    READ_LIMIT."""
    until, (pause, longest) = time.monotonic() + READ_LIMIT, PAUSES
    while True:
        try:
            found = read()
            break
        except UnavailableError as error:
            if time.monotonic() + pause > until:
                raise
            say(f"the record of the earlier master cannot be read: {error.message}; trying again")
        time.sleep(pause)
        pause = min(2 * pause, longest)
    if found is not None:
        return ApplicationStatus.from_dict(json.loads(found))
    say("the earlier master was lost before it left a record")
    before = number - 1
    return replace(fresh, generation=before, losses=before - 1)


def why_lost(attempt: Attempt, say: Callable[[str], None]) -> str:
    """See Attempt; "" if it cannot be learned at once."""
    try:
        return attempt.why_lost()
    except UnavailableError as error:
        say(f"why the earlier master was lost cannot be learned: {error.message}")
        return ""


def facts(status: ApplicationStatus) -> tuple[Any, ...]:
    """What makes another record necessary when it changes: not what programs report, nor the end
    of those that are stopped after the verdict."""
    instances = tuple(i.instance for i in status.instances)
    charges = status.restarts, status.losses, status.decided
    return status.generation, instances, status.joined, status.timeline, charges


class Recorder:
    """Writes what it is given last, in a thread of its own. What cannot be written is tried again,
    and `say` tells of it once."""

    def __init__(self, attempt: Attempt, say: Callable[[str], None]):
        self._attempt = attempt
        self._say = say
        self._changed = threading.Condition()
        self._seen: ApplicationStatus | None = None
        self._wanted: ApplicationStatus | None = None
        self._written: ApplicationStatus | None = None
        threads.start_surely("tfapp-record", self._work)

    def keep(self, status: ApplicationStatus) -> None:
        """Has `status` written if it has news. Returns at once."""
        if status is self._seen:
            return
        news = self._seen is None or facts(status) != facts(self._seen)
        self._seen = status
        if news:
            with self._changed:
                self._wanted = status
                self._changed.notify_all()

    def finish(self, limit: float = LAST_LIMIT) -> bool:
        """Whether all was written within `limit` seconds."""
        with self._changed:
            return self._changed.wait_for(self._is_written, limit)

    def _is_written(self) -> bool:
        return self._written is self._wanted

    def _work(self) -> None:
        failed, (pause, longest) = False, PAUSES
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_written())
                status = self._wanted
            try:
                self._attempt.write(encode(status))
            except UnavailableError as error:
                if not failed:
                    self._say(
                        f"the record of the application cannot be written: {error.message}. It is "
                        "tried again; another master would not know what has happened since."
                    )
                failed = True
                time.sleep(pause)
                pause = min(2 * pause, longest)
                continue
            if failed:
                self._say("the record of the application is written again")
            failed, (pause, longest) = False, PAUSES
            with self._changed:
                self._written = status
                self._changed.notify_all()
