"""Programs save before a planned stop: who is waited for, for how long, and at which step."""

import dataclasses
import math

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.world import World, job
from tfapp.contract.job import RESTART_INSTANCE, FailureRule
from tfapp.contract.saving import InstanceSave
from tfapp.contract.status import SAVES
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.step import next_deadline

LIMITS = make_limits(gang=60, heartbeat=5, heartbeat_lost=30, save_grace=20, stop_grace=5)


def played(history: str, layout: str = "worker=2", **limits: float) -> World:
    changed = dataclasses.replace(LIMITS, **limits)
    return World(job(layout, limits=changed, failure=make_failure_policy())).play(history)


def noted(world: World) -> list[str]:
    return [moment.text for moment in world.state.timeline if moment.kind == SAVES]


BOTH = "1 all answer\n2 worker/0 saves\n2 worker/1 saves after 2\n"


def test_all_save_at_a_step_ahead_of_all_also_of_one_that_hears_late_and_then_others_join():
    world = played(BOTH + "10 flex worker +1\n11 worker/2 answers\n17")
    # worker/0 is at step 44 when it hears, and waits after 45. worker/1 finishes that one.
    assert world.log == [
        "1 cluster worker/0 worker/1",
        "11 hold",
        "13 save at 46",
        "15 over at 46",
        "15 generation 2",
    ]
    assert noted(world) == ["worker/0, worker/1 have saved at step 46 before the stop"]
    assert (world.state.charges.restarts, world.state.charges.losses) == (0, 0)


@pytest.mark.parametrize(
    ("stop", "stopped"),
    [
        ("10 stop enough", "stop worker/0 5"),
        ("10 flex worker -1", "generation 2"),
    ],
)
def test_stop_and_a_smaller_number_wait_for_programs_to_save(stop, stopped):
    world = played(f"{BOTH}{stop}\n13.9")
    assert world.log[1:] == ["10 hold", "12 save at 42"]
    world.advance(14.5)
    assert world.log[3:5] == ["14 over at 42", f"14 {stopped}"]


@pytest.mark.parametrize("lost", [10.5, 12.5, 14.0])
def test_another_coordinator_goes_on_with_a_suspension(lost):
    world = played(f"{BOTH}10 suspend\n{lost}")
    world.feed(events.TakenOver(world.now, {}))
    world.advance(17)
    assert [line.partition(" ")[2] for line in world.log[1:]] == [
        *("hold", "save at 42", "over at 42", "suspend"),
    ]


def test_a_suspension_waits_for_programs_to_save():
    """Then the master ends all, and with them the coordinator, which decides nothing more."""
    world = played(f"{BOTH}10 suspend\n14.5")
    assert world.log[1:] == ["10 hold", "12 save at 42", "14 over at 42", "14 suspend"]


@pytest.mark.parametrize(
    ("history", "when"),
    [
        ("1 all answer\n10 suspend\n11", "10"),
        (f"{BOTH}10 stop enough\n11 suspend\n15", "14"),
        (f"{BOTH}10 suspend\n11 worker/1 lost\n11.5 worker/0 exits 1\n20", "11.1"),
        (f"{BOTH}9 master leaves\n10 suspend\n14.5", "14"),
    ],
    ids=["nobody saves", "about to stop", "all end meanwhile", "announced"],
)
def test_a_suspension_waits_for_nothing_else(history, when):
    world = played(history)
    assert world.log[-1] == f"{when} suspend"
    assert not world.state.decided and world.state.generation == 1


def test_a_master_that_leaves_has_nothing_decided_any_more():
    """Its pod ends, and others with it. It tells that once, also for the next coordinator; that of
    the next master judges what it finds."""
    world = played(f"{BOTH}10 master leaves\n11 worker/1 lost\n11 worker/0 exits 1\n80")
    world.feed(events.TakenOver(world.now, {}))
    world.advance(90)
    assert world.log == ["1 cluster worker/0 worker/1"]
    assert next_deadline(world.state) == math.inf
    world.feed(events.TakenOver(world.now, {}), events.MasterBack(world.now))
    world.advance(95)
    assert world.log[1:] == ["91 generation 2", "91 another container for worker/1"]


@pytest.mark.parametrize("stop", ["stop enough", "flex worker -1"])
def test_programs_that_know_nothing_of_it_are_not_waited_for(stop):
    world = played(f"1 all answer\n10 {stop}\n10")
    assert world.log[1:2] in (["10 stop worker/0 5"], ["10 generation 2"])


def test_no_program_is_asked_where_there_is_no_time_for_it():
    world = played(f"{BOTH}10 stop enough\n10", save_grace=0)
    assert world.log[1:] == ["10 stop worker/0 5", "10 stop worker/1 5"]


def test_one_that_does_not_save_has_its_time():
    world = played("1 all answer\n2 worker/0 saves\n2 worker/1 saves never\n10 stop enough\n31")
    assert world.log[1:3] == ["10 hold", "30 over"]
    assert noted(world) == ["worker/1 has not saved within 20 s (site.global.save.grace)"]


