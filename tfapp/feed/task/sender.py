"""The feed in a Spark task: sends a partition in pieces to the programs that the ledger names."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tfapp.errors import FeedError
from tfapp.feed import memory
from tfapp.feed.columns import (
    Feature,
    check,
    digest_of,
    element_type,
    features_of,
    is_pickled,
    pieces,
    size_of,
)
from tfapp.feed.intervals import DIGESTS, Interval
from tfapp.feed.task.pickled import runs
from tfapp.feed.task.pool import connections, telling_of_loss
from tfapp.feed.task.rows import Elements, batches_of, batches_of_runs, checked_or_pickles
from tfapp.feed.wire import Line

IN_FLIGHT = 2  # most pieces that a program has not answered


class FeedOrder(NamedTuple):
    """The parameters of a task. `server`: host:port of the ledger's server. `credentials`: see
    `Credentials.packed`. `data`: the number of the data that is fed."""

    server: str
    credentials: str
    data: int


def send_frame(
    order: tuple[Any, ...], names: Sequence[str], batches: Iterable[Any]
) -> Iterator[Any]:
    """For DataFrame.mapInArrow: sends a partition. `names`: of the columns."""
    from pyspark import TaskContext

    place = TaskContext.get()
    rows = named(batches, names)
    sent = send(FeedOrder(*order), rows, place.partitionId(), place.taskAttemptId())
    yield pa.record_batch([pa.array([sent], pa.int64())], names=["rows"])


def send_elements(
    order: tuple[Any, ...],
    columns: Sequence[str] | None,
    loads: Callable[[bytes], Sequence[Any]] | None,
    part: int,
    elements: Iterable[Any],
) -> Iterator[int]:
    """For RDD.mapPartitionsWithIndex: sends a partition. `loads`: unpickles an element of the RDD
    of `pickles_of`; None if the RDD has the elements themselves."""
    from pyspark import TaskContext

    if loads is None:
        batches = batches_of(elements, part, columns)
    else:
        batches = batches_of_runs(runs(elements, loads), part, columns)
    yield send(FeedOrder(*order), batches, part, TaskContext.get().taskAttemptId())


def named(batches: Iterable[Any], names: Sequence[str]) -> Iterator[Any]:
    """The batches with these names of columns."""
    return (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)


class _SupersededError(Exception):
    pass


class ShortError(OSError):
    """The partition has fewer rows than it had before."""


def send(order: FeedOrder, batches: Iterable[pa.RecordBatch], part: int, attempt: int) -> int:
    """Sends the rows `batches` of partition `part`. Returns their number; 0 if another attempt has
    sent them. FeedError if they cannot be fed by any attempt; OSError if this attempt cannot go
    on."""
    try:
        with connections(order.credentials) as connect:
            ledger = connect(order.server, "sender")
            try:
                return _Sender(ledger, connect, part, attempt, order.data).send(batches)
            except FeedError as error:
                # The task must not end before the driver knows why.
                with contextlib.suppress(OSError):
                    ledger.ask({"fail": str(error)})
                raise
    except _SupersededError:
        return 0


class _Sender:
    def __init__(
        self,
        ledger: Line,
        connect: Callable[[str, str], Line],
        part: int,
        attempt: int,
        data: int,
    ):
        self._ledger, self._connect = ledger, connect
        self._part, self._attempt, self._data = part, attempt, data
        self._pass = 0
        self._workers: dict[str, _Worker] = {}
        self._features: tuple[Feature, ...] | None = None
        self._types: list[pa.DataType] = []  # types of the numbers and texts in the columns
        self._known: list[Interval] = []  # rows sent before, to be compared

    def send(self, batches: Iterable[pa.RecordBatch]) -> int:
        opened = self._ask({"open": self._part, "attempt": self._attempt, "data": self._data})
        if "finished" in opened:
            return 0
        if isinstance(batches, Elements):
            batches.objects = opened["objects"]
        self._pass = opened["pass"]
        done = [Interval(*each) for each in opened["done"]]
        known = [*done, *(Interval(*each) for each in opened["sent"])]
        self._known = [each for each in known if each.digest is not None]
        at = 0
        for piece in pieces(checked_or_pickles(batches, self._checked)):
            self._compare(piece, at)
            self._send_batch(piece, at, done)
            at += piece.num_rows
        for worker in self._workers.values():
            self._settle(worker, 0)
        self._ask({"finish": at})
        return at

    def _checked(self, batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
        """The batch with its columns in the order of the first partition's. FeedError if it has
        others, or other types or shapes. `at`: the number of its first row."""
        is_first = self._features is None
        if self._features is None:
            found = features_of(batch)
            told = self._ask({"features": [each._asdict() for each in found]})
            self._features = tuple(Feature.from_dict(each) for each in told["features"])
            if {each[:2] for each in found} != {each[:2] for each in self._features}:
                raise FeedError(
                    f"partition {self._part} has the columns {_named(found)}, and the first one "
                    f"{_named(self._features)}"
                )
        names = [each.name for each in self._features]
        if sorted(batch.schema.names) != sorted(names):
            raise FeedError(
                f"row {at} of partition {self._part}: it has {', '.join(batch.schema.names)} where "
                f"the first has {', '.join(names)}"
            )
        batch = batch.select(names)
        if is_first:
            self._types = [element_type(field)[0] for field in batch.schema]
        for field, wanted in zip(batch.schema, self._types):
            kind = element_type(field)[0]
            if kind != wanted:
                raise FeedError(
                    f"column {field.name!r}, partition {self._part}, rows from {at} on: they are "
                    f"{kind}, and those before are {wanted}; make them alike"
                )
        check(batch, self._features, at, self._part)
        return batch

    def _compare(self, batch: pa.RecordBatch, at: int) -> None:
        """Raises FeedError if rows that were sent before were different then. `at`: the number of
        the first row of the batch."""
        end, left = at + batch.num_rows, []
        if is_pickled(batch.schema.names):  # equal objects may have different pickles
            self._known = [known for known in self._known if known.start >= end]
        for known in self._known:
            first, last = max(at, known.start), min(end, known.end)
            if first < last:
                digest = digest_of(batch.slice(first - at, last - first), first)
                known = known._replace(digest=((known.digest or 0) - digest) % DIGESTS)
            if known.end > end:
                left.append(known)
            elif known.digest:
                raise FeedError(
                    f"partition {self._part} has other rows when it is computed again: persist the "
                    "data before it is fed, or make it in the same order each time"
                )
        self._known = left

    def _send_batch(self, batch: pa.RecordBatch, at: int, done: list[Interval]) -> None:
        """Sends the rows of a batch that are not done. `at`: the number of its first row. `done`:
        the intervals of done rows from there on."""
        here, end = at, at + batch.num_rows
        while here < end:
            while done and done[0].end <= here:
                del done[0]
            if done and done[0].start <= here:
                here = min(end, done[0].end)
                continue
            stop = min(end, done[0].start) if done else end
            self._send_rows(batch.slice(here - at, stop - here), here)
            here = stop

    def _send_rows(self, rows: pa.RecordBatch, first: int) -> None:
        while rows.num_rows:
            granted = self._ask({"grant": first, "rows": rows.num_rows, "size": size_of(rows)})
            for address, count in granted["pieces"]:
                self._send_piece(self._worker(address), rows.slice(0, count), first)
                rows, first = rows.slice(count), first + count

    def _send_piece(self, worker: _Worker, piece: pa.RecordBatch, first: int) -> None:
        self._settle(worker, IN_FLIGHT - 1)
        head = {
            "part": [self._pass, self._part],
            "attempt": self._attempt,
            "first": first,
            "rows": piece.num_rows,
            "digest": None if is_pickled(piece.schema.names) else digest_of(piece, first),
        }
        with telling_of_loss(self._ledger):
            memory.send(worker.line, head, piece, worker.sent % IN_FLIGHT)
        worker.sent += 1
        worker.flying += 1

    def _settle(self, worker: _Worker, left: int) -> None:
        """Reads answers until at most `left` pieces are unanswered."""
        while worker.flying > left:
            worker.flying -= 1
            with telling_of_loss(self._ledger):
                answer = worker.line.hear()
            if "error" in answer:
                raise FeedError(answer["error"])
            if not answer["ok"]:
                # Raises: the attempt is superseded, or the programs take no rows.
                self._ask({"refused": True})

    def _worker(self, address: str) -> _Worker:
        if address not in self._workers:
            with telling_of_loss(self._ledger):
                self._workers[address] = _Worker(self._connect(address, "rows"))
        return self._workers[address]

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        answer = self._ledger.ask(what)
        if "superseded" in answer:
            raise _SupersededError
        if "short" in answer:
            raise ShortError(answer["short"])
        if "error" in answer:
            raise FeedError(answer["error"])
        return answer


class _Worker:
    """A program that gets rows. `sent`: number of pieces. `flying`: those without an answer."""

    def __init__(self, line: Line):
        self.line = line
        self.sent = self.flying = 0


def _named(features: Iterable[Feature]) -> str:
    return json.dumps({each.name: each.dtype for each in features})
