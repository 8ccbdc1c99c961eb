"""What a feed shows of itself, and when."""

from __future__ import annotations

import threading

from tfapp.contract.status import FeedStatus
from tfapp.feed.driver.counters import LOOKS, STILL, Counters
from tfapp.feed.driver.ledger import SHARE, Ledger
from tfapp.feed.driver.state import FedProgram, FeedState, View

ADDRESSES = {"worker/0": "h:1", "worker/1": "h:2"}


class Line:
    """A connection to a program. `said`: what it heard, after how many shown counters."""

    def __init__(self, board: Board):
        self._board = board
        self.said: list[tuple[dict, int]] = []

    def say(self, what: dict) -> None:
        self.said.append((what, len(self._board.shown)))


class Board:
    def __init__(self) -> None:
        self.shown: list[FeedStatus] = []
        self.closed = threading.Event()

    def show(self, feed: FeedStatus) -> None:
        self.shown.append(feed)

    def close(self) -> None:
        self.closed.set()


class World:
    """A feed of two programs that take batches of 10 rows, and its counters."""

    def __init__(self, rest: str = SHARE):
        self.now = 100.0
        self.board = Board()
        self.state = FeedState("app", Ledger(1 << 20, rest), lambda note: None)
        self.state.is_fed = True
        self.counters = Counters(self.state, self.board, lambda: self.now)

    def begin(self, generation: int = 1) -> None:
        self.state.view = self.state.fed = View(generation, ADDRESSES)
        for number, name in enumerate(ADDRESSES):
            program = FedProgram(name, number, Line(self.board))  # type: ignore[arg-type]
            program.ready = {"batch": 10}
            self.state.programs[name] = program
        self.state.ledger.begin(generation, 2, 10)
        self.state.live = True

    def commit(self, first: int, rows: int) -> None:
        """Rows of the one partition get to the programs, the same number to each."""
        ledger = self.state.ledger
        while rows:
            worker, count = ledger.grant((0, 0), 0, first, rows, rows)  # type: ignore[misc]
            assert ledger.commit(worker, (0, 0), 0, first, count, 1)
            first, rows = first + count, rows - count
        self.state.publish()

    def look(self, seconds: float = 1.0) -> FeedStatus:
        """The newest counters after a look."""
        self.now += seconds
        self.counters.show()
        return self.board.shown[-1]


def test_rows_and_their_speed():
    world = World()
    world.begin()
    world.state.progress = world.now
    world.state.ledger.open((0, 0), 0)
    assert world.look() == FeedStatus(instances={"worker/0": 0, "worker/1": 0}, rows_per_second=0.0)
    world.commit(0, 40)
    seen = world.look()
    assert (seen.rows, seen.instances) == (40, {"worker/0": 20, "worker/1": 20})
    assert (seen.seconds, seen.rows_per_second) == (1.0, 20.0)
    for _ in range(LOOKS):
        world.state.progress = world.now
        seen = world.look()
    assert (seen.rows, seen.seconds, seen.rows_per_second) == (40, 1.0, 0.0)
    count = len(world.board.shown)
    world.look()
    assert len(world.board.shown) == count, "what is no news is not shown"


def test_the_last_counters_are_there_before_a_program_hears_of_the_end():
    world = World()
    world.begin()
    ledger = world.state.ledger
    ledger.open((0, 0), 0)
    world.commit(0, 35)
    ledger.finish((0, 0), 0, 35)
    ledger.confirm((0, 0))
    ledger.end()
    world.state.publish()
    (last,) = world.board.shown
    assert (last.rows, last.instances, last.dropped) == (34, {"worker/0": 17, "worker/1": 17}, 1)
    assert (last.over, last.stopped, last.rows_per_second) == (True, False, None)
    for program in world.state.programs.values():
        over = [(what["over"], shown) for what, shown in program.line.said]  # type: ignore
        assert over[-1] == (True, 1)
        assert all(not ended for ended, _ in over[:-1])
    # While programs that have failed are replaced by others, the numbers stay.
    world.state.programs, world.state.live = {}, False
    seen = world.look()
    assert (seen.rows, seen.instances, seen.dropped) == (34, {}, 1)


def test_a_failure_is_shown_before_the_programs_fail_of_it():
    world = World()
    world.begin()
    world.state.fail("column x has a null in partition 3" + 1000 * "!")
    (last,) = world.board.shown
    assert last.error.startswith("column x has a null in partition 3!!")
    assert len(last.error) == 500
    assert [shown for _, shown in world.state.programs["worker/0"].line.said] == [1]  # type: ignore


def test_it_says_for_whom_it_waits_once_nothing_has_moved_for_a_while():
    world = World()
    world.state.progress = world.now
    assert world.look(STILL).waits == ""
    assert world.look().waits == "no program of the application exports a feed port"
    world.begin()
    world.state.ledger.open((0, 0), 0)
    world.commit(0, 40)
    world.state.programs["worker/0"].took = 20
    assert world.look().waits == "there are batches for worker/1, and the program takes none"
    world.state.programs["worker/1"].took = 20
    world.state.idle = lambda: True
    assert world.look().waits == "the driver feeds nothing at the moment"


def test_where_nothing_is_fed_nothing_is_shown():
    world = World()
    world.state.is_fed = False
    world.begin()
    world.now += 1.0
    world.counters.show()
    assert world.board.shown == []


def test_programs_that_begin_again_without_their_rows():
    world = World()
    world.begin()
    world.state.ledger.open((0, 0), 0)
    world.commit(0, 40)
    world.state.ledger.take(0, 20)
    assert world.look().rows == 40
    world.begin(2)
    seen = world.look()
    assert (seen.rows, seen.lost, seen.rows_per_second) == (20, 20, 0.0)


def test_the_board_is_closed_with_the_feed():
    world = World()
    world.state.closed = True
    world.counters.start()
    assert world.board.closed.wait(60)
    assert len(world.board.shown) == 1
