"""In the program's process: takes what Spark tasks send, and hands it out in batches.

On the driver's connection, lines to the driver:
    {"ready": {"batch": 64, "columns": ["x", "y"] or null, "window": 1, "state": [..] or null}}
    {"commit": N, "part": [0, 3], "attempt": 7, "first": 128, "rows": 64, "digest": 12}
    {"took": ROWS}    since the beginning, by the program
    {"stop": true}
    {"holds": BATCHES}    that it took, and it takes no more for now
    {"answers": true}    the program answers questions
and from it:
    {"features": [...]}    see tfapp.feed.columns
    {"entered": N, "ok": true}    the answer to a commit, in their order
    {"batches": N, "rest": ROWS, "over": false}    how many batches may be taken by now
    {"hold": true}    no batch may be taken until the next word about batches
    {"unasked": true}    no more questions come
    {"error": "..."}
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfapp.errors import FeedError
from tfapp.feed.columns import (
    Feature,
    arrays_of,
    record_batch,
    serialized,
    taken,
    value_batch,
)
from tfapp.feed.ledger import window_order
from tfapp.feed.wire import Credentials, Line

Arrays = Mapping[str, "np.ndarray[Any, Any]"]

DRIVER_GONE = "the driver of the feed has gone"
ACCEPT_AGAIN = 0.5  # seconds
READ_LIMIT = 10.0  # seconds that a thread may take for a piece while the process ends
RETURN_LIMIT = 120.0  # seconds in which a driver that lives has found a new generation


class _Piece(NamedTuple):
    arrays: Arrays
    rows: int


class Question(NamedTuple):
    """Rows that want an answer: one of the last three is called, once. `reply_values`: with any
    values that Arrow knows, one for each row."""

    arrays: Arrays
    rows: int
    reply: Callable[[Arrays], None]
    reply_values: Callable[[Sequence[Any]], None]
    refuse: Callable[[str], None]


class Receiver:
    """Listens at a port from its making, until the process ends."""

    def __init__(self, port: int, credentials: Credentials, gone: Path):
        """`gone`: the file that says for the next generation that the driver has gone: without it
        the next one would wait for ever. OSError when it cannot listen."""
        self._tls = credentials.tls(server=True)
        self._listener = socket.socket()
        # The runner holds the port and never listens there.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._listener.bind(("", port))
        self._listener.listen(1024)
        self._changed = threading.Condition()
        self._driver: Line | None = None
        self._hello: dict[str, Any] = {}
        self._error = ""
        self._features: tuple[Feature, ...] | None = None
        self._numbers = itertools.count()
        self._commits: dict[int, tuple[_Piece, Callable[[bool], None]]] = {}
        self._queue: deque[_Piece] = deque()
        self._shuffled: list[_Piece] = []  # rows of a window that is not full
        self._windows = 0
        self._batch = 0
        self._window = 1
        self._batches, self._rest, self._over = 0, 0, False
        self._handed = 0  # batches
        self._hold = False  # whether no more may be taken until it is known how many
        self._questions: deque[Question] = deque()
        self._unasked = False  # whether no more questions come
        self._read = threading.Condition()
        self._reading = 0  # threads that are in Arrow's code
        self._ends = False
        atexit.register(self._end)
        self._gone = gone
        if gone.exists():
            waiting = threading.Timer(RETURN_LIMIT, self._give_up)
            waiting.daemon = True
            waiting.start()
        self._start(self._accept)

    # ---- For the program -----------------------------------------------------------------------
    def announce(
        self, batch: int, columns: Sequence[str] | None, window: int, state: Sequence[int] | None
    ) -> None:
        """Says that the program takes batches from now on. FeedError."""
        self._batch, self._window = batch, max(1, window)
        asked = {"batch": batch, "columns": columns and list(columns), "window": self._window}
        self._tell({"ready": {**asked, "state": state and list(state)}})

    def ready(
        self, batch: int, columns: Sequence[str] | None, window: int, state: Sequence[int] | None
    ) -> tuple[Feature, ...]:
        """As `announce`, and waits until it is known what the batches contain. () for an empty
        feed. FeedError."""
        self.announce(batch, columns, window, state)
        with self._changed:
            self._wait(lambda: self._features is not None or self._over)
            return self._features or ()

    def take(self) -> Arrays | None:
        """The next batch, None when there is no other. FeedError."""
        with self._changed:
            self._wait(self._has_batch)
            return self._taken(1)

    def next(self, most: int) -> Arrays | Question | None:
        """Up to `most` batches as one, as many as are there, or a question, whatever is there
        first; None when no other comes. FeedError."""
        with self._changed:
            self._wait(lambda: bool(self._questions) or self._has_batch())
            return self._questions.popleft() if self._questions else self._taken(most)

    def _has_batch(self) -> bool:
        """Whether a batch may be taken, or it is known that none comes."""
        return not self._hold and (self._handed < self._batches or self._over)

    def _taken(self, most: int) -> Arrays | None:
        count = min(most, self._batches - self._handed)
        if count > 0:
            self._handed += count
            rows, taken_rows = count * self._batch, self._handed * self._batch
        elif self._rest:
            rows, self._rest = self._rest, 0
            taken_rows = self._handed * self._batch + rows
        else:
            return None
        arrays = self._assemble(rows)
        self._tell({"took": taken_rows})
        return arrays

    def state(self, batches: int | None) -> tuple[int, int, int]:
        """(feed, generation, batches): by default those that were taken."""
        with self._changed:
            self._wait(lambda: bool(self._hello))
            count = self._handed if batches is None else batches
            return self._hello["feed"], self._hello["generation"], count

    def stop(self) -> None:
        """No more is wanted. Waits until all programs know how many batches they get: this one may
        end then. FeedError."""
        self._tell({"stop": True})
        with self._changed:
            self._wait(lambda: self._over)

    def question(self) -> Question | None:
        """The next rows that want an answer, None when there will be none. FeedError."""
        with self._changed:
            self._wait(lambda: bool(self._questions) or self._unasked)
            return self._questions.popleft() if self._questions else None

    def asks(self) -> None:
        """Says that the program answers questions from now on."""
        self._tell({"answers": True})

    def _tell(self, what: dict[str, Any]) -> None:
        with self._changed:
            self._wait(lambda: self._driver is not None)
            driver = self._driver
        if driver is not None:
            try:
                driver.say(what)
            except OSError:
                driver.end()  # who reads it notices

    def _wait(self, ready: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: bool(self._error) or ready())
        if self._error and not ready():
            raise FeedError(self._error)

    def _assemble(self, rows: int) -> Arrays:
        """The first `rows` rows of the queue. The ledger says that they are there."""
        if self._window > 1 and self._over and self._shuffled:
            self._shuffle()
        parts: list[Arrays] = []
        while rows:
            piece = self._queue.popleft()
            count = min(rows, piece.rows)
            parts.append(taken(piece.arrays, slice(0, count)))
            if count < piece.rows:
                rest = taken(piece.arrays, slice(count, None))
                self._queue.appendleft(_Piece(rest, piece.rows - count))
            rows -= count
        return _joined(parts)

    # ---- Connections ---------------------------------------------------------------------------
    @staticmethod
    def _start(work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, name="tfapp-feed", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # too many files are open
                time.sleep(ACCEPT_AGAIN)
                continue
            self._start(self._serve, connection)

    def _serve(self, plain: socket.socket) -> None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Whoever does not take part in the feed is refused without a word.
        with plain, contextlib.suppress(OSError, ValueError, KeyError):
            plain.settimeout(20.0)
            connection = self._tls.wrap_socket(plain, server_side=True)
            line = Line(connection)
            try:
                hello = line.hear()
                connection.settimeout(None)
                serve = {
                    "ledger": self._serve_driver,
                    "rows": self._serve_rows,
                    "questions": self._serve_questions,
                }[hello["role"]]
                serve(line, hello)
            finally:
                line.close()

    def _end(self) -> None:
        """The process ends: it would abort with a thread that comes back from Arrow's code."""
        with self._read:
            self._ends = True
            self._read.wait_for(lambda: not self._reading, READ_LIMIT)

    def _arrays(self, body: bytes) -> Arrays:
        """What Arrow makes of a piece. While the process ends, it does not return: a task that
        heard of that end before the driver does would fail, and Spark's job after a few."""
        with self._read:
            self._read.wait_for(lambda: not self._ends)
            self._reading += 1
        try:
            return arrays_of(body)
        finally:
            with self._read:
                self._reading -= 1
                self._read.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            if self._driver is None:
                words = f"{DRIVER_GONE}, and none has come back in {RETURN_LIMIT:g} s"
                self._error = self._error or words
                self._changed.notify_all()

    def _serve_driver(self, line: Line, hello: dict[str, Any]) -> None:
        with self._changed:
            if self._driver is not None:
                return  # there is one already
            self._driver, self._hello = line, hello
            self._gone.unlink(missing_ok=True)
            self._changed.notify_all()
        error = DRIVER_GONE
        try:
            while True:
                said = line.hear()
                with self._changed:
                    self._take_word(said)
                    self._changed.notify_all()
        except OSError:
            pass
        except Exception as broken:
            error = f"the feed failed here: {type(broken).__name__}: {broken}"
        with contextlib.suppress(OSError):  # no room; the next generation waits
            self._gone.touch()
        with self._changed:
            self._error = self._error or error
            for _, done in self._commits.values():
                done(False)
            self._changed.notify_all()

    def _take_word(self, said: dict[str, Any]) -> None:
        if "entered" in said:
            piece, done = self._commits.pop(said["entered"])
            if said["ok"]:
                self._enter(piece)
            done(said["ok"])
        elif "batches" in said:
            self._batches, self._rest = said["batches"], said["rest"]
            self._over = said["over"]
            self._hold = self._hold and not self._over
        elif "hold" in said:
            self._hold = True
            if self._driver is not None:
                self._driver.say({"holds": self._handed})
        elif "features" in said:
            self._features = tuple(Feature.from_dict(each) for each in said["features"])
        elif "unasked" in said:
            self._unasked = True
        elif "error" in said:
            self._error = said["error"]

    def _enter(self, piece: _Piece) -> None:
        """The piece is this worker's. In the order in which the ledger says so."""
        if self._window == 1:
            self._queue.append(piece)
            return
        while piece.rows:
            lacking = self._window - sum(each.rows for each in self._shuffled)
            count = min(lacking, piece.rows)
            self._shuffled.append(_Piece(taken(piece.arrays, slice(0, count)), count))
            rest = taken(piece.arrays, slice(count, None))
            piece = _Piece(rest, piece.rows - count)
            if count == lacking:
                self._shuffle()

    def _shuffle(self) -> None:
        arrays = _joined([each.arrays for each in self._shuffled])
        rows = sum(each.rows for each in self._shuffled)
        hello = self._hello
        order = window_order(
            hello["seed"], hello["generation"], hello["worker"], self._windows, rows
        )
        self._queue.append(_Piece(taken(arrays, np.asarray(order, dtype=np.intp)), rows))
        self._windows += 1
        self._shuffled = []

    def _serve_rows(self, line: Line, hello: dict[str, Any]) -> None:
        """Pieces, each answered by whether it is entered, in their order."""
        while True:
            head = line.hear()
            piece = _Piece(self._arrays(line.body(head.pop("size"))), head["rows"])
            entered = threading.Event()
            answer: list[bool] = []

            def done(ok: bool, answer: list[bool] = answer, entered: Any = entered) -> None:
                answer.append(ok)
                entered.set()

            with self._changed:
                driver = None if self._error else self._driver
                number = next(self._numbers)
                if driver is not None:
                    self._commits[number] = piece, done
            if driver is None:
                return
            driver.say({"commit": number, **head})
            entered.wait()
            line.say({"ok": answer[0]})

    def _serve_questions(self, line: Line, hello: dict[str, Any]) -> None:
        while True:
            head = line.hear()
            arrays = self._arrays(line.body(head["size"]))

            def reply(found: Arrays) -> None:
                line.send({}, serialized(record_batch(found)))

            def reply_values(found: Sequence[Any]) -> None:
                line.send({}, serialized(value_batch(found)))

            def refuse(words: str) -> None:
                line.say({"error": words})

            question = Question(arrays, head["rows"], reply, reply_values, refuse)
            with self._changed:
                self._questions.append(question)
                self._changed.notify_all()


def _joined(parts: Sequence[Arrays]) -> Arrays:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def batches(receiver: Receiver) -> Iterator[Arrays]:
    """All batches to the end. FeedError."""
    while (found := receiver.take()) is not None:
        yield found
