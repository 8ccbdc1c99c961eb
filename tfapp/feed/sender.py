"""The feed in a Spark task: sends a partition in pieces to the programs that the ledger names.

Lines to the ledger's server, each with an answer; several partitions may follow one another:
    {"open": PART, "data": N, "attempt": A}
        -> {"done": [[0, 64, 12], ...], "pass": E} | {"finished": true} | {"superseded": true}
    {"features": [...]} -> {"features": [...]}, those of the first partition
    {"grant": first, "rows": 512, "size": BYTES} -> {"pieces": [["host:port", 256], ...]} | ...
    {"finish": ROWS} -> {"finished": true} | {"superseded": true} | {"short": "..."}
    {"lost": true}    a program is gone; has no answer: the driver ends the job or the connection
    {"fail": "..."}    the reason why this data cannot be fed, by any attempt; has no answer

Lines to a program, for each piece:
    {"part": [0, 3], "attempt": 7, "first": 128, "rows": 64, "digest": 12}
        -> {"ok": true}, once the ledger has committed the rows
The rows come with the line: see tfapp.feed.memory.

The server answers a superseded attempt only when the partition is finished: the task must not fail,
and must not end well before that.

If Spark cannot read a partition to its end, or the executor dies, the task sees the end of its
input, and Spark fails the task only afterwards. So a finished partition counts only after Spark
reports that the task has ended well. Until then another attempt may send the rows that follow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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
    pieces,
    size_of,
)
from tfapp.feed.intervals import DIGESTS
from tfapp.feed.pool import connections, telling_of_loss
from tfapp.feed.wire import Line

IN_FLIGHT = 2  # most pieces that a program has not answered


class Order(NamedTuple):
    """The parameters of a task. `server`: host:port of the ledger's server. `credentials`: see
    `Credentials.packed`. `data`: the number of the data that is fed."""

    server: str
    credentials: str
    data: int


class _SupersededError(Exception):
    pass


class ShortError(OSError):
    """The partition has fewer rows than it had before."""


def send(order: Order, batches: Iterable[pa.RecordBatch], part: int, attempt: int) -> int:
    """Sends the rows `batches` of partition `part`. Returns their number; 0 if another attempt has
    sent them. FeedError if they cannot be fed by any attempt; OSError if this attempt cannot go
    on."""
    try:
        with connections(order.credentials) as connect:
            ledger = connect(order.server, "sender")
            try:
                return _Sender(ledger, connect, part, attempt, order.data).send(batches)
            except FeedError as error:
                ledger.say({"fail": str(error)})
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

    def send(self, batches: Iterable[pa.RecordBatch]) -> int:
        opened = self._ask({"open": self._part, "attempt": self._attempt, "data": self._data})
        if "finished" in opened:
            return 0
        self._pass = opened["pass"]
        done = [tuple(each) for each in opened["done"]]
        at = 0
        for batch in pieces(batches):
            if batch.num_rows:
                self._check(batch, at)
                self._send_batch(batch, at, done)
                at += batch.num_rows
        for worker in self._workers.values():
            self._settle(worker, 0)
        self._ask({"finish": at})
        return at

    def _check(self, batch: pa.RecordBatch, at: int) -> None:
        if self._features is None:
            found = features_of(batch)
            told = self._ask({"features": [each._asdict() for each in found]})
            self._features = tuple(Feature.from_dict(each) for each in told["features"])
            names = [each[:2] for each in self._features]
            if [each[:2] for each in found] != names:
                raise FeedError(
                    f"partition {self._part} has the columns {_named(found)}, and the first one "
                    f"{_named(self._features)}"
                )
            self._types = [element_type(field)[0] for field in batch.schema]
        for field, wanted in zip(batch.schema, self._types):
            found = element_type(field)[0]
            if found != wanted:
                raise FeedError(
                    f"column {field.name!r}, partition {self._part}, rows from {at} on: they are "
                    f"{found}, and those before are {wanted}; make them alike"
                )
        check(batch, self._features, at, self._part)

    def _send_batch(self, batch: pa.RecordBatch, at: int, done: list[Any]) -> None:
        """Sends the rows of a batch that are not done, and compares those that are. `at`: the
        number of its first row. `done`: the intervals of done rows from there on."""
        here, end = at, at + batch.num_rows
        while here < end:
            if done and done[0][0] <= here:
                stop = min(end, done[0][1])
                self._compare(batch.slice(here - at, stop - here), here, done)
            else:
                stop = min(end, done[0][0]) if done else end
                self._send_rows(batch.slice(here - at, stop - here), here)
            here = stop

    def _compare(self, rows: pa.RecordBatch, first: int, done: list[Any]) -> None:
        """Raises FeedError if rows that are done were different when they were sent before."""
        start, end, digest = done[0]
        if digest is not None:
            digest = (digest - digest_of(rows, first)) % DIGESTS
        last = first + rows.num_rows
        if last < end:
            done[0] = (last, end, digest)
            return
        del done[0]
        if digest:
            raise FeedError(
                f"partition {self._part} has other rows when it is computed again: persist the "
                "data before it is fed, or make it in the same order each time"
            )

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
            "digest": digest_of(piece, first),
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
                is_entered = worker.line.hear()["ok"]
            if not is_entered:
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
