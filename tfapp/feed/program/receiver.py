"""The feed in the program's process: receives rows from Spark tasks and returns them in batches."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import queue
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfapp import threads
from tfapp.errors import FeedError
from tfapp.feed.columns import (
    Feature,
    arrays_of,
    is_pickled,
    joined,
    pickled,
    record_batch,
    serialized,
    taken,
)
from tfapp.feed.intervals import window_order
from tfapp.feed.lines import FROM_DRIVER, QUESTIONS, ROLES_AT_PROGRAM, ROWS, kind_of, role_of
from tfapp.feed.memory import RowsReader
from tfapp.feed.wire import Credentials, ImpossibleError, Line, serve
from tfapp.listener import Admit, Listener

Arrays = Mapping[str, "np.ndarray[Any, Any]"]

DRIVER_GONE = "the driver of the feed has gone"
READ_LIMIT = 10.0  # seconds that the end of the process waits for threads in Arrow's code
RETURN_LIMIT = 120.0  # seconds within which a living driver connects to a new generation


class _Piece(NamedTuple):
    arrays: Arrays
    rows: int

    def cut(self, rows: int) -> tuple[_Piece, _Piece]:
        """The first `rows` rows, and the others."""
        first, rest = taken(self.arrays, slice(0, rows)), taken(self.arrays, slice(rows, None))
        return _Piece(first, rows), _Piece(rest, self.rows - rows)


class Question(NamedTuple):
    """Rows that need answers. Exactly one of these must be called, once: `reply` with arrays by
    name, `reply_values` with one object that can be pickled for each row, or `refuse` with an error
    message; another one raises FeedError. They raise OSError if the task is gone."""

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
        self._objects = False
        self._batches, self._rest, self._over = 0, 0, False
        self._handed = 0  # batches that the program has taken
        self._took = self._consumed = 0  # rows, as the driver knows
        self.is_read = False  # whether batches were asked for
        self._asks = self._stops = False  # whether the driver has been told so
        self._hold = False  # whether no batch may be taken until the next number of batches
        self._questions: deque[Question] = deque()
        self._unasked = False  # whether no more questions follow
        self._read = threading.Condition()
        self._reading = 0  # number of threads in Arrow's code
        self._ends = False
        atexit.register(self._end)
        self._gone = gone
        if gone.exists():
            threads.after(RETURN_LIMIT, "tfapp-feed-return", self._give_up)
        self._listening = Listener("tfapp-feed", self._listener, self._serve)

    # ---- For the program -----------------------------------------------------------------------
    def announce(
        self,
        batch: int,
        columns: Sequence[str] | None,
        window: int,
        state: Sequence[int] | None,
        objects: bool = False,
    ) -> None:
        """Tells the driver that the program takes batches from now on. `objects`: whether it can
        take rows that make no tensors, as the column PICKLES. Raises FeedError."""
        self._batch, self._window, self._objects = batch, max(1, window), objects
        asked = {"batch": batch, "columns": columns and list(columns), "window": self._window}
        self._tell({"ready": {**asked, "state": state and list(state), "objects": objects}})

    def features(self) -> tuple[Feature, ...]:
        """Waits for and returns the columns of the batches; () for an empty feed. Raises
        FeedError."""
        with self._changed:
            self._wait(lambda: self._features is not None or self._over)
            return self._features or ()

    def take(self) -> Arrays | None:
        """Waits for and returns the next batch; None at the end. Raises FeedError."""
        with self._changed:
            self._ask_for(self._has_batch)
            return self._taken(1)

    def next(self, most: int) -> Arrays | Question | None:
        """Waits for batches or a question, whichever comes first. Returns up to `most` available
        batches as one, or the question; None at the end. Raises FeedError."""
        with self._changed:
            self._ask_for(lambda: bool(self._questions) or self._has_batch())
            return self._questions.popleft() if self._questions else self._taken(most)

    def _ask_for(self, ready: Callable[[], bool]) -> None:
        """Waits for `ready`. The program asks for more, so it has consumed what it took. The driver
        hears that now if nothing can be taken; otherwise the next "took" implies it."""
        self.is_read = True
        can_take = not self._hold and (self._handed < self._batches or self._rest > 0)
        if not self._error and not can_take and self._consumed < self._took:
            self._consumed = self._took
            self._tell({"consumed": self._took})
        self._wait(ready)

    def _has_batch(self) -> bool:
        """Whether a batch may be taken, or the feed is over."""
        return not self._hold and (self._handed < self._batches or self._over)

    def _taken(self, most: int) -> Arrays | None:
        count = min(most, self._batches - self._handed)
        if count > 0 and self._objects:
            count = min(count, self._alike())
        if count > 0:
            self._handed += count
            rows, taken_rows = count * self._batch, self._handed * self._batch
        elif self._rest:
            rows, self._rest = self._rest, 0
            taken_rows = self._handed * self._batch + rows
        else:
            return None
        arrays = self._assemble(rows)
        self._consumed, self._took = self._took, taken_rows
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
        with self._changed:
            if not self._stops:
                self._stops = True
                self._tell({"stop": True})
            self._wait(lambda: self._over)

    def question(self) -> Question | None:
        """Waits for and returns the next question; None at the end. Raises FeedError."""
        with self._changed:
            self._wait(lambda: bool(self._questions) or self._unasked)
            return self._questions.popleft() if self._questions else None

    def asks(self) -> None:
        """Tells the driver that the program answers questions from now on. Raises FeedError."""
        with self._changed:
            if not self._asks:
                self._asks = True
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

    def _alike(self) -> int:
        """The number of rows at the head of the queue that have the same columns."""
        names = list(self._queue[0].arrays)
        alike = itertools.takewhile(lambda piece: list(piece.arrays) == names, self._queue)
        return sum(piece.rows for piece in alike)

    def _assemble(self, rows: int) -> Arrays:
        """The first `rows` rows of the queue, which has that many, as the ledger knows."""
        if self._window > 1 and self._over and self._shuffled:
            self._shuffle()
        parts: list[Arrays] = []
        while rows:
            piece = self._queue.popleft()
            part, rest = piece.cut(min(rows, piece.rows))
            parts.append(part.arrays)
            if rest.rows:
                self._queue.appendleft(rest)
            rows -= part.rows
        return joined(parts)

    # ---- Connections ---------------------------------------------------------------------------
    def _serve(self, plain: socket.socket, address: object, admit: Admit) -> None:
        def begin(line: Line, hello: dict[str, Any]) -> None:
            admit()
            {
                "ledger": self._serve_driver,
                "rows": self._serve_rows,
                "questions": self._serve_questions,
            }[role_of(hello, ROLES_AT_PROGRAM)](line, hello)

        serve(plain, self._tls, begin, lambda: f"{self._name()} has got")

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

    def _is_gone(self) -> bool:
        return bool(self._error) or self._driver is None

    def _checked(self, body: bytes, rows: int, are_fed: bool) -> Arrays:
        """The columns of a piece. ImpossibleError if it has another number of rows, or if its rows
        are fed and have other columns than the driver has told."""
        try:
            arrays = self._arrays(body)
        except Exception as error:  # of Arrow
            raise ImpossibleError(f"rows that it cannot read: {error}") from None
        found = {name: values.shape for name, values in arrays.items()}
        wanted = {name: (rows, *shape[1:]) for name, shape in found.items()}
        if are_fed and not (
            self._objects and is_pickled(arrays)
        ):  # the driver has told the columns before it named this program to the task
            with self._changed:
                self._changed.wait_for(
                    lambda: self._features is not None or self._is_gone(), READ_LIMIT
                )
                wanted = {each.name: (rows, *each.shape) for each in self._features or ()}
                if self._is_gone():
                    return arrays
        if found != wanted:
            raise ImpossibleError(f"columns {found}, where {wanted} were announced")
        return arrays

    def _give_up(self) -> None:
        with self._changed:
            if self._driver is None:
                words = f"{DRIVER_GONE}, and none has come back in {RETURN_LIMIT:g} s"
                self._error = self._error or words
                self._changed.notify_all()

    def _serve_driver(self, line: Line, hello: dict[str, Any]) -> None:
        with self._changed:
            if self._driver is not None:
                line.say({"failed": f"{self._name()} has a driver already"})
                return
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
            error = f"{self._name()} has got from the driver of the feed {broken}"
            if not isinstance(broken, ImpossibleError):
                error = f"the feed failed here: {type(broken).__name__}: {broken}"
            with contextlib.suppress(OSError):
                line.say({"failed": error})
        with contextlib.suppress(OSError):  # disk full; then the next generation waits longer
            self._gone.touch()
        with self._changed:
            self._error = self._error or error
            for _, done in self._commits.values():
                done(False)
            self._changed.notify_all()

    def _name(self) -> str:
        return str(self._hello.get("instance", "a program"))

    def _is_possible(self, said: Mapping[str, Any], kind: str) -> bool:
        """Whether a line of the driver is possible after those before it."""
        if kind == "entered":
            return said["entered"] in self._commits
        if kind == "batches":
            now = self._batches, self._rest, self._over
            told = said["batches"], said["rest"], said["over"]
            more = not self._over and said["batches"] >= self._handed
            return told == now or (more and (said["over"] or not said["rest"]))
        if kind == "features":
            return self._features is None
        return not {"hold": self._hold, "unasked": self._unasked}.get(kind, False)

    def _take_word(self, said: dict[str, Any]) -> None:
        """Handles a line of the driver. ImpossibleError if it is not possible now."""
        kind = kind_of(said, FROM_DRIVER)
        if not self._is_possible(said, kind):
            raise ImpossibleError(f"{kind!r}: {said[kind]!r}, which is not possible now")
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
            part, piece = piece.cut(min(lacking, piece.rows))
            self._shuffled.append(part)
            if part.rows == lacking:
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
            kind_of(head, ROWS)
            piece = _Piece(self._checked(body, head["rows"], True), head["rows"])
            answer: queue.SimpleQueue[bool] = queue.SimpleQueue()
            with self._changed:
                driver = None if self._error else self._driver
                number = next(self._numbers)
                if driver is not None:
                    self._commits[number] = piece, answer.put
            if driver is None:
                return
            driver.say({"commit": number, **head})
            line.say({"ok": answer.get()})

    def _serve_questions(self, line: Line, hello: dict[str, Any]) -> None:
        reader = RowsReader(line)
        while True:
            head, body = reader.next()
            kind_of(head, QUESTIONS)
            arrays = self._checked(body, head["rows"], False)
            if not self._asks:
                raise ImpossibleError("a question, and answers none")
            question = _question(line, head, arrays)
            with self._changed:
                self._questions.append(question)
                self._changed.notify_all()


def _question(line: Line, head: Mapping[str, Any], arrays: Arrays) -> Question:
    """A question of a task, which can be answered in any thread."""
    unanswered = threading.Lock()

    def answer(more: Mapping[str, Any], rows: Any = None) -> None:
        if not unanswered.acquire(blocking=False):
            raise FeedError("the question was answered already")
        what = {"answer": head["question"], **more}
        if rows is None:
            line.say(what)
        else:
            line.send(what, serialized(rows))

    return Question(
        arrays,
        head["rows"],
        lambda found: answer({}, record_batch(found)),
        lambda found: answer({}, pickled(found)),
        lambda words: answer({"error": words}),
    )
