"""The ledger of a feed: the single place that decides which worker gets which rows, and records it.
It is a pure state machine, without network, Spark or clock. A worker is a program that is fed.

Partitions are fed by attempts of Spark tasks. A higher attempt number supersedes a lower one, which
can commit no rows from then on. Workers get equal numbers of rows, and no worker may take more
batches than every other worker can take. A generation is the time in which the same programs run.
In the next generation, rows that its programs have not seen are fed again.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Union

from tfapp.feed.intervals import Interval, Intervals, window_order

# A partition of one pass over the data: (number of the pass, number of the partition).
Part = tuple[int, int]

DROP, SHARE = "drop", "share"


class Opened(NamedTuple):
    """The attempt may send its partition, except for the rows that are `done`. `sent`: pieces that
    were sent before, of which not all rows are done; they must be the same again."""

    done: tuple[Interval, ...]
    sent: tuple[Interval, ...] = ()


class Finished(NamedTuple):
    """All rows of the partition are with workers."""


class Superseded(NamedTuple):
    """A later attempt feeds the partition."""


class Piece(NamedTuple):
    """The attempt must send its next `rows` rows to `worker`."""

    worker: int
    rows: int


class Wait(NamedTuple):
    """No worker has room. The attempt must ask again after a worker has taken a batch, or a granted
    piece has become void."""


class Changed(NamedTuple):
    """The partition has more rows than when it was computed before. `words`: a sentence for the
    user."""

    words: str


class Short(NamedTuple):
    """The attempt has seen fewer rows than there were before: its input was cut off, or the
    partition has changed. Another attempt will show which. `words`: a sentence for the user."""

    words: str


Answer = Union[Opened, Finished, Superseded]
Grant = Union[Piece, Wait, Superseded]


@dataclasses.dataclass
class _Granted:
    """Rows that an attempt may send and that are not committed yet."""

    first: int
    rows: int
    size: int
    worker: int


@dataclasses.dataclass
class _Partition:
    done: Intervals = dataclasses.field(default_factory=Intervals)
    attempt: int = -1
    alive: bool = False  # whether this attempt is still connected
    rows: int | None = None  # number of rows that an attempt has seen at its end
    sure: bool = False  # whether `rows` is confirmed as the number of the partition's rows
    granted: dict[int, _Granted] = dataclasses.field(default_factory=dict)  # by first row
    asked: int = 0  # the rows before this one were granted to the attempt, or were done
    sent: set[Interval] = dataclasses.field(default_factory=set)  # see Opened

    @property
    def finished(self) -> bool:
        return self.sure and self.done.rows == self.rows


@dataclasses.dataclass
class _Entry:
    """Consecutive rows of a partition that were committed to a worker."""

    part: Part
    first: int
    rows: int
    digest: int | None


@dataclasses.dataclass
class _Generation:
    """The information that is needed to go on from a state of this generation. `done`: rows that
    were done at its beginning, without those of settled passes, whose number is `settled`.
    `orders`: the entries of each worker, in the order of their commits. `lost`: number of rows that
    were lost before it."""

    done: dict[Part, Intervals]
    settled: int
    orders: Sequence[list[_Entry]]
    batch: int
    window: int
    lost: int


class _Worker:
    """The rows and bytes of a worker in this generation."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.committed = 0  # rows
        self.outstanding = 0  # rows that were granted and not committed
        self.taken = 0  # rows that the program has taken
        self.held = 0  # bytes that were granted, and not taken
        self._sizes: deque[tuple[int, int]] = deque()  # (rows, bytes) committed and not taken

    def add(self, entry: _Entry, size: int) -> None:
        self.entries.append(entry)
        self.committed += entry.rows
        self._sizes.append((entry.rows, size))

    def take(self, rows: int) -> None:
        """The program has taken `rows` rows in total."""
        more, self.taken = rows - self.taken, rows
        while more > 0:
            there, size = self._sizes.popleft()
            freed = size if more >= there else size * more // there
            self.held -= freed
            if more < there:
                self._sizes.appendleft((there - more, size - freed))
            more -= there


