"""Applications that share a queue with too little room for all of them: every one ends.

The queue grants the oldest request first, or any, or that of the application which has the least,
as YARN's queues do by their ordering policies `fifo` and `fair`. A real YARN with two applications
is in tests/clusters/yarn/test_queues.py. Everything else is the policy's. All times are in
seconds."""

from __future__ import annotations

import dataclasses
import random

import pytest

from tests.contract_values import make_limits
from tests.coordinator.world import NEVER, Runner, World, job
from tfapp.contract.exit import Exit
from tfapp.contract.names import QUEUE, SUCCEEDED
from tfapp.contract.status import GIVEN_BACK
from tfapp.coordinator.policy import forming, state
from tfapp.coordinator.policy.state import FINISHED

GANG = 60.0
START = 5.0  # from the grant of a container to its runner's answer
LIMITS = make_limits(gang=GANG, heartbeat=5, heartbeat_lost=30, settle=0.5)
DONE = Exit(0, None, "exit", "exit code 0")


class Shared(World):
    """An application of `size` workers, which all run for `seconds` once they have begun."""

    def __init__(self, size: int, seconds: float, begin: float, seed: int):
        super().__init__(job(f"worker={size}", limits=LIMITS, failure=NEVER), seed=seed)
        self.seconds = seconds
        self.full = QUEUE
        self.now = begin
        self.begin()
        for runner in self.everybody:
            self.hold(runner, QUEUE)

    @property
    def over(self) -> bool:
        return self.state.phase == FINISHED

    def requests(self) -> list[Runner]:
        return [] if self.over else [r for r in self.everybody if r.held and not r.ended]

    def used(self) -> int:
        return 0 if self.over else sum(not (r.held or r.ended) for r in self.everybody)

    def go_on(self, now: float) -> None:
        """Until `now`: runners answer, and programs end."""
        for runner in self.everybody:
            if not (runner.held or runner.ended) and now >= runner.granted + START:
                self.answer(runner.instance)
        for name, runner in self.runners.items():
            if runner.program and now >= runner.began + self.seconds:
                self.report(name, DONE)
        self.advance(now)

    @property
    def given_back(self) -> int:
        return sum(moment.kind == GIVEN_BACK for moment in self.state.timeline)


@dataclasses.dataclass
class Queue:
    """`size`: containers that run at once. `order`: one of ORDERS."""

    size: int
    order: str
    chance: random.Random
    users: list[Shared] = dataclasses.field(default_factory=list)
    now: float = 0.0

    def go_on(self) -> None:
        """One second."""
        self.now += 1
        for user in self.users:
            if not user.over:
                user.go_on(self.now)
        asked = [(user, runner) for user in self.users for runner in user.requests()]
        self.chance.shuffle(asked)
        room = self.size - sum(user.used() for user in self.users)
        assert room >= 0
        for _ in range(min(room, len(asked))):
            user, runner = min(asked, key=self.rank)
            asked.remove((user, runner))
            user.grant(runner)

    def rank(self, request: tuple[Shared, Runner]) -> float:
        user, runner = request
        return {"oldest": runner.requested, "any": 0.0, "least": user.used()}[self.order]

    def until(self, over, limit: float) -> None:
        while not over():
            assert self.now < limit, [(u.state.phase, u.used(), u.given_back) for u in self.users]
            self.go_on()


ORDERS = ("oldest", "any", "least")
SEEDS = [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))]


def stream(seed: int, order: str, limit: float) -> tuple[Shared, int]:
    """One application of eight in a queue of eight, and ten of one, each of which comes again as
    soon as it has ended. The large one, which ends within `limit`, and how many others ended
    before."""
    chance = random.Random(seed)
    queue = Queue(8, order, chance)

    def small() -> Shared:
        return Shared(1, chance.uniform(30, 300), queue.now, chance.randrange(1 << 30))

    large = Shared(8, 100, queue.now, seed)
    queue.users = [*(small() for _ in range(5)), large, *(small() for _ in range(5))]
    ended = 0
    while not large.over:
        assert queue.now < limit, (large.given_back, large.used())
        queue.go_on()
        for i, user in enumerate(queue.users):
            if user.over and user is not large:
                assert user.state.verdict.state == SUCCEEDED
                queue.users[i], ended = small(), ended + 1
    # Nobody comes any more: those who are there end.
    queue.until(lambda: all(user.over for user in queue.users), queue.now + 3600)
    return large, ended


@pytest.mark.slow
@pytest.mark.parametrize("order", ["oldest", "any"])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_eight_and_ten_of_one_without_an_end(seed, order):
    """The large one never finds the queue empty, and runs all the same. (Where the queue itself
    prefers who has the least, it would starve it.)"""
    large, ended = stream(seed, order, 24 * 3600)
    assert large.state.verdict.state == SUCCEEDED
    assert ended > 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_eight_and_ten_of_one(seed, order):
    chance = random.Random(seed)
    queue = Queue(8, order, chance)
    queue.users = [Shared(8, 100, 0.0, seed)]
    queue.users += [Shared(1, chance.uniform(30, 300), 0.0, 100 + n) for n in range(10)]
    chance.shuffle(queue.users)
    queue.until(lambda: all(user.over for user in queue.users), 3600)
    assert {user.state.verdict.state for user in queue.users} == {SUCCEEDED}


def two(seed: int, order: str, limit: float) -> list[Shared]:
    """Two that ask in the same second, and both need more than half of the queue."""
    queue = Queue(8, order, random.Random(seed))
    queue.users = [Shared(5, 100, 0.0, 2 * seed), Shared(6, 100, 0.0, 2 * seed + 1)]
    queue.until(lambda: all(user.over for user in queue.users), limit)
    return queue.users


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_two_that_need_more_than_half_each(seed, order):
    """One of them gets all that the other has given back. Nothing is charged for it."""
    users = two(seed, order, 3600)
    for user in users:
        charges = user.state.charges
        assert user.state.verdict.state == SUCCEEDED
        assert (charges.restarts, charges.losses, user.state.generation) == (0, 0, 1)
    assert order != "least" or sum(user.given_back for user in users) > 0


def test_what_chance_is_for(monkeypatch):
    """Without it two applications stay in step."""
    monkeypatch.setattr(forming, "longer", lambda _, seconds: seconds)
    with pytest.raises(AssertionError, match="FORMING"):
        two(0, "least", 3600)


@pytest.mark.slow
def test_what_doubling_is_for(monkeypatch):
    """Without it the large application is always too short of time."""
    with_it, _ = stream(1, "any", 24 * 3600)
    assert with_it.given_back > 0
    monkeypatch.setattr(state, "MAX_DOUBLINGS", 0)
    with pytest.raises(AssertionError):
        stream(1, "any", 4 * with_it.now)
