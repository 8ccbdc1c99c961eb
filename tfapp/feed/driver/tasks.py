"""The driver's server for Spark's tasks: for those that send rows, and those that ask programs."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfapp.errors import FeedError
from tfapp.feed.driver import ledger as entries
from tfapp.feed.driver.state import FeedState
from tfapp.feed.lines import FROM_ASKER, FROM_SENDER, ROLES_AT_DRIVER, kind_of, role_of
from tfapp.feed.wire import Credentials, ImpossibleError, Line, serve
from tfapp.listener import Admit, Listener

LOOK_EVERY = 0.5  # seconds between two checks whether a partition is finished
KILL_PATIENCE = 5.0  # seconds within which Spark kills attempts that must not go on


# The lines that may follow a line about a partition; all but these are not possible. "objects":
# after "open" if rows may be pickles, which have no features.
_FOLLOW: Mapping[str, frozenset[str]] = {
    "open": frozenset({"features", "finish", "fail"}),
    "objects": frozenset({"features", "grant", "finish", "fail"}),
    "features": frozenset({"grant", "finish", "fail"}),
    "grant": frozenset({"grant", "finish", "refused", "lost", "fail"}),
    "finish": frozenset({"fail"}),
}


class _UnwantedError(Exception):
    """The job of this task is about to be cancelled."""


class Tasks:
    """Answers the tasks, in threads of its own."""

    def __init__(self, state: FeedState, credentials: Credentials, ports: Sequence[int]):
        """`ports`: the ports to try; the first free one is used. FeedError if none is free."""
        self._state = state
        self._server_tls = credentials.tls(server=True)
        self._lines: set[Line] = set()
        self._listener = _listen(ports)
        self.port: int = self._listener.getsockname()[1]
        self._listening = Listener("tfapp-feed", self._listener, self._serve)

    def close(self) -> None:
        self._listening.close()
        for line in list(self._lines):
            line.end()

    def _serve(self, plain: socket.socket, address: object, admit: Admit) -> None:
        def begin(line: Line, hello: dict[str, Any]) -> None:
            admit()
            role = role_of(hello, ROLES_AT_DRIVER)
            self._lines.add(line)
            try:
                if self._state.closed:
                    return
                while role == "sender":
                    self._serve_partition(line, line.hear())
                self._serve_asker(line)
            except _UnwantedError:
                # The job is not cancelled yet: if the task failed now, Spark could give up the job.
                line.is_quiet(KILL_PATIENCE)
            finally:
                self._lines.discard(line)

        serve(plain, self._server_tls, begin, lambda: "the driver of the feed has got from a task")

    def _serve_partition(self, line: Line, said: dict[str, Any]) -> None:
        """Serves one partition of a task. `said`: the line that opens it. Raises ConnectionError
        if the task must fail; ImpossibleError; _UnwantedError."""
        kind = kind_of(said, FROM_SENDER)
        if kind != "open":
            raise ImpossibleError(f"{kind!r} before it has opened a partition")
        attempt = said["attempt"]
        with self._state.changed:
            if said["data"] != self._state.data or not self._state.live:
                raise _UnwantedError
            if said["open"] >= self._state.partitions:
                raise ImpossibleError(f"partition {said['open']} of {self._state.partitions}")
            part = (self._state.pass_number, said["open"])
            answer = self._state.ledger.open(part, attempt)
            self._state.begun += 1
            self._state.progress = time.monotonic()
            self._state.moved.notify_all()  # an earlier attempt may wait
        if not isinstance(answer, entries.Opened):
            self._tell_end(line, part, answer)
            return
        objects = bool(self._state.asked_for("objects"))
        opened = {"done": answer.done, "sent": answer.sent, "pass": part[0]}
        line.say({**opened, "objects": objects})
        try:
            last: str | None = "objects" if objects else kind
            while last is not None:
                said = line.hear()
                kind = kind_of(said, FROM_SENDER)
                if kind not in _FOLLOW[last]:
                    raise ImpossibleError(f"{kind!r} after {last!r} of partition {part[1]}")
                try:
                    follows = self._answer_sender(line, part, attempt, said)
                except ValueError as error:
                    raise ImpossibleError(f"{kind!r}: {error}") from None
                last = kind if follows else None
        finally:
            with self._state.changed:
                self._state.ledger.abandon(part, attempt)
                self._state.moved.notify_all()

    def _answer_sender(
        self, line: Line, part: entries.Part, attempt: int, said: dict[str, Any]
    ) -> bool:
        """Answers a line. Returns whether further lines about this partition may follow."""
        if "fail" in said:
            self._state.fail(said["fail"])
            line.say({"failed": True})
            return False
        if "features" in said:
            with self._state.changed:
                if self._state.features is None:
                    self._state.features = said["features"]
                    self._state.say_all({"features": self._state.features})
                features = self._state.features
            line.say({"features": features})
            return True
        if "lost" in said:
            raise _UnwantedError
        if "grant" in said:
            return self._grant(line, part, attempt, said)
        if "finish" in said:
            with self._state.changed:
                done = self._state.ledger.finish(part, attempt, said["finish"])
                self._state.progress = time.monotonic()
                self._state.publish()
                self._state.wake()
                self._state.short.pop(part, None)
                if isinstance(done, entries.Short):
                    self._state.short[part] = done.words
            if isinstance(done, entries.Short):
                line.say({"short": done.words})
                return True
            if isinstance(done, entries.Changed):
                line.say({"error": done.words})
                return True
            self._tell_end(line, part, done)
            return False
        self._tell_end(line, part, entries.Superseded())
        return False

    def _grant(self, line: Line, part: entries.Part, attempt: int, said: dict[str, Any]) -> bool:
        first, rows, each = said["grant"], said["rows"], said["size"] / said["rows"]
        pieces: list[tuple[str, int]] = []
        with self._state.changed:
            while rows:
                if not self._state.live or self._state.closed:
                    raise _UnwantedError
                granted = self._state.ledger.grant(part, attempt, first, rows, int(rows * each))
                if isinstance(granted, entries.Piece):
                    by_number = {p.number: p.instance for p in self._state.programs.values()}
                    address = self._state.fed.addresses[by_number[granted.worker]]
                    pieces.append((address, granted.rows))
                    first, rows = first + granted.rows, rows - granted.rows
                elif pieces:
                    break  # the rest is asked for again in the next line
                elif isinstance(granted, entries.Superseded):
                    break
                else:
                    self._state.moved.wait()
        if not pieces:
            self._tell_end(line, part, entries.Superseded())
            return False
        line.say({"pieces": pieces})
        return True

    def _tell_end(self, line: Line, part: entries.Part, answer: Any) -> None:
        """Tells an attempt that the partition is finished; a superseded one only when it is so.
        ConnectionError if the later attempt is gone: then Spark kills this attempt, or it fails
        with the connection and is tried again. _UnwantedError if the programs are gone."""
        if isinstance(answer, entries.Superseded):
            gone_by = float("inf")
            with self._state.changed:
                while not self._state.ledger.is_finished(part):
                    if not self._state.live or self._state.closed:
                        raise _UnwantedError
                    if time.monotonic() > gone_by:
                        raise ConnectionError("the later attempt is gone")
                    if self._state.ledger.is_fed(part):
                        gone_by = float("inf")
                    else:
                        gone_by = min(gone_by, time.monotonic() + KILL_PATIENCE)
                    self._state.moved.wait(LOOK_EVERY)
            line.say({"superseded": True})
        else:
            line.say({"finished": True})

    def _serve_asker(self, line: Line) -> None:
        """Serves a task that asks programs: tells it their addresses, and handles its report of a
        wrong answer."""
        is_routed = False
        while True:
            said = line.hear()
            kind = kind_of(said, FROM_ASKER)
            if kind != "route" and not is_routed:
                raise ImpossibleError(f"{kind!r} before it has asked for a program")
            is_routed = True
            if kind == "wrong":
                self._wrong(said["wrong"], said["stage"])
                return
            if kind == "lost":
                with self._state.changed:
                    # Until the driver has noticed that a program is gone.
                    self._state.changed.wait_for(
                        lambda: self._state.broken is not None or self._state.closed, KILL_PATIENCE
                    )
                    # The verdict has the error of the program.
                    self._state.changed.wait_for(self._is_over, KILL_PATIENCE)
                    if not self._is_over():
                        return
                line.say(self._route(0))
                continue
            line.say(self._route(said["route"]))

    def _is_over(self) -> bool:
        return self._state.closed or bool(self._state.view.ended)

    def _route(self, part: int) -> dict[str, Any]:
        """Waits until all programs answer questions. Returns the address of the one that the task
        of partition `part` must ask, and whether it takes pickles; or the error of the feed, or of
        the application if it has ended."""
        with self._state.changed:
            while not self._all_answer():
                if self._state.unasked and not self._is_over():
                    return {"error": "the feed was ended: nothing can be asked after end_feed()"}
                if self._is_over():
                    return {"error": self._state.over()}
                try:
                    self._state.check_broken()
                except FeedError as error:
                    return {"error": str(error)}
                self._state.moved.wait(LOOK_EVERY)
            addresses = sorted(self._state.fed.addresses.items())
            address = addresses[part % len(addresses)][1]
            return {"address": address, "objects": bool(self._state.asked_for("objects"))}

    def _all_answer(self) -> bool:
        if self._state.broken is not None:
            return False
        programs = [self._state.programs.get(name) for name in self._state.fed.addresses]
        return bool(programs) and all(one is not None and one.answers for one in programs)

    def _wrong(self, words: str, stage: int) -> None:
        """Cancels the stage of a task that got a wrong answer, because every attempt would get
        it."""
        self._state.note(f"{self._state.name}: {words.splitlines()[0]}")
        context = self._state.asked_by
        if context is not None:
            with contextlib.suppress(Exception):  # the stage has ended by itself
                context._jsc.sc().cancelStage(stage, words)


def _listen(ports: Sequence[int]) -> socket.socket:
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), backlog=1024)
    raise FeedError(f"none of the ports {ports[0]} to {ports[-1]} is free for the feed")
