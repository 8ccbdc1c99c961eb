"""The driver's server for Spark's tasks: for those that send rows, and those that ask programs."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

from tfapp.errors import FeedError
from tfapp.feed import ledger as entries
from tfapp.feed.state import State
from tfapp.feed.wire import Credentials, Line, start_thread

LOOK_EVERY = 0.5  # seconds between two checks whether a partition is finished
KILL_PATIENCE = 5.0  # seconds within which Spark kills attempts that must not go on


class _UnwantedError(Exception):
    """The job of this task is about to be cancelled."""


class Tasks:
    """Answers the tasks, in threads of its own."""

    def __init__(self, state: State, credentials: Credentials, ports: Sequence[int]):
        """`ports`: the ports to try; the first free one is used. FeedError if none is free."""
        self._state = state
        self._server_tls = credentials.tls(server=True)
        self._lines: set[Line] = set()
        self._listener = _listen(ports)
        self.port: int = self._listener.getsockname()[1]
        start_thread(self._accept)

    def close(self) -> None:
        """Stops listening and ends all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in list(self._lines):
            line.end()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._state.closed:
                    return
                time.sleep(LOOK_EVERY)  # too many files are open
                continue
            start_thread(self._serve, connection)

    def _serve(self, plain: socket.socket) -> None:
        with plain, contextlib.suppress(OSError, ValueError, KeyError, ssl.SSLError):
            plain.settimeout(20.0)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._server_tls.wrap_socket(plain, server_side=True)
            line = Line(connection)
            try:
                hello = line.hear()
                connection.settimeout(None)
                self._lines.add(line)
                if self._state.closed:
                    return
                if hello["role"] == "sender":
                    while True:
                        self._serve_partition(line, line.hear())
                elif hello["role"] == "asker":
                    self._serve_asker(line)
            except _UnwantedError:
                # The job is not cancelled yet: if the task failed now, Spark could give up the job.
                line.is_quiet(KILL_PATIENCE)
            finally:
                self._lines.discard(line)
                line.close()

    def _serve_partition(self, line: Line, said: dict[str, Any]) -> None:
        """Serves one partition of a task. `said`: the line that opens it. Raises ConnectionError
        if the task must fail; _UnwantedError."""
        attempt = said["attempt"]
        with self._state.changed:
            if said["data"] != self._state.data or not self._state.live:
                raise _UnwantedError
            part = (self._state.pass_number, said["open"])
            answer = self._state.ledger.open(part, attempt)
            self._state.begun += 1
            self._state.progress = time.monotonic()
            self._state.moved.notify_all()  # an earlier attempt may wait
        if not isinstance(answer, entries.Opened):
            self._tell_end(line, part, answer)
            return
        line.say({"done": answer.done, "pass": part[0]})
        try:
            while self._answer_sender(line, part, attempt, line.hear()):
                pass
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
                    address = self._state.view.addresses[by_number[granted.worker]]
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
        while True:
            said = line.hear()
            if "wrong" in said:
                self._wrong(said["wrong"], said["stage"])
                return
            if "lost" in said:
                with self._state.changed:
                    self._state.changed.wait_for(self._all_is_known, KILL_PATIENCE)
                return
            line.say(self._route(said["route"]))

    def _all_is_known(self) -> bool:
        """Whether the driver has noticed that a program is gone, or the feed is closed."""
        return self._state.broken is not None or self._state.closed

    def _route(self, part: int) -> dict[str, str]:
        """Waits until all programs answer questions. Returns the address of the one that the task
        of partition `part` must ask, or the error of the feed. ConnectionError if the application
        has ended."""
        with self._state.changed:
            while not self._all_answer():
                if self._state.closed or self._state.view.ended:
                    raise ConnectionError("there are no programs")
                try:
                    self._state.check_broken()
                except FeedError as error:
                    return {"error": str(error)}
                self._state.moved.wait(LOOK_EVERY)
            addresses = sorted(self._state.view.addresses.items())
            return {"address": addresses[part % len(addresses)][1]}

    def _all_answer(self) -> bool:
        if self._state.broken is not None:
            return False
        programs = [self._state.programs.get(name) for name in self._state.view.addresses]
        return bool(programs) and all(one is not None and one.answers for one in programs)

    def _wrong(self, words: str, stage: int) -> None:
        """Cancels the stage of a task that got a wrong answer, because every attempt would get
        it."""
        self._state.note(f"{self._state.name}: {words}")
        context = self._state.asked_by
        if context is not None:
            with contextlib.suppress(Exception):  # the stage has ended by itself
                context._jsc.sc().cancelStage(stage, words)


def _listen(ports: Sequence[int]) -> socket.socket:
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), backlog=1024)
    raise FeedError(f"none of the ports {ports[0]} to {ports[-1]} is free for the feed")