def test_programs_without_others_save_at_their_own_step():
    world = played(
        "1 all answer\n2 worker/0 saves alone\n2 worker/1 saves alone\n10 stop enough\n11"
    )
    assert world.log[1:4] == ["10 hold", "10.1 save", "10.2 over"]
    assert noted(world) == ["worker/0, worker/1 have saved before the stop"]


def test_nobody_is_waited_for_who_has_ended():
    world = played(f"{BOTH}10 stop enough\n11 worker/1 exits 0\n13")
    assert world.log[1:4] == ["10 hold", "11 save at 41", "11.1 over at 41"]


def test_a_failure_meanwhile_is_charged_once_and_what_was_planned_follows():
    world = played(f"{BOTH}10 flex worker -1\n11 worker/0 killed 9\n12\n13 all answer\n14")
    assert [line for line in world.log if "generation" in line] == [
        "11 generation 2",
        "12 generation 3",
    ]
    assert world.state.charges.restarts == 1
    assert list(world.state.instances) == ["worker/0"]


def test_a_container_that_is_asked_to_end_is_notice_and_its_loss_is_charged():
    world = played(
        "1 all answer\n2 worker/0 saves\n2 worker/1 saves\n10 worker/1 is asked to leave\n"
        "12 worker/1 preempted\n13 all answer\n14"
    )
    assert world.log[1:] == [
        "10 hold",
        "10.1 save at 41",
        "10.2 over at 41",
        "12 generation 2",
        "12 another container for worker/1",
        "13 cluster worker/0 worker/1",
    ]
    assert (world.state.charges.restarts, world.state.charges.losses) == (0, 1)


def test_all_containers_that_a_queue_takes_back_are_asked_to_end_and_nothing_is_charged():
    """Kueue evicts a group: each of its pods hears SIGTERM."""
    world = played(
        BOTH.replace(" after 2", "")
        + "10 worker/0 is asked to leave\n10 worker/1 is asked to leave\n"
        + "12 worker/0 requeued\n12 worker/1 requeued\n13 all answer\n14"
    )
    assert world.log[1:5] == ["10 hold", "10.1 save at 41", "10.2 over at 41", "12 generation 2"]
    assert (world.state.charges.restarts, world.state.charges.losses) == (0, 0)


def test_a_container_was_asked_to_end_while_there_was_no_coordinator():
    """Its runner says so once, and not again before it is too late."""
    world = played(BOTH + "10")
    beat = world.said(world.runners["worker/1"], "leaving")
    world.feed(events.TakenOver(world.now, {"worker/1": beat}))
    assert world.log[1:] == ["10 hold"]


def test_programs_train_on_where_nothing_follows():
    world = played("1 all answer\n2 worker/0 saves\n10 worker/0 is asked to leave\n61")
    assert world.log[1:] == ["10 hold", "10.1 save at 41", "10.2 over at 41", "60 go-on at 41"]


@pytest.mark.parametrize("planned", ["stop enough", "worker/1 is asked to leave", "suspend"])
def test_programs_that_take_part_by_now_are_asked_though_a_request_has_gone_before(planned):
    """It reached nobody: one has ended, and begins again, the other knew nothing of it."""
    again = make_failure_policy(startup=0, rules=(FailureRule(RESTART_INSTANCE),))
    world = World(job("worker=2", limits=LIMITS, failure=again)).play(
        "1 all answer\n2 worker/0 saves\n10 worker/1 is asked to leave\n10.05 worker/0 killed 9\n"
        f"12 worker/0 saves\n13 worker/1 saves\n14 {planned}\n15"
    )
    assert world.log[1:4] == ["10 hold", "10.05 restart worker/0", "10.1 over"]
    assert world.log[4:7] == ["14 hold", "14.1 save at 57", "14.2 over at 57"]


def test_programs_that_the_last_request_has_reached_are_not_asked_again():
    world = played(
        "1 all answer\n2 worker/0 saves\n2 worker/1 saves\n10 worker/1 is asked to leave\n"
        "12 worker/0 saves\n12 stop enough\n12"
    )
    assert world.log[1:5] == ["10 hold", "10.1 save at 41", "10.2 over at 41", "12 stop worker/0 5"]


def test_a_second_request_to_end_changes_nothing():
    world = played(f"{BOTH}10 stop enough\n11 stop more than enough\n15")
    assert world.state.verdict.summary == "Killed: enough."
    assert [line for line in world.log if "hold" in line] == ["10 hold"]


def test_words_of_another_request_or_container_count_for_nothing():
    world = played(f"{BOTH}10 stop enough")
    told = world.state.saving.told
    request = world.runners["worker/0"].asked
    for id, container in (("other", "worker_0"), (request.id, "worker_0-1")):
        save = InstanceSave(id, "worker/0", container, True, 1000)
        world.feed(events.SaveTold(10.0, save))
    assert world.state.saving.told == told
