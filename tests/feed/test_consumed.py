"""Rows that are with a program are not yet in its model."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from tests.feed.world import Data, Later, Program, World, wait_for
from tfapp.errors import FeedError
from tfapp.feed.driver.state import View
from tfapp.tensorflowonspark.TFNode import DataFeed

pytestmark = pytest.mark.usefixtures("without_spark")


def data_feed(program: Program) -> DataFeed:
    return DataFeed(types.SimpleNamespace(feed=program.feed))  # type: ignore[arg-type]


def learn(
    program: Program,
    learned: list[int],
    each: Callable[[DataFeed], Any] = lambda feed: None,
    state: Any = None,
    rows: int = 16,
) -> list[int]:
    """What programs of TensorFlowOnSpark do. `each`: called after every batch."""
    feed = data_feed(program)
    if state is not None:
        feed.restore(state)
    while not feed.should_stop():
        learned += [int(row[0]) for row in feed.next_batch(rows)]
        each(feed)
    return learned


def train(world: World, data: Data) -> Later:
    return Later(lambda: world.feeder.feed(data, final=False, consumed=True))


class Rows(Data):
    """With two columns, so that a row is a tuple."""

    def batches(self, part: int) -> Any:
        for batch in super().batches(part):
            yield batch.append_column("more", batch.column(0))


def test_it_returns_when_the_last_rows_are_consumed(world, connected):
    """Those of a batch that is not full as well: the rest of it may never come."""
    go_on = threading.Event()
    learned: list[list[int]] = [[], []]

    def hold(mine: list[int]) -> Any:
        return lambda feed: len(mine) < 80 or go_on.wait(120)

    for program, mine in zip(world.begin(), learned):
        Later(lambda p=program, m=mine: learn(p, m, hold(m)))
    training = train(world, Rows([80, 80], connected))
    wait_for(lambda: [len(mine) for mine in learned] == [80, 80])
    wait_for(lambda: world.feeder._result().rows == 160)  # the driver hears of it a moment later
    assert world.feeder._result().consumed < 160
    assert training._found == []
    go_on.set()
    assert (training.result.rows, training.result.consumed) == (160, 160)
    # In the next data there is half a batch for each.
    assert train(world, Rows([20, 20], connected)).result.consumed == 200
    assert [len(mine) for mine in learned] == [96, 96]
    assert world.feeder.end().rows == 200
    wait_for(lambda: [len(mine) for mine in learned] == [100, 100])


def test_a_program_that_has_ended_well_has_consumed(world, connected):
    """It need not ask once more."""
    learned: list[list[int]] = [[], []]
    for program, mine in zip(world.begin(), learned):
        Later(lambda p=program, m=mine: m.extend(map(len, [data_feed(p).next_batch(40)])))
    training = train(world, Rows([40, 40], connected))
    wait_for(lambda: learned == [[40], [40]])
    assert training._found == []
    for program in world.programs:
        program.end()
    world.view = world.view._replace(done=frozenset({"worker/0"}))
    world.view = View(1, {}, "all well", True)
    assert training.result.consumed == 80


@pytest.mark.parametrize("kept", ["nothing", "less", "all", "nothing, and the feed ends"])
def test_a_loss_after_train_is_an_error(world, connected, kept):
    """Unless the programs have kept the feed's state."""
    learned: list[list[int]] = [[], []]
    states: list[Any] = [None, None]

    def save(number: int) -> Any:
        def save(feed: DataFeed) -> None:
            if len(learned[number]) == {"less": 48, "all": 80}.get(kept):
                states[number] = feed.state()

        return save

    for number, program in enumerate(world.begin()):
        Later(lambda p=program, n=number: learn(p, learned[n], save(n)))
    assert train(world, Rows([160], connected)).result.consumed == 160
    if "ends" in kept:
        world.feeder._state.unasked = True
        world.feeder._state.ledger.end()
    for program in world.programs:
        program.end()
    again = [
        Later(lambda p=p, state=state: learn(p, [], state=state))
        for p, state in zip(world.begin(), states)
    ]
    wait_for(lambda: world.feeder._state.ledger.generation == 2)
    if kept == "all":
        assert train(world, Rows([160], connected)).result[:4] == (320, 80, 0, 0)
        world.feeder.end()
        assert sum(len(each.result) for each in again) == 160
        return
    words = f"{64 if kept == 'less' else 160} rows were consumed before feed.. or train.. ret"
    for each in again:
        with pytest.raises(FeedError, match=words):
            assert each.result
    if "ends" not in kept:
        with pytest.raises(FeedError, match=words):
            world.feeder.feed(Rows([160], connected), final=False)


def test_a_loss_while_train_waits_is_counted(world, connected):
    """What no program has taken goes to the next generation."""
    learned: list[list[int]] = [[], []]
    gate = threading.Event()
    for program, mine in zip(world.begin(), learned):
        Later(lambda p=program, m=mine: learn(p, m, lambda feed: gate.wait(120), rows=64))
    training = train(world, Rows([160], connected))
    wait_for(lambda: [len(mine) for mine in learned] == [64, 64])
    known = world.feeder._state.programs.values()
    wait_for(lambda: all(each.took >= 64 for each in known))  # the driver hears of it later
    taken = sum(each.took for each in known)
    for program in world.programs:
        program.end()
    again = [Later(lambda p=p: learn(p, [])) for p in world.begin()]
    result = training.result
    odd = taken % 2  # both get as many: one row waits for the next call, and is dropped at the end
    left = 160 - taken - odd
    assert (result.rows, result.lost, result.consumed) == (160 - odd, taken, left)
    assert (result.dropped, world.feeder.end().dropped) == (0, odd)
    assert sum(len(each.result) for each in again) == left
    gate.set()
