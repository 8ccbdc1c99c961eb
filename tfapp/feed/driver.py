"""In the driver: holds the ledger, is connected to every program that is fed, answers the tasks
that send, and has Spark run them."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfapp.feed import ledger as entries
from tfapp.feed.ledger import Ledger
from tfapp.feed.sender import Order
from tfapp.feed.source import Source
from tfapp.feed.wire import Credentials, FeedError, Line, connect

LOOK_EVERY = 0.5  # seconds between two looks at the application
RECONNECT_EVERY = 0.3
SLOT_PATIENCE = 10.0  # seconds until it is said that no task has begun
KILL_PATIENCE = 5.0  # seconds until Spark has ended the other attempts at a partition
BROKEN_LIMIT = 60.0  # seconds in which it is seen why a program's connection has ended
CAPACITY = 16 << 20  # bytes that one program holds
STALL_TIMEOUT = 600.0  # seconds
# What programs must ask for alike, and how it is called.
_ALIKE = {"batch": "batches of", "columns": "columns", "window": "a shuffle window of"}

log = logging.getLogger(__name__)


class View(NamedTuple):
    """The application now. `addresses`: instance -> "host:port" of its feed. `ended`: its verdict
    in a sentence, "" while it runs."""

    generation: int
    addresses: Mapping[str, str]
    ended: str = ""
    succeeded: bool = False


class FeedResult(NamedTuple):
    """What came of a feed. `rows`: that programs got; `batches`: that each program got in its
    last generation; `dropped`: rows at the end that made no full batch for everyone; `lost`: rows
    of programs that failed without a state that has them; `stopped`: whether the programs wanted
    no more."""

    rows: int
    batches: int
    dropped: int
    lost: int
    stopped: bool


class ApplicationEndedError(Exception):
    """It has ended with a verdict while it was fed."""


class _Program:
    """One that is fed, in one generation."""

    def __init__(self, instance: str, number: int, line: Line):
        self.instance, self.number, self.line = instance, number, line
        self.ready: Mapping[str, Any] | None = None
        self.answers = False
        self.took = 0
        self.holds: int | None = None  # batches that it took, while it is to take no more


class Feeder:
    """Feeds one application, from its making until `close`. Usable from any thread."""

    def __init__(
        self,
        look: Callable[[], View],
        credentials: Credentials,
        host: str,
        *,
        name: str = "feed",
        ports: Sequence[int] = (0,),
        rest: str = entries.DROP,
        capacity: int = CAPACITY,
        note: Callable[[str], None] = log.info,
    ):
        """`look`: shows the application. `host`: this driver's, as executors call it. `ports`: of
        which the first free one is listened at. `note`: is told what a user should know.
        FeedError when it cannot listen."""
        self._look, self._credentials, self._note = look, credentials, note
        self._name, self._stall_timeout = name, STALL_TIMEOUT
        self._ledger = Ledger(capacity, rest)
        self._feed = secrets.randbits(62)
        self._seed = random.Random(self._feed).randrange(1 << 20)
        self._server_tls = credentials.tls(server=True)
        self._client_tls = credentials.tls(server=False)
        lock = threading.RLock()
        self._changed = threading.Condition(lock)  # for the driver's user
        self._moved = threading.Condition(lock)  # for tasks that wait
        self._view = View(0, {})
        self._connecting = 0  # the generation whose programs are being connected
        self._programs: dict[str, _Program] = {}
        self._live = False  # whether this generation's programs take rows
        self._broken: tuple[float, str] | None = None
        self._features: list[dict[str, Any]] | None = None
        self._published: tuple[int, int, bool] | None = None
        self._error = ""
        self._short: dict[entries.Part, str] = {}  # what the last attempts said that saw too little
        self._data = 0  # number of the data that is fed now, from 1
        self._pass = 0
        self._asked_by: Any = None  # the SparkContext of tasks that want answers
        self._begun = 0  # tasks that have begun
        self._progress = time.monotonic()
        self._closed = False
        self._unasked = False  # whether no more questions come
        self._passes: list[tuple[int, Source, int, int]] = []  # (pass, source, partitions, data)
        self._numbers, self._datas = itertools.count(), itertools.count(1)
        self._listener = _listen(ports)
        port = self._listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._start(self._watch)
        self._start(self._accept)

    # ---- For the driver's user -----------------------------------------------------------------
    def feed(
        self,
        data: Any,
        passes: int = 1,
        final: bool = True,
        stall_timeout: float = STALL_TIMEOUT,
    ) -> FeedResult:
        """Feeds all rows of `data`, `passes` times. Returns when they are with the programs and,
        if it was the `final` data, when these have taken all of them, or want no more. FeedError,
        also when nothing moves for `stall_timeout` seconds; ApplicationEndedError; what Spark
        raises passes through."""
        if self._ledger.stopped:
            return self._result()
        self._stall_timeout = stall_timeout
        source = Source(data)
        self._wait_for_programs()
        source.check(self._columns())
        number = next(self._datas)
        order = Order(self.address, self._credentials.packed(), number)
        partitions = source.prepare(order, self._columns())
        with self._changed:
            for _ in range(passes):
                self._passes.append((next(self._numbers), source, partitions, number))
            self._progress = time.monotonic()
        while not self._is_done(final):
            todo = self._next_job()
            if todo is None:
                with self._changed:
                    self._changed.wait(LOOK_EVERY)
                    self._check()
                continue
            self._run_job(*todo)
        with self._changed:
            if not final:
                # Who begins again later cannot have the rows of a stream's earlier batches.
                for number, _, partitions, _ in self._passes:
                    if not self._ledger.unfinished(number, partitions):  # nobody has stopped it
                        self._ledger.settle(number)
                self._passes.clear()
        return self._result()

    def order(self, context: Any) -> Order:
        """What tasks of `context` that want answers need to know."""
        with self._changed:
            self._asked_by = context
        return Order(self.address, self._credentials.packed(), 0)

    def end(self, wait: bool = True) -> FeedResult:
        """No more data comes. Returns when the programs have taken all, unless with `wait`
        False."""
        with self._changed:
            self._unasked = True
            self._say_all({"unasked": True})
            self._ledger.end()
            self._publish()
            self._progress = time.monotonic()
            while wait and self._data and not self._is_done(final=True):
                self._changed.wait(LOOK_EVERY)
                self._check()
        return self._result()

    @property
    def stopped(self) -> bool:
        """Whether the programs want no more, or have ended."""
        with self._changed:
            return self._ledger.stopped or bool(self._view.ended)

    def close(self) -> None:
        """Ends every connection. Programs that wait for rows fail."""
        with self._changed:
            self._closed = True
            for program in self._programs.values():
                program.line.end()
            self._wake()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _result(self) -> FeedResult:
        with self._changed:
            ledger = self._ledger
            got = ledger.before + sum(program.took for program in self._programs.values())
            stopped = ledger.stopped or bool(self._view.ended and not ledger.complete)
            dropped = ledger.dropped if ledger.over else 0
            return FeedResult(got, ledger.batches, dropped, ledger.lost, stopped)

    # ---- Jobs ----------------------------------------------------------------------------------
    def _is_done(self, final: bool) -> bool:
        with self._changed:
            if self._ledger.stopped or (self._view.ended and self._view.succeeded):
                return True
            self._check()
            if not self._live or self._next_job() is not None:
                return False
            if not final:
                return True
            if not self._ledger.complete:
                self._ledger.end()
                self._publish()
            each = self._published
            if each is None:
                return False
            whole = each[0] * self._batch() + each[1]
            return all(program.took >= whole for program in self._programs.values())

    def _next_job(self) -> tuple[int, Source, list[int], int] | None:
        """(pass, source, partitions, data) of which not all is with the programs."""
        with self._changed:
            if not self._live:
                return None
            for number, source, count, data in self._passes:
                parts = self._ledger.unfinished(number, count)
                if parts:
                    return number, source, parts, data
            return None

    def _run_job(self, number: int, source: Source, parts: list[int], data: int) -> None:
        """Has Spark send partitions, until that is done or there is a reason to end it."""
        from pyspark import InheritableThread

        group = f"tfapp-feed-{self._feed}-{secrets.token_hex(4)}"
        errors: list[Exception] = []
        with self._changed:
            self._pass, self._data = number, data
            self._begun = 0
            self._progress = time.monotonic()
            generation = self._ledger.generation

        def run() -> None:
            try:
                source.run(parts, group, f"{self._name}: feed")
            except Exception as error:  # Spark's Java exceptions have no class of their own
                errors.append(error)
            with self._changed:
                self._changed.notify_all()

        thread = InheritableThread(target=run, daemon=True)
        thread.start()
        cancelled = False
        try:
            told = time.monotonic() + SLOT_PATIENCE
            while thread.is_alive():
                with self._changed:
                    if thread.is_alive():
                        self._changed.wait(LOOK_EVERY)
                    self._check()
                    if not self._begun and time.monotonic() > told:
                        told = float("inf")
                        self._note(f"{self._name}: the feed waits for a free slot of executors")
                    over = self._ledger.stopped or self._view.ended
                    cancelled = bool(over or not self._live)
                    cancelled = cancelled or generation != self._ledger.generation
                if cancelled:
                    break
        finally:
            while thread.is_alive():  # a job that begins late is not cancelled the first time
                source.context.cancelJobGroup(group)
                thread.join(LOOK_EVERY)
        ended = set(parts) if not errors else self._ended(source, group)
        with self._changed:
            for part in ended:
                self._ledger.confirm((number, part))
            self._publish()
            self._wake()
            self._check()
        if errors and not cancelled:
            from tfapp.engines.spark.driver import first_words

            words = next(iter(self._short.values()), first_words(errors[0]))
            raise FeedError(f"Spark could not send the data: {words}")

    def _ended(self, source: Source, group: str) -> set[int]:
        """The partitions that need not be read again."""
        try:
            return source.ended(group)
        except Exception:  # of Java's; more is read again then
            log.info("Spark does not say which of its tasks have ended", exc_info=True)
            return set()

    def _check(self) -> None:
        """Raises what ends the feed."""
        if self._error:
            raise FeedError(self._error)
        if self._closed:
            raise FeedError("the feed is closed")
        if self._view.ended and not self._view.succeeded:
            raise ApplicationEndedError(self._view.ended)
        now = time.monotonic()
        if self._broken is not None and now - self._broken[0] > BROKEN_LIMIT:
            self._fail(self._broken[1])
            raise FeedError(self._error)
        if now - self._progress > self._stall_timeout and not self._view.ended:
            self._fail(f"nothing has moved for {self._stall_timeout:g} s: {self._stalled()}")
            raise FeedError(self._error)

    def _stalled(self) -> str:
        """Why nothing moves, as far as that is known."""
        silent = [name for name in self._view.addresses if name not in self._programs]
        silent += [p.instance for p in self._programs.values() if p.ready is None]
        if not self._view.addresses:
            return "no program of the application exports a feed port"
        if silent:
            return f"context.feed.dataset() was not called by {', '.join(silent)}"
        batches, rest, _ = self._published or (0, 0, False)
        whole = batches * self._batch() + rest
        slow = [p.instance for p in self._programs.values() if p.took < whole]
        if slow:
            return f"there are batches for {', '.join(slow)}, and the program takes none"
        if not self._begun:
            return "Spark has begun no task that sends; its executors may have no free slot"
        return "the tasks that send get no rows from the data"

    def _fail(self, words: str) -> None:
        with self._changed:
            self._error = self._error or words
            for program in self._programs.values():
                with contextlib.suppress(OSError):
                    program.line.say({"error": f"the feed has failed: {words}"})
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        self._moved.notify_all()

    # ---- The application -----------------------------------------------------------------------
    def _start(self, work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, name="tfapp-feed", daemon=True).start()

    def _watch(self) -> None:
        while not self._closed:
            try:
                view = self._look()
            except Exception:  # it may answer the next time; stall_timeout ends a silence
                log.warning("the application cannot be asked", exc_info=True)
            else:
                with self._changed:
                    self._view = view
                    if view.generation != self._connecting and view.addresses:
                        self._renew(view)
                    self._wake()
                if view.ended:
                    return
            time.sleep(LOOK_EVERY)

    def _renew(self, view: View) -> None:
        """The programs are others."""
        self._drop_programs()
        self._connecting = view.generation
        for number, (instance, address) in enumerate(sorted(view.addresses.items())):
            self._start(self._serve_program, view, number, instance, address)

    def _drop_programs(self) -> None:
        for program in self._programs.values():
            program.line.end()
        self._programs, self._live, self._broken, self._published = {}, False, None, None

    def _serve_program(self, view: View, number: int, instance: str, address: str) -> None:
        hello = {
            "role": "ledger",
            "feed": self._feed,
            "generation": view.generation,
            "worker": number,
            "seed": self._seed,
        }
        while True:
            with self._changed:
                if self._closed or self._connecting != view.generation:
                    return
            try:
                line = connect(address, self._client_tls, hello)
            except OSError:  # the program has not begun to listen
                time.sleep(RECONNECT_EVERY)
            else:
                break
        try:
            self._converse(_Program(instance, number, line), view)
        finally:
            line.close()

    def _converse(self, program: _Program, view: View) -> None:
        """Hears what a program says until its end, or until there are others."""
        with self._changed:
            if self._connecting != view.generation or self._closed:
                return
            self._programs[program.instance] = program
            self._progress = time.monotonic()
            if self._unasked:
                with contextlib.suppress(OSError):  # noticed below
                    program.line.say({"unasked": True})
        with contextlib.suppress(OSError):
            while True:
                said = program.line.hear()
                with self._changed:
                    if self._connecting != view.generation:
                        return
                    self._hear(program, said, view)
        with self._changed:
            if self._connecting == view.generation and not self._closed:
                self._live = False
                words = f"the connection to {program.instance} has ended, and its program goes on"
                self._broken = self._broken or (time.monotonic(), words)
                self._wake()

    def _hear(self, program: _Program, said: dict[str, Any], view: View) -> None:
        self._progress = time.monotonic()
        if "commit" in said:
            part = tuple(said["part"])
            ok = self._live and self._ledger.commit(
                program.number, part, said["attempt"], said["first"], said["rows"], said["digest"]
            )
            program.line.say({"entered": said["commit"], "ok": ok})
            self._publish()
            self._moved.notify_all()
        elif "took" in said:
            program.took = said["took"]
            self._ledger.take(program.number, program.took)
            self._moved.notify_all()
            if self._ledger.over:
                self._changed.notify_all()
        elif "ready" in said:
            program.ready = said["ready"]
            ready = [each for each in self._programs.values() if each.ready is not None]
            if len(ready) == len(view.addresses):
                self._begin(view, ready)
        elif "answers" in said:
            program.answers = True
            self._moved.notify_all()
        elif "stop" in said and not self._ledger.over:
            # What others have taken meanwhile is known when they hold.
            self._say_all({"hold": True})
        elif "holds" in said:
            program.holds = said["holds"]
            held = [each.holds for each in self._programs.values()]
            if all(each is not None for each in held):
                self._ledger.stop(max(each or 0 for each in held))
                self._publish()
                self._wake()

    def _begin(self, view: View, programs: Sequence[_Program]) -> None:
        """All programs of a generation take rows."""
        first = programs[0].ready or {}
        for program in programs:
            for key, what in _ALIKE.items():
                mine = (program.ready or {})[key]
                if mine != first[key]:
                    self._fail(
                        f"{programs[0].instance} asks for {what} {first[key]} and "
                        f"{program.instance} for {mine}; all must ask for the same"
                    )
                    return
        state = self._state([program.ready or {} for program in programs])
        before = self._ledger.lost
        self._ledger.begin(
            view.generation,
            len(programs),
            first["batch"],
            window=first["window"],
            seed=self._seed,
            state=state,
        )
        lost = self._ledger.lost - before
        if lost > 0:
            self._note(
                f"{self._name}: {lost} rows went to programs that have failed, and are not fed "
                "again; with context.feed.state() in their checkpoint they would be"
            )
        self._live = True
        self._wake()
        if self._features is not None:
            self._say_all({"features": self._features})
        self._publish()

    def _state(self, ready: Sequence[Mapping[str, Any]]) -> tuple[int, list[int]] | None:
        states = [each["state"] for each in ready]
        if any(state is None or state[0] != self._feed for state in states):
            return None
        generations = {state[1] for state in states}
        if len(generations) > 1 or not self._ledger.knows(states[0][1], len(states)):
            return None
        return states[0][1], [state[2] for state in states]

    def _publish(self) -> None:
        now = self._ledger.batches, self._ledger.rest, self._ledger.over
        if now != self._published and self._live:
            self._published = now
            self._say_all({"batches": now[0], "rest": now[1], "over": now[2]})

    def _say_all(self, what: dict[str, Any]) -> None:
        for program in self._programs.values():
            with contextlib.suppress(OSError):  # its reader notices
                program.line.say(what)

    def _wait_for_programs(self) -> None:
        with self._changed:
            self._progress = time.monotonic()
            while not self._live and not self._ledger.stopped:
                self._changed.wait(LOOK_EVERY)
                self._check()
                if self._view.ended:
                    raise ApplicationEndedError(self._view.ended)

    def _columns(self) -> Sequence[str] | None:
        with self._changed:
            for program in self._programs.values():
                return (program.ready or {}).get("columns")
        return None

    def _batch(self) -> int:
        for program in self._programs.values():
            return int((program.ready or {"batch": 1})["batch"])
        return 1

    # ---- Tasks ---------------------------------------------------------------------------------
    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, connection)

    def _serve(self, plain: socket.socket) -> None:
        with plain, contextlib.suppress(OSError, ValueError, KeyError, ssl.SSLError):
            plain.settimeout(20.0)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._server_tls.wrap_socket(plain, server_side=True)
            line = Line(connection)
            hello = line.hear()
            connection.settimeout(None)
            try:
                if hello["role"] == "sender":
                    self._serve_sender(line)
                elif hello["role"] == "asker":
                    self._serve_asker(line)
            finally:
                line.close()

    def _serve_sender(self, line: Line) -> None:
        said = line.hear()
        attempt = said["attempt"]
        with self._changed:
            if said["data"] != self._data or not self._live:
                return
            part = (self._pass, said["open"])
            answer = self._ledger.open(part, attempt)
            self._begun += 1
            self._progress = time.monotonic()
            self._moved.notify_all()  # an earlier attempt may wait
        if isinstance(answer, entries.Opened):
            line.say({"done": answer.done, "pass": part[0]})
        elif not self._tell_end(line, part, answer):
            return
        try:
            while True:
                said = line.hear()
                if not self._answer_sender(line, part, attempt, said):
                    return
        finally:
            with self._changed:
                self._ledger.abandon(part, attempt)
                self._moved.notify_all()

    def _serve_asker(self, line: Line) -> None:
        """A task that wants answers: whom it may ask, and what it is to say when that is wrong."""
        while True:
            said = line.hear()
            if "wrong" in said:
                self._wrong(said["wrong"], said["stage"])
                return
            with self._changed:
                while not self._all_answer():
                    if self._closed or self._view.ended:
                        return
                    self._moved.wait()
                addresses = sorted(self._view.addresses.items())
            line.say({"address": addresses[said["route"] % len(addresses)][1]})

    def _all_answer(self) -> bool:
        programs = [self._programs.get(name) for name in self._view.addresses]
        return bool(programs) and all(one is not None and one.answers for one in programs)

    def _wrong(self, words: str, stage: int) -> None:
        """No attempt can give another answer: Spark need not make more."""
        self._note(f"{self._name}: {words}")
        context = self._asked_by
        if context is not None:
            with contextlib.suppress(Exception):  # the stage has ended by itself
                context._jsc.sc().cancelStage(stage, words)

    def _answer_sender(
        self, line: Line, part: entries.Part, attempt: int, said: dict[str, Any]
    ) -> bool:
        """Whether the task may ask more."""
        if "fail" in said:
            self._fail(said["fail"])
            return False
        if "features" in said:
            with self._changed:
                if self._features is None:
                    self._features = said["features"]
                    self._say_all({"features": self._features})
                features = self._features
            line.say({"features": features})
            return True
        if "grant" in said:
            return self._grant(line, part, attempt, said)
        if "finish" in said:
            with self._changed:
                done = self._ledger.finish(part, attempt, said["finish"])
                self._progress = time.monotonic()
                self._publish()
                self._wake()
                self._short.pop(part, None)
                if isinstance(done, entries.Short):
                    self._short[part] = done.words
            if isinstance(done, entries.Short):
                line.say({"short": done.words})
                return True
            if isinstance(done, entries.Changed):
                line.say({"error": done.words})
                return True
            return self._tell_end(line, part, done)
        return self._tell_end(line, part, entries.Superseded())

    def _grant(self, line: Line, part: entries.Part, attempt: int, said: dict[str, Any]) -> bool:
        with self._changed:
            while True:
                if not self._live or self._closed:
                    return False
                granted = self._ledger.grant(
                    part, attempt, said["grant"], said["rows"], said["size"]
                )
                if not isinstance(granted, entries.Wait):
                    break
                self._moved.wait()
            if isinstance(granted, entries.Piece):
                by_number = {p.number: p.instance for p in self._programs.values()}
                address = self._view.addresses[by_number[granted.worker]]
        if isinstance(granted, entries.Superseded):
            return self._tell_end(line, part, granted)
        line.say({"address": address, "rows": granted.rows})
        return True

    def _tell_end(self, line: Line, part: entries.Part, answer: Any) -> bool:
        """Says that a partition is done, when it is. Never, where the later attempt is gone: Spark
        ends this one, or the end of the connection makes it try again."""
        if isinstance(answer, entries.Superseded):
            gone_by = float("inf")
            with self._changed:
                while not self._ledger.is_finished(part):
                    if not self._live or self._closed or time.monotonic() > gone_by:
                        return False
                    if self._ledger.is_fed(part):
                        gone_by = float("inf")
                    else:
                        gone_by = min(gone_by, time.monotonic() + KILL_PATIENCE)
                    self._moved.wait(LOOK_EVERY)
            line.say({"superseded": True})
            return False
        line.say({"finished": True})
        return False


def _listen(ports: Sequence[int]) -> socket.socket:
    for port in ports:
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), backlog=1024)
    raise FeedError(f"none of the ports {ports[0]} to {ports[-1]} is free for the feed")