class Ledger:
    """The ledger of one feed, over all of its generations. Rows are numbered within their
    partition, from 0."""

    def __init__(self, capacity: int, rest: str = DROP):
        """`capacity`: bytes that a worker may hold. `rest`: what to do with the rows at the end
        that are too few for a full batch of every worker. DROP drops them; SHARE gives every worker
        a smaller last batch."""
        self._capacity = capacity
        self._rest = rest
        self._parts: dict[Part, _Partition] = {}
        self._workers: list[_Worker] = []
        self._batch = 1
        self._window = 1
        self._seed = 0
        self._ended = False
        self._limit: int | None = None
        self.generation = 0
        self.lost = 0  # rows that failed programs had taken, and that no restored state includes
        self._history: dict[int, _Generation] = {}
        self._settled: set[int] = set()  # passes that are not fed again
        self._settled_rows = 0
        self.gone = 0  # rows of settled passes that no restored state includes
        self.before = 0  # rows that were done before this generation, and are not fed again

    # ---- Generations ---------------------------------------------------------------------------
    def begin(
        self,
        generation: int,
        workers: int,
        batch: int,
        *,
        window: int = 1,
        seed: int = 0,
        state: tuple[int, Sequence[int]] | None = None,
    ) -> None:
        """Begins a generation with new programs. `batch`: rows of a batch. `window`: rows that are
        shuffled together, 1 for no shuffling. `state`: the state of the checkpoint that the
        programs have restored, (generation, number of batches of each of its workers); KeyError if
        that generation is not known. Without a state, rows that earlier programs took are lost.
        ValueError if the generation has begun already."""
        if generation in self._history:
            raise ValueError(f"generation {generation} is fed already")
        if state is None:
            taken = [worker.taken for worker in self._workers]
            self.lost += sum(taken)
            settled = self._rewind(self.generation, taken)
        else:
            then, batches = state
            if then not in self._history:
                raise KeyError(then)
            before = self._history[then]
            settled = self._rewind(then, [before.batch * count for count in batches])
            self.lost = before.lost
        self.lost += self._settled_rows - settled
        self.gone = self._settled_rows - (settled if state is not None else 0)
        done = sum(known.done.rows for known in self._parts.values())
        self.before = self._settled_rows + done
        self._workers = [_Worker() for _ in range(workers)]
        self._batch, self._window, self._seed = batch, max(1, window), seed
        if self._limit is not None:
            self._limit = 0  # a feed that was stopped stays stopped
        self.generation = generation
        self._history[generation] = _Generation(
            done={part: known.done.copy() for part, known in self._parts.items()},
            settled=self._settled_rows,
            orders=[worker.entries for worker in self._workers],
            batch=batch,
            window=self._window,
            lost=self.lost,
        )

    def _rewind(self, generation: int, taken: Sequence[int]) -> int:
        """Resets the done rows to those before `generation`, plus the first `taken` rows of each of
        its workers. Returns how many of these belong to settled passes."""
        for known in self._parts.values():
            known.done, known.granted, known.attempt, known.alive = Intervals(), {}, -1, False
        if generation not in self._history:
            return 0
        before = self._history[generation]
        settled = before.settled
        for part, done in before.done.items():
            self._parts[part].done = done.copy()
        for worker, (entries, rows) in enumerate(zip(before.orders, taken)):
            there = sum(entry.rows for entry in entries)
            settled += self._redo(generation, worker, entries, min(rows, there), before.window)
        return settled

    def workers_of(self, generation: int) -> int:
        """The number of workers that a generation had; 0 for one that is not known."""
        known = self._history.get(generation)
        return len(known.orders) if known is not None else 0

    def _redo(
        self, generation: int, worker: int, entries: Sequence[_Entry], rows: int, window: int
    ) -> int:
        """Marks the first `rows` rows of a worker as done. Returns how many of them belong to
        settled passes."""
        whole = rows // window * window  # rows in the windows that were taken completely
        end = whole if rows == whole else whole + window
        at = settled = 0
        for entry in entries:
            count = min(entry.rows, max(0, whole - at))
            if entry.part == _SETTLED:
                settled += count
            elif count:
                digest = entry.digest if count == entry.rows else None
                self._parts[entry.part].done.add(entry.first, entry.first + count, digest)
            if at < end and count < entry.rows and entry.part != _SETTLED:
                piece = Interval(entry.first, entry.first + entry.rows, entry.digest)
                self._parts[entry.part].sent.add(piece)
            at += entry.rows
        if rows == whole:
            return settled
        inside = min(window, at - whole)
        order = window_order(self._seed, generation, worker, whole // window, inside)
        for part, row in _rows_at(entries, [whole + at for at in sorted(order[: rows - whole])]):
            if part == _SETTLED:
                settled += 1
            else:
                self._parts[part].done.add(row, row + 1, None)
        return settled

    # ---- Senders -------------------------------------------------------------------------------
    def open(self, part: Part, attempt: int) -> Answer:
        if part[0] in self._settled:
            return Finished()
        known = self._parts.setdefault(part, _Partition())
        if known.finished:
            return Finished()
        if attempt < known.attempt:
            return Superseded()
        self._void(known)
        known.attempt, known.alive, known.asked = attempt, True, 0
        return Opened(tuple(known.done), tuple(known.sent))

    def grant(self, part: Part, attempt: int, first: int, rows: int, size: int) -> Grant:
        """Grants rows to a worker: an attempt has `rows` rows from number `first` on, with `size`
        bytes in total. The answer says which worker gets how many of them. ValueError if there are
        no rows, or if one of them is done or was granted to this attempt before."""
        known = self._parts.get(part)
        if known is None or known.attempt != attempt or not self._workers:
            return Superseded()
        if rows < 1 or size < 0 or first < known.asked or known.done.overlaps(first, first + rows):
            raise ValueError(f"{rows} rows from {first} of partition {part[1]} cannot be granted")
        each = max(1, size // rows)
        totals = [worker.committed + worker.outstanding for worker in self._workers]
        poorest = totals.index(min(totals))
        worker = self._workers[poorest]
        level = -(-(sum(totals) + rows) // len(totals))
        count = min(rows, max(level - totals[poorest], min(self._least(), rows)))
        # A worker without rows for its next batches always gets some; otherwise all would wait.
        if totals[poorest] - worker.taken >= 2 * self._batch + self._window:
            room = (self._capacity - worker.held) // each
            if room < min(count, _ROOM) and worker.held:
                return Wait()
            count = max(1, min(count, room))
        elif worker.held:
            needed = 2 * self._batch + self._window
            count = min(count, max(needed, (self._capacity - worker.held) // each))
        known.granted[first] = _Granted(first, count, each * count, poorest)
        known.asked = first + count
        worker.outstanding += count
        worker.held += each * count
        return Piece(poorest, count)

    def _least(self) -> int:
        """Rows of the smallest piece, which limits the number of messages with many workers."""
        if len(self._workers) <= _FEW:
            return 1
        return max(1, min(_ROOM, self._batch // 8))

    def finish(
        self, part: Part, attempt: int, rows: int
    ) -> Finished | Superseded | Changed | Short:
        """An attempt has sent all rows that it has seen. `rows`: their number, including those that
        were done before. Its input may have been cut off unnoticed, so `confirm` must follow.
        ValueError if some of its rows are not committed."""
        known = self._parts.get(part)
        if known is None or known.attempt != attempt:
            return Superseded()
        if known.granted:
            raise ValueError(f"rows of partition {part[1]} are on their way to programs")
        seen = max([known.done.rows, *(piece.end for piece in known.sent)])
        before = known.rows if known.sure and known.rows is not None else seen
        words = (
            f"partition {part[1]} had {before} rows, and {rows} when it was computed again: "
            "persist the data before it is fed"
        )
        if rows < before:
            return Short(words)
        if rows > before:
            return Changed(words)
        known.rows = rows
        return Finished()

    def confirm(self, part: Part) -> None:
        """The task of a finished attempt has ended well, so the attempt has seen all rows."""
        known = self._parts.get(part)
        if known is not None:
            known.sure = known.rows is not None

    def abandon(self, part: Part, attempt: int) -> None:
        """An attempt is gone. Its granted rows that are not committed become void."""
        known = self._parts.get(part)
        if known is not None and known.attempt == attempt:
            known.alive = False
            self._void(known)

    def is_fed(self, part: Part) -> bool:
        return part in self._parts and self._parts[part].alive

    def is_finished(self, part: Part) -> bool:
        """Whether all rows of the partition are with workers."""
        return part[0] in self._settled or part in self._parts and self._parts[part].finished

    def settle(self, number: int) -> None:
        """Settles a finished pass: it is never fed again, not even to restarted programs. Rows of
        it that failed programs had are lost then. ValueError if the pass is not finished."""
        if any(part[0] == number and not p.finished for part, p in self._parts.items()):
            raise ValueError(f"pass {number} is not done")
        self._forget(number)

    def give_up(self, number: int) -> None:
        """Ends a pass early: the rows that workers have of it count as all of its rows, and are not
        fed again."""
        for part, known in self._parts.items():
            if part[0] == number:
                self._void(known)
        self._forget(number)

    def _forget(self, number: int) -> None:
        """Settles a pass and keeps only the number of its rows, so that the driver's memory does
        not grow with an endless stream."""
        self._settled.add(number)
        for part in [part for part in self._parts if part[0] == number]:
            self._settled_rows += self._parts.pop(part).done.rows
            for generation in self._history.values():
                if part in generation.done:
                    generation.settled += generation.done.pop(part).rows
        for generation in self._history.values():
            for entries in generation.orders:
                entries[:] = _joined(entries, number)

    def _void(self, known: _Partition) -> None:
        for granted in known.granted.values():
            worker = self._workers[granted.worker]
            worker.outstanding -= granted.rows
            worker.held -= granted.size
        known.granted.clear()

    # ---- Workers -------------------------------------------------------------------------------
    def commit(
        self, worker: int, part: Part, attempt: int, first: int, rows: int, digest: int | None
    ) -> bool:
        """Commits a piece that a worker has received completely. Returns whether the rows now
        belong to the worker; if not, it must discard them."""
        known = self._parts.get(part)
        granted = known.granted.get(first) if known is not None else None
        if known is None or granted is None or known.attempt != attempt:
            return False
        if (granted.worker, granted.rows) != (worker, rows):
            return False
        del known.granted[first]
        known.done.add(first, first + rows, digest)
        mine = self._workers[worker]
        mine.outstanding -= rows
        mine.add(_Entry(part, first, rows, digest), granted.size)
        return True

    def take(self, worker: int, rows: int) -> None:
        """The program of a worker has taken `rows` rows in total in this generation. ValueError if
        it cannot have taken so many."""
        mine = self._workers[worker]
        if not mine.taken < rows <= min(mine.committed, self.each):
            raise ValueError(f"{rows} rows, where it has taken {mine.taken} and may {self.each}")
        mine.take(rows)

    def stop(self, batches: int) -> None:
        """Stops the feed. `batches`: the number of batches that every worker gets, the most that
        any has taken."""
        self._limit = batches

    def end(self) -> None:
        """Ends the feed: no other partitions follow."""
        self._ended = True

    # ---- State of the feed ---------------------------------------------------------------------
    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def stopped(self) -> bool:
        return self._limit is not None

    @property
    def complete(self) -> bool:
        """Whether the feed has ended and all rows are with workers."""
        return self._ended and all(known.finished for known in self._parts.values())

    @property
    def batches(self) -> int:
        """The number of batches that every worker may take in this generation."""
        if not self._workers:
            return 0
        least = min(worker.committed for worker in self._workers)
        visible = least if self.complete else least // self._window * self._window
        count = visible // self._batch
        return count if self._limit is None else min(count, self._limit)

    @property
    def rest(self) -> int:
        """The size of the smaller last batch of every worker, after the full ones; 0 for none."""
        if self._rest != SHARE or not self.complete or self.stopped:
            return 0
        least = min((worker.committed for worker in self._workers), default=0)
        return least - self.batches * self._batch

    @property
    def over(self) -> bool:
        """Whether the number of batches is final: no worker gets more."""
        return self.complete or (self._limit is not None and self.batches == self._limit)

    @property
    def each(self) -> int:
        """The number of rows that every worker may take in this generation, once the feed is over
        the final one."""
        return self.batches * self._batch + self.rest

    @property
    def dropped(self) -> int:
        """Once the feed is over: the number of rows that no program gets."""
        return sum(worker.committed - self.each for worker in self._workers)

    @property
    def committed(self) -> list[int]:
        """Committed rows of this generation, by worker."""
        return [worker.committed for worker in self._workers]

    def unfinished(self, number: int, partitions: int) -> list[int]:
        """The unfinished partitions of a pass with this number of partitions."""
        if number in self._settled:
            return []
        parts = [self._parts.setdefault((number, n), _Partition()) for n in range(partitions)]
        return [n for n, known in enumerate(parts) if not known.finished]


_ROOM = 64  # least rows of a piece for a worker that holds rows already
_SETTLED = (-1, 0)  # stands for all partitions of settled passes
_FEW = 8  # up to this number of workers, pieces may be of one row


def _joined(entries: Iterable[_Entry], number: int) -> list[_Entry]:
    """The entries after the pass `number` was settled: adjacent entries of settled passes are
    merged."""
    found: list[_Entry] = []
    for entry in entries:
        if entry.part[0] not in (number, _SETTLED[0]):
            found.append(entry)
        elif found and found[-1].part == _SETTLED:
            found[-1].rows += entry.rows
        else:
            found.append(_Entry(_SETTLED, 0, entry.rows, 0))
    return found


def _rows_at(entries: Iterable[_Entry], places: Iterable[int]) -> Iterator[tuple[Part, int]]:
    """The rows at these places of a worker's order. `places`: ascending."""
    following, start = iter(entries), 0
    entry = next(following)
    for place in places:
        while place >= start + entry.rows:
            start, entry = start + entry.rows, next(following)
        yield entry.part, entry.first + place - start
