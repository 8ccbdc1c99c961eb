"""The feed in the program's process: receives rows from Spark tasks and returns them in batches.

Lines to the driver, on the driver's connection:
    {"ready": {"batch": 64, "columns": ["x", "y"] or null, "window": 1, "state": [..] or null}}
    {"commit": N, "part": [0, 3], "attempt": 7, "first": 128, "rows": 64, "digest": 12}
    {"took": ROWS}    rows that the program has taken in total
    {"stop": true}
    {"holds": BATCHES}    batches that were taken; no more are taken for now
    {"answers": true}    the program answers questions
Lines from the driver:
    {"features": [...]}    see tfapp.feed.columns
    {"entered": N, "ok": true}    answers to commits, in their order
    {"batches": N, "rest": ROWS, "over": false}    batches that may be taken in total
    {"hold": true}    no batch may be taken until the next line with "batches"
    {"unasked": true}    no more questions follow
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
    joined,
    record_batch,
    serialized,
    taken,
    value_batch,
)
from tfapp.feed.ledger import window_order
from tfapp.feed.memory import RowsReader
from tfapp.feed.wire import Credentials, Line

Arrays = Mapping[str, "np.ndarray[Any, Any]"]

DRIVER_GONE = "the driver of the feed has gone"
ACCEPT_AGAIN = 0.5  # seconds after an error of accept
READ_LIMIT = 10.0  # seconds that the end of the process waits for threads in Arrow's code
RETURN_LIMIT = 120.0  # seconds within which a living driver connects to a new generation


class _Piece(NamedTuple):
    arrays: Arrays
    rows: int


class Question(NamedTuple):
    """Rows that need answers. Exactly one of these must be called, once: `reply` with arrays by
    name, `reply_values` with one value of any Arrow type for each row, or `refuse` with an error
    message. They raise OSError if the task is gone."""

    arrays: Arrays
    rows: int
    reply: Callable[[Arrays], None]
    reply_values: Callable[[Sequence[Any]], None]
    refuse: Callable[[str], None]


class Receiver:
    """Listens on the feed port until the process ends."""

    def __init__(self, port: int, credentials: Credentials, gone: Path):
        """`gone`: a file that is created when the driver is gone. If it exists, the receiver waits
        for the driver only for RETURN_LIMIT seconds, not for ever. OSError if it cannot listen."""
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
        self._handed = 0  # batches that the program has taken
        self._hold = False  # whether no batch may be taken until the next number of batches
        self._questions: deque[Question] = deque()
        self._unasked = False  # whether no more questions follow
        self._read = threading.Condition()
        self._reading = 0  # number of threads in Arrow's code
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
        """Tells the driver that the program takes batches from now on. Raises FeedError."""
        self._batch, self._window = batch, max(1, window)
        asked = {"batch": batch, "columns": columns and list(columns), "window": self._window}
        self._tell({"ready": {**asked, "state": state and list(state)}})

    def ready(
        self, batch: int, columns: Sequence[str] | None, window: int, state: Sequence[int] | None
    ) -> tuple[Feature, ...]:
        """Like `announce`, but also waits for the columns of the batches, and returns them; () for
        an empty feed. Raises FeedError."""
        self.announce(batch, columns, window, state)
        with self._changed:
            self._wait(lambda: self._features is not None or self._over)
            return self._features or ()

    def take(self) -> Arrays | None:
        """Waits for and returns the next batch; None at the end. Raises FeedError."""
        with self._changed:
            self._wait(self._has_batch)
            return self._taken(1)

    def next(self, most: int) -> Arrays | Question | None:
        """Waits for batches or a question, whichever comes first. Returns up to `most` available
        batches as one, or the question; None at the end. Raises FeedError."""
        with self._changed:
            self._wait(lambda: bool(self._questions) or self._has_batch())
            return self._questions.popleft() if self._questions else self._taken(most)

    def _has_batch(self) -> bool:
        """Whether a batch may be taken, or the feed is over."""
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
        """The program's position, (feed, generation, batches). `batches`: None for those that were
        taken."""
        with self._changed:
            self._wait(lambda: bool(self._hello))
            count = self._handed if batches is None else batches
            return self._hello["feed"], self._hello["generation"], count

    def stop(self) -> None:
        """Stops the feed. Waits until the final number of batches is known to all programs, so that
        this one may exit. Raises FeedError."""
        self._tell({"stop": True})
        with self._changed:
            self._wait(lambda: self._over)

    def question(self) -> Question | None:
        """Waits for and returns the next question; None at the end. Raises FeedError."""
        with self._changed:
            self._wait(lambda: bool(self._questions) or self._unasked)
            return self._questions.popleft() if self._questions else None

    def asks(self) -> None:
        """Tells the driver that the program answers questions from now on. Raises FeedError."""
        self._tell({"answers": True})

    def _tell(self, what: dict[str, Any]) -> None:
        with self._changed:
            self._wait(lambda: self._driver is not None)
            driver = self._driver
        if driver is not None:
            try:
                driver.say(what)
            except OSError:
                driver.end()  # the thread that reads the connection notices

    def _wait(self, ready: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: bool(self._error) or ready())
        if self._error and not ready():
            raise FeedError(self._error)

    def _assemble(self, rows: int) -> Arrays:
        """The first `rows` rows of the queue, which has that many, as the ledger knows."""
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
        return joined(parts)

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
        # Connections without the feed's credentials are closed silently.
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
        """At the end of the process: waits for threads in Arrow's code, because a thread that
        returns from there during Python's shutdown would abort the process."""
        with self._read:
            self._ends = True
            self._read.wait_for(lambda: not self._reading, READ_LIMIT)

    def _arrays(self, body: bytes) -> Arrays:
        """The columns of a piece, by name. At the end of the process it does not return: a task
        that noticed the end before the driver would fail, and after a few failures Spark's job."""
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
                return  # a driver is connected already
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
        with contextlib.suppress(OSError):  # disk full; then the next generation waits longer
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
        """Adds a committed piece to the queue, in the order of the ledger's commits."""
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
        arrays = joined([each.arrays for each in self._shuffled])
        rows = sum(each.rows for each in self._shuffled)
        hello = self._hello
        order = window_order(
            hello["seed"], hello["generation"], hello["worker"], self._windows, rows
        )
        self._queue.append(_Piece(taken(arrays, np.asarray(order, dtype=np.intp)), rows))
        self._windows += 1
        self._shuffled = []

    def _serve_rows(self, line: Line, hello: dict[str, Any]) -> None:
        """Receives pieces. Each gets an answer, in their order: whether the ledger has committed
        it."""
        reader = RowsReader(line)
        while True:
            head, body = reader.next()
            piece = _Piece(self._arrays(body), head["rows"])
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
        reader = RowsReader(line)
        while True:
            head, body = reader.next()
            arrays = self._arrays(body)

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


def batches(receiver: Receiver) -> Iterator[Arrays]:
    """Iterates over all batches. Raises FeedError."""
    while (found := receiver.take()) is not None:
        yield found
