"""A machine on which an instance was lost twice is avoided."""

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.world import World, job

LIMITS = make_limits(gang=60, heartbeat=1, heartbeat_lost=10, settle=0.5)


def another(*history: str) -> list[str]:
    """The requests for other containers."""
    failure = make_failure_policy(max_restarts=9, max_losses=9, startup=0)
    world = World(job("worker=2", limits=LIMITS, failure=failure)).play("\n".join(history))
    return [line.partition(" ")[2] for line in world.log if "another" in line]


def lost(at: int, how: str, who: str = "worker/1") -> tuple[str, ...]:
    return (f"{at} {who} {how}", f"{at + 20} all answer")


@pytest.mark.parametrize("how", ["lost", "is taken for dead", "falls silent"])
def test_after_the_second_loss_on_it(how):
    assert another(
        *("0 worker/0 on a", "0 worker/1 on a", "1 all answer"),
        *lost(10, how),
        *lost(60, how),
        "100 worker/0 lost",
        "101",
    ) == [
        "another container for worker/1",
        "another container for worker/1, not on a",
        "another container for worker/0",
    ]


@pytest.mark.parametrize("how", ["preempted", "killed 9", "exits 1"])
def test_not_for_what_is_no_fault_of_a_machine(how):
    found = another(
        *("0 worker/1 on a", "1 all answer"), *lost(10, how), *lost(60, how), *lost(160, how)
    )
    assert not any("not on" in line for line in found)


def test_another_machine_counts_for_itself_and_both_are_remembered():
    assert another(
        *("0 worker/1 on b", "1 all answer"),
        *lost(10, "lost"),
        "40 worker/1 on a",
        *lost(60, "lost"),
        *lost(110, "lost"),
        "131 worker/1 on b",
        *lost(160, "lost"),
        *lost(210, "lost"),
    )[1:] == [
        "another container for worker/1, not on b",
        "another container for worker/1, not on b",
        "another container for worker/1, not on a and b",
        "another container for worker/1, not on a and b",
    ]


def test_nothing_is_avoided_where_the_engine_has_no_names_of_machines():
    found = another("1 all answer", *lost(10, "lost"), *lost(60, "lost"))
    assert found == ["another container for worker/1"] * 2
