"""Histories with failures that are survived, or not: a new case is a row."""

from __future__ import annotations

import dataclasses

import pytest

from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator.world import World, job
from tfapp.contract.job import (
    FAIL_APPLICATION,
    IGNORE,
    RESTART_INSTANCE,
    FailurePolicy,
    FailureRule,
)
from tfapp.coordinator.policy import events
from tfapp.coordinator.policy.state import FINISHED, Charges
from tfapp.coordinator.publisher import status

LIMITS = make_limits(gang=60, evaluator=100, heartbeat=2, heartbeat_lost=10, settle=0.5)
DEFAULT = make_failure_policy()


@dataclasses.dataclass(frozen=True)
class Row:
    layout: str
    history: str
    summary: str
    exit_code: int
    log: tuple[str, ...]  # what was ordered and published
    failure: FailurePolicy = DEFAULT
    threshold: int = 5
    window: float = 3600.0
    settle: float = 0.5


def rules(*found: FailureRule) -> FailurePolicy:
    return make_failure_policy(startup=0, rules=found)


ROWS = {
    "a killed program: all start again in their containers": Row(
        "worker=2",
        """
        1 all answer
        9 worker/1 killed 9
        9.2 all answer
        20 worker/0 exits 0
        21 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 12 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "9 generation 2",
            "9.2 cluster worker/0 worker/1",
            "21 shutdown",
        ),
    ),
    "who has finished starts again too": Row(
        "worker=2",
        """
        1 all answer
        8 worker/0 exits 0
        9 worker/1 killed 9
        9.2 all answer
        20 worker/0 exits 0
        21 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 12 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "9 generation 2",
            "9.2 cluster worker/0 worker/1",
            "21 shutdown",
        ),
    ),
    "a lost container is replaced, and no other": Row(
        "chief=1 worker=2",
        """
        1 all answer
        30 worker/1 lost
        31 all answer
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 9 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 worker/0 worker/1",
            "30 generation 2",
            "30 another container for worker/1",
            "31 cluster chief/0 worker/0 worker/1",
            "42 stop worker/0 30",
            "42 stop worker/1 30",
            "42.5 shutdown",
        ),
    ),
    "a node takes two containers with it: one failure": Row(
        "worker=3",
        """
        1 all answer
        30 worker/1 lost
        30.1 worker/2 lost
        31 all answer
        40 worker/0 exits 0
        40 worker/1 exits 0
        40 worker/2 exits 0
        """,
        "Succeeded: all 3 instances of worker ended with exit code 0 after 9 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1 worker/2",
            "30 generation 2",
            "30 another container for worker/1",
            "30.1 another container for worker/2",
            "31 cluster worker/0 worker/1 worker/2",
            "40 shutdown",
        ),
        make_failure_policy(max_restarts=1),
    ),
    "a silent runner is replaced": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 is cut off
        40 worker/0 answers
        50 worker/0 exits 0
        """,
        "Succeeded: worker/0 ended with exit code 0 after 10 s. It was restarted once before.",
        0,
        (
            "1 cluster worker/0",
            "33 kill worker/0",
            "33 generation 2",
            "33 another container for worker/0",
            "40 cluster worker/0",
            "50 shutdown",
        ),
        make_failure_policy(max_restarts=0, max_losses=1),
    ),
    "a survivor's program ends before its peer's silence is a loss: one failure, the loss": Row(
        "worker=3",
        """
        1 all answer
        20 worker/1 is cut off
        20 worker/2 is cut off
        22 worker/0 exits 1
        22.1 worker/0 answers
        34 all answer
        50 worker/0 killed 9
        51 all answer
        60 worker/0 exits 0
        60 worker/1 exits 0
        60 worker/2 exits 0
        """,
        "Succeeded: all 3 instances of worker ended with exit code 0 after 9 s. "
        "It was restarted twice before.",
        0,
        (
            "1 cluster worker/0 worker/1 worker/2",
            "22 generation 2",
            "33 kill worker/1",
            "33 kill worker/2",
            "33 another container for worker/1",
            "33 another container for worker/2",
            "34 cluster worker/0 worker/1 worker/2",
            "50 generation 3",
            "51 cluster worker/0 worker/1 worker/2",
            "60 shutdown",
        ),
        make_failure_policy(max_restarts=1, max_losses=1),
    ),
    "a survivor's program is killed before its peer's silence is a loss: the same": Row(
        "worker=2",
        """
        1 all answer
        20 worker/1 is cut off
        22 worker/0 killed 6
        22.1 worker/0 answers
        34 all answer
        60 worker/0 exits 0
        60 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 26 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "22 generation 2",
            "33 kill worker/1",
            "33 another container for worker/1",
            "34 cluster worker/0 worker/1",
            "60 shutdown",
        ),
        make_failure_policy(max_restarts=1, max_losses=1),
        threshold=1,
    ),
    "a survivor's program ends, and the losses of machines are spent: the loss is told": Row(
        "worker=2",
        """
        1 all answer
        20 worker/1 is cut off
        22 worker/0 exits 1
        22.1 worker/0 answers
        60
        """,
        "Failed: worker/1 on host-worker-1 was lost in generation 1: nothing was heard of it for "
        "14 s.",
        65,
        (
            "1 cluster worker/0 worker/1",
            "22 generation 2",
            "33 kill worker/1",
            "33 shutdown",
        ),
        make_failure_policy(max_losses=0),
    ),
    "a runner that was heard in the new generation and falls silent is a failure of its own": Row(
        "worker=2",
        """
        1 all answer
        20 worker/1 killed 9
        23 worker/0 is cut off
        24 worker/1 answers
        38 all answer
        50 worker/0 exits 0
        50 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 12 s. "
        "It was restarted twice before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "20 generation 2",
            "36 kill worker/0",
            "36 another container for worker/0",
            "38 cluster worker/0 worker/1",
            "50 shutdown",
        ),
    ),
    "a program starts again at once, and its failure was another's": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        20.3 worker/1 lost
        21 all answer
        40 worker/0 exits 0
        40 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 19 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "20 restart worker/0",
            "20.3 generation 2",
            "20.3 another container for worker/1",
            "21 cluster worker/0 worker/1",
            "40 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE)),
    ),
    "a program that starts again at once and is killed has failed twice": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        20.3 worker/0 killed 9
        40 worker/0 exits 0
        40 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 39 s. "
        "It was restarted twice before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "20 restart worker/0",
            "21.5 restart worker/0",
            "40 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE)),
    ),
    "a stop while a program starts again counts its restart": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        20.3 stop enough
        30
        """,
        "Killed: enough. It was restarted once before.",
        66,
        (
            "1 cluster worker/0 worker/1",
            "20 restart worker/0",
            "20.3 stop worker/0 30",
            "20.3 stop worker/1 30",
            "20.8 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE)),
    ),
    "a program starts again at once, and another's loss is ignored: its own failure counts": Row(
        "chief=1 worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        20.3 worker/1 preempted
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 39 s. worker/1 was lost: its container "
        "ended without a report: Container preempted by scheduler. The application does not "
        "depend on it. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 worker/0 worker/1",
            "20 restart worker/0",
            "42 stop worker/0 30",
            "42.5 shutdown",
        ),
        rules(
            FailureRule(IGNORE, reasons=("preempted",)),
            FailureRule(RESTART_INSTANCE),
        ),
    ),
    "success while an evaluator's failure is open": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        20 evaluator/0 exits 1
        20.2 chief/0 exits 0
        200
        """,
        "Succeeded: chief/0 ended with exit code 0 after 19 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 evaluator/0",
            "20 restart evaluator/0",
            "120.5 stop evaluator/0 30",
            "121 shutdown",
        ),
    ),
    "success while an evaluator's lost container is replaced": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        20 evaluator/0 exits 1
        20.1 evaluator/0 lost
        20.2 chief/0 exits 0
        30
        """,
        "Succeeded: chief/0 ended with exit code 0 after 19 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 evaluator/0",
            "20 restart evaluator/0",
            "20.1 another container for evaluator/0",
            "20.5 shutdown",
        ),
    ),
    "a runner that is cut off ends itself, and its container is seen to end": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 is cut off
        30 worker/0 lost
        31 worker/0 answers
        50 worker/0 exits 0
        """,
        "Succeeded: worker/0 ended with exit code 0 after 19 s. It was restarted once before.",
        0,
        (
            "1 cluster worker/0",
            "30 generation 2",
            "30 another container for worker/0",
            "31 cluster worker/0",
            "50 shutdown",
        ),
        make_failure_policy(max_restarts=0, max_losses=1),
    ),
    "a survivor's failure is not the cause": Row(
        "chief=1 worker=1",
        """
        1 all answer
        5 worker/0 exits 1
        5.3 chief/0 killed 9
        6 all answer
        20 chief/0 exits 0
        30
        """,
        "Succeeded: chief/0 ended with exit code 0 after 14 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 worker/0",
            "5.3 generation 2",
            "6 cluster chief/0 worker/0",
            "22 stop worker/0 30",
            "22.5 shutdown",
        ),
    ),
    "a program that fails at once is broken": Row(
        "worker=2",
        """
        1 all answer
        5 worker/1 exits 3
        20
        """,
        "Failed: worker/1 on host-worker-1 ended with exit code 3 in generation 1, 4 s after its "
        "start. A program that fails within its first 10 s is taken for broken and is not "
        "restarted (failurePolicy.startupSeconds).",
        65,
        ("1 cluster worker/0 worker/1", "5.5 stop worker/0 5", "6 shutdown"),
    ),
    "the same failure until the budget is spent, each time later": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 exits 3
        21 all answer
        22 worker/0 exits 3
        22.6 all answer
        24 worker/0 exits 3
        24.6 all answer
        30 worker/0 exits 3
        31
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 3 in generation 4, 4 s after its "
        "start. It was not restarted again: that was done 3 times (failurePolicy.maxRestarts).",
        65,
        (
            "1 cluster worker/0",
            "20 generation 2",
            "21 cluster worker/0",
            "22 generation 3",
            "23 cluster worker/0",
            "24 generation 4",
            "26 cluster worker/0",
            "30.5 shutdown",
        ),
    ),
    "a container that is refused in place of a lost one": Row(
        "worker=2",
        """
        1 all answer
        30 worker/1 lost
        30 worker/1 refused too much memory
        31
        """,
        "Failed: worker/1 could not be started in generation 2: its container was refused: "
        "too much memory. It was restarted once before.",
        65,
        ("1 cluster worker/0 worker/1", "30 generation 2", "30.5 shutdown"),
    ),
    "the next cluster forms while the cause is open, which all answers settle": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 3
        20.8 worker/0 answers
        21 worker/1 answers
        30 worker/0 exits 0
        31 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 10 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "20 generation 2",
            "21 cluster worker/0 worker/1",
            "31 shutdown",
        ),
        settle=6.0,
    ),
    "a death that is reported late is the cause": Row(
        "chief=1 worker=1",
        """
        1 all answer
        20 worker/0 exits 1
        20.2 chief/0 had died 9
        21 all answer
        30
        """,
        "Failed: chief/0 on host-chief-0 was killed by SIGKILL (9) in generation 1, 19 s after its "
        "start.",
        65,
        ("1 cluster chief/0 worker/0", "20 generation 2", "21 shutdown"),
        rules(FailureRule(FAIL_APPLICATION, ("chief",))),
        settle=6.0,
    ),
    "a loss that is known late is the cause, and what is charged": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        20.1 worker/0 answers
        24 worker/1 preempted
        25 all answer
        30 worker/0 killed 9
        31 all answer
        40 worker/0 killed 9
        50
        """,
        "Failed: worker/0 on host-worker-0 was killed by SIGKILL (9) in generation 3, 9 s after "
        "its start. It was not restarted again: that was done once (failurePolicy.maxRestarts).",
        65,
        (
            "1 cluster worker/0 worker/1",
            "20 generation 2",
            "24 another container for worker/1",
            "25 cluster worker/0 worker/1",
            "30 generation 3",
            "31 cluster worker/0 worker/1",
            "46 stop worker/1 5",
            "46.5 shutdown",
        ),
        make_failure_policy(max_restarts=1),
        settle=6.0,
    ),
    "a loss that must not be survived, known late": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        24 worker/1 preempted
        30
        """,
        "Failed: worker/1 on host-worker-1 was lost in generation 1: its container ended without a "
        "report: Container preempted by scheduler.",
        65,
        ("1 cluster worker/0 worker/1", "20 generation 2", "24 shutdown"),
        rules(FailureRule(FAIL_APPLICATION, reasons=("preempted",))),
        settle=6.0,
    ),
    "a loss that is ignored, known late, is not the cause": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        24 worker/1 preempted
        25 worker/0 answers
        30 worker/0 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 5 s. worker/1 was lost: "
        "its container ended without a report: Container preempted by scheduler. The application "
        "does not depend on it. It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "20 generation 2",
            "25 cluster worker/0",
            "30 shutdown",
        ),
        rules(FailureRule(IGNORE, reasons=("preempted",))),
        settle=6.0,
    ),
    "a failure that may be final waits for its cause": Row(
        "worker=2",
        """
        1 all answer
        5 worker/0 exits 1
        8 worker/1 preempted
        9 all answer
        20 worker/0 exits 0
        21 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 12 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "8 generation 2",
            "8 another container for worker/1",
            "9 cluster worker/0 worker/1",
            "21 shutdown",
        ),
        settle=6.0,
    ),
    "a stop while the cause is open": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        21 stop by Ann
        """,
        "Killed: by Ann. It was restarted once before.",
        66,
        ("1 cluster worker/0 worker/1", "20 generation 2", "21 shutdown"),
        settle=6.0,
    ),
    "a stop while a failure that is final waits for its cause": Row(
        "worker=2",
        """
        1 all answer
        5 worker/0 exits 1
        6 stop by Ann
        20
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 1 in generation 1, 4 s after its "
        "start. A program that fails within its first 10 s is taken for broken and is not "
        "restarted (failurePolicy.startupSeconds).",
        65,
        ("1 cluster worker/0 worker/1", "6 stop worker/1 5", "6.5 shutdown"),
        settle=6.0,
    ),
    "a flex does not undo a failure": Row(
        "worker=2",
        """
        1 all answer
        5 worker/0 exits 1
        6 flex worker 1
        7 all answer
        20
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 1 in generation 1, 4 s after its "
        "start. A program that fails within its first 10 s is taken for broken and is not "
        "restarted (failurePolicy.startupSeconds).",
        65,
        ("1 cluster worker/0 worker/1", "6 generation 2", "7 kill worker/1", "7 shutdown"),
        settle=6.0,
    ),
    "a program that cannot start anew fails the next generation": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 1
        20.2 worker/0 cannot-start no port is free
        22 worker/1 answers
        22.2 all answer
        40 stop
        50
        """,
        "Killed: it was asked to stop. It was restarted twice before.",
        66,
        (
            "1 cluster worker/0 worker/1",
            "20 generation 2",
            "22 generation 3",
            "23 cluster worker/0 worker/1",
            "40 stop worker/0 30",
            "40 stop worker/1 30",
            "40.5 shutdown",
        ),
        settle=6.0,
    ),
    "a component may fail only so often": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 exits 3
        21 all answer
        40 worker/0 exits 3
        41
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 3 in generation 2, 19 s after its "
        "start. It was not restarted: worker has failed twice within 1 h, more than 1 "
        "(yarn.container.failure.threshold).",
        65,
        ("1 cluster worker/0", "20 generation 2", "21 cluster worker/0", "40.5 shutdown"),
        threshold=1,
    ),
    "failures before the window are forgotten": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 exits 3
        21 all answer
        40 worker/0 exits 3
        42 all answer
        50 worker/0 exits 0
        """,
        "Succeeded: worker/0 ended with exit code 0 after 8 s. It was restarted twice before.",
        0,
        (
            "1 cluster worker/0",
            "20 generation 2",
            "21 cluster worker/0",
            "40 generation 3",
            "42 cluster worker/0",
            "50 shutdown",
        ),
        threshold=1,
        window=15.0,
    ),
    "preemption has a budget of its own": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 preempted
        21 all answer
        40 worker/0 preempted
        42
        """,
        "Failed: worker/0 on host-worker-0 was lost in generation 2: its container ended without a "
        "report: Container preempted by scheduler. It was not restarted again: that was done once "
        "(failurePolicy.maxInfrastructureRestarts).",
        65,
        (
            "1 cluster worker/0",
            "20 generation 2",
            "20 another container for worker/0",
            "21 cluster worker/0",
            "40 shutdown",
        ),
        make_failure_policy(max_restarts=0, max_losses=1),
    ),
    "one program starts again at its address": Row(
        "chief=1 worker=1 ps=1",
        """
        1 all answer
        20 worker/0 killed 9
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 39 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 worker/0 ps/0",
            "20 restart worker/0",
            "40 stop worker/0 30",
            "40 stop ps/0 30",
            "40.5 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE, ("worker",))),
    ),
    "one program fails again and again": Row(
        "chief=1 worker=1 ps=1",
        """
        1 all answer
        2 worker/0 killed 9
        3 worker/0 killed 9
        9 worker/0 killed 9
        20 worker/0 killed 9
        30
        """,
        "Failed: worker/0 on host-worker-0 was killed by SIGKILL (9) in generation 1, 9 s after "
        "its start. It was not restarted again: that was done 3 times "
        "(failurePolicy.maxRestarts).",
        65,
        (
            "1 cluster chief/0 worker/0 ps/0",
            "2 restart worker/0",
            "4 restart worker/0",
            "11 restart worker/0",
            "20.5 stop chief/0 5",
            "20.5 stop ps/0 5",
            "21 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE, ("worker",))),
    ),
    "success while a program waits for its restart": Row(
        "chief=1 worker=1 ps=1",
        """
        1 all answer
        2 worker/0 killed 9
        3 worker/0 killed 9
        3.5 chief/0 exits 0
        9
        """,
        "Succeeded: chief/0 ended with exit code 0 after 2.5 s. It was restarted twice before.",
        0,
        (
            "1 cluster chief/0 worker/0 ps/0",
            "2 restart worker/0",
            "3.5 stop ps/0 30",
            "4 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE, ("worker",))),
    ),
    "a stop while a program waits for its restart": Row(
        "chief=1 worker=1",
        """
        1 all answer
        2 worker/0 killed 9
        3 worker/0 killed 9
        3.5 stop by Ann
        9
        """,
        "Killed: by Ann. It was restarted twice before.",
        66,
        (
            "1 cluster chief/0 worker/0",
            "2 restart worker/0",
            "3.5 stop chief/0 30",
            "4 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE, ("worker",))),
    ),
    "a stop while a new cluster waits for its back-off": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 killed 9
        21 all answer
        22 worker/0 killed 9
        22.1 all answer
        22.5 stop by Ann
        """,
        "Killed: by Ann. It was restarted twice before.",
        66,
        (
            "1 cluster worker/0",
            "20 generation 2",
            "21 cluster worker/0",
            "22 generation 3",
            "22.5 shutdown",
        ),
    ),
    "a newcomer while the cluster forms anew joins the next": Row(
        "chief=1 worker=1",
        """
        1 all answer
        20 worker/0 killed 9
        20.5 flex worker +1
        21 all answer
        22 all answer
        40 stop
        50
        """,
        "Killed: it was asked to stop. It was restarted once before.",
        66,
        (
            "1 cluster chief/0 worker/0",
            "20 generation 2",
            "21 cluster chief/0 worker/0",
            "21 generation 3",
            "22 cluster chief/0 worker/0 worker/1",
            "40 stop chief/0 30",
            "40 stop worker/0 30",
            "40 stop worker/1 30",
            "40.5 shutdown",
        ),
    ),
    "an address that is gone needs a new cluster": Row(
        "chief=1 worker=1 ps=1",
        """
        1 all answer
        20 worker/0 lost
        21 all answer
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 19 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 worker/0 ps/0",
            "20 generation 2",
            "20 another container for worker/0",
            "21 cluster chief/0 worker/0 ps/0",
            "40 stop worker/0 30",
            "40 stop ps/0 30",
            "40.5 shutdown",
        ),
        rules(FailureRule(RESTART_INSTANCE, ("worker",))),
    ),
    "an evaluator starts again without the others, anywhere": Row(
        "chief=1 evaluator=1",
        """
        1 all answer
        20 evaluator/0 exits 1
        30 evaluator/0 lost
        31 evaluator/0 answers
        40 chief/0 exits 0
        45 evaluator/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 39 s. It was restarted twice before.",
        0,
        (
            "1 cluster chief/0 evaluator/0",
            "20 restart evaluator/0",
            "30 another container for evaluator/0",
            "31 cluster chief/0 evaluator/0",
            "45 shutdown",
        ),
    ),
    "what is not started in time is not started again": Row(
        "chief=1 worker=1 tensorboard=1",
        """
        1 all answer
        9 tensorboard/0 starts too late
        61 worker/0 starts too late
        70
        """,
        "Timed out: worker/0 on host-worker-0 was not started in generation 1, 1 min after its "
        "start: start() did not return within 60 s. The limit is commandScript.timeout of worker.",
        67,
        (
            "1 cluster chief/0 worker/0 tensorboard/0",
            "61.5 stop chief/0 5",
            "62 shutdown",
        ),
    ),
    "but by a rule": Row(
        "chief=1 worker=1",
        """
        1 all answer
        61 worker/0 starts too late
        70 chief/0 exits 0
        70 worker/0 exits 0
        """,
        "Succeeded: chief/0 ended with exit code 0 after 1 min 9 s. It was restarted once before.",
        0,
        ("1 cluster chief/0 worker/0", "61 restart worker/0", "70 shutdown"),
        rules(FailureRule(RESTART_INSTANCE, reasons=("timeout",))),
    ),
    "a rule for an exit code": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 exits 42
        22
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 42 in generation 1, 19 s after its "
        "start.",
        65,
        ("1 cluster worker/0", "20.5 shutdown"),
        rules(FailureRule(FAIL_APPLICATION, exit_codes=(41, 42))),
    ),
    "an exit code above 128 is a signal too": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 killed 9
        22
        """,
        "Failed: worker/0 on host-worker-0 was killed by SIGKILL (9) in generation 1, 19 s after "
        "its start.",
        65,
        ("1 cluster worker/0", "20.5 shutdown"),
        rules(FailureRule(FAIL_APPLICATION, exit_codes=(137,))),
    ),
    "a rule for a reason": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 preempted
        22
        """,
        "Failed: worker/0 on host-worker-0 was lost in generation 1: its container ended without a "
        "report: Container preempted by scheduler.",
        65,
        ("1 cluster worker/0", "20 shutdown"),
        rules(FailureRule(FAIL_APPLICATION, reasons=("preempted",))),
    ),
    "an ignored worker is done without": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 7
        40 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 39 s. worker/0 ended "
        "with exit code 7. The application does not depend on it.",
        0,
        ("1 cluster worker/0 worker/1", "40 shutdown"),
        rules(FailureRule(IGNORE, ("worker",), exit_codes=(7,))),
    ),
    "nobody is left when all are ignored": Row(
        "worker=2",
        """
        1 all answer
        20 worker/0 exits 7
        40 worker/1 exits 7
        """,
        "Failed: worker/0 on host-worker-0 ended with exit code 7 in generation 1, 19 s after its "
        "start.",
        65,
        ("1 cluster worker/0 worker/1", "40 shutdown"),
        rules(FailureRule(IGNORE, ("worker",))),
    ),
    "a replacement that does not come in time": Row(
        "worker=2",
        """
        1 all answer
        20 worker/1 lost
        21 worker/0 answers
        100
        """,
        "Timed out: not all instances were ready 1 min after generation 2 began. Missing: worker/1 "
        "(its container worker_1-1 runs on h, but its runner has not answered). The limit is "
        "site.global.gang.timeout. It was restarted once before.",
        67,
        (
            "1 cluster worker/0 worker/1",
            "20 generation 2",
            "20 another container for worker/1",
            "80 shutdown",
        ),
    ),
    "who is lost while it forms anew was somewhere": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 killed 9
        31 worker/0 lost
        33
        """,
        "Failed: worker/0 on host-worker-0 was lost in generation 2: its container ended without "
        "a report: out of luck. It was not restarted again: that was done once "
        "(failurePolicy.maxRestarts).",
        65,
        ("1 cluster worker/0", "20 generation 2", "31.5 shutdown"),
        make_failure_policy(max_restarts=1),
    ),
    "a stop while it forms anew": Row(
        "worker=1",
        """
        1 all answer
        20 worker/0 killed 9
        21 stop by Ann
        """,
        "Killed: by Ann. It was restarted once before.",
        66,
        ("1 cluster worker/0", "20 generation 2", "21 shutdown"),
    ),
    "newcomers join when they are ready": Row(
        "chief=1 worker=1",
        """
        1 all answer
        20 flex worker +2
        25 worker/1 answers
        30 worker/2 answers
        31 all answer
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 9 s.",
        0,
        (
            "1 cluster chief/0 worker/0",
            "30 generation 2",
            "31 cluster chief/0 worker/0 worker/1 worker/2",
            "42 stop worker/0 30",
            "42 stop worker/1 30",
            "42 stop worker/2 30",
            "42.5 shutdown",
        ),
    ),
    "a newcomer that is late is withdrawn, with those behind it": Row(
        "chief=1 worker=1",
        """
        1 all answer
        20 flex worker 4
        25 worker/1 answers
        30 worker/3 answers
        81 all answer
        90 chief/0 exits 0
        100
        """,
        "Succeeded: chief/0 ended with exit code 0 after 9 s.",
        0,
        (
            "1 cluster chief/0 worker/0",
            "80 kill worker/2",
            "80 kill worker/3",
            "80 generation 2",
            "81 cluster chief/0 worker/0 worker/1",
            "92 stop worker/0 30",
            "92 stop worker/1 30",
            "92.5 shutdown",
        ),
    ),
    "a newcomer that fails disturbs nobody": Row(
        "chief=1 worker=1",
        """
        1 all answer
        20 flex worker +1
        21 worker/1 cannot-start no room
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 39 s.",
        0,
        (
            "1 cluster chief/0 worker/0",
            "21 kill worker/1",
            "42 stop worker/0 30",
            "42.5 shutdown",
        ),
    ),
    "the highest numbers leave": Row(
        "chief=1 worker=3",
        """
        1 all answer
        20 flex worker 1
        21 all answer
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 19 s.",
        0,
        (
            "1 cluster chief/0 worker/0 worker/1 worker/2",
            "20 generation 2",
            "21 cluster chief/0 worker/0",
            "21 kill worker/1",
            "21 kill worker/2",
            "42 stop worker/0 30",
            "42.5 shutdown",
        ),
    ),
    "a number whose program may live where it is cut off is not taken again": Row(
        "chief=1 worker=2",
        """
        1 all answer
        20 worker/1 is cut off
        21 flex worker -1
        21.5 all answer
        22 flex worker +1
        23 worker/1 answers
        24 worker/0 killed 9
        25 all answer
        34 all answer
        40 stop
        80
        """,
        "Killed: it was asked to stop. It was restarted once before.",
        66,
        (
            "1 cluster chief/0 worker/0 worker/1",
            "21 generation 2",
            "21.5 cluster chief/0 worker/0",
            "22 another container for worker/1",
            "24 generation 3",
            "25 cluster chief/0 worker/0",
            "33 kill worker/1",
            "33 generation 4",
            "34 cluster chief/0 worker/0 worker/1",
            "40 stop chief/0 30",
            "40 stop worker/0 30",
            "40 stop worker/1 30",
            "40.5 shutdown",
        ),
    ),
    "a number is taken again as soon as its program is gone": Row(
        "chief=1 worker=2",
        """
        1 all answer
        21 flex worker -1
        21.1 flex worker +1
        21.5 all answer
        22 all answer
        40 stop
        80
        """,
        "Killed: it was asked to stop.",
        66,
        (
            "1 cluster chief/0 worker/0 worker/1",
            "21 generation 2",
            "21.1 another container for worker/1",
            "21.5 cluster chief/0 worker/0",
            "21.5 kill worker/1",
            "21.5 generation 3",
            "22 cluster chief/0 worker/0 worker/1",
            "40 stop chief/0 30",
            "40 stop worker/0 30",
            "40 stop worker/1 30",
            "40.5 shutdown",
        ),
    ),
    "a container that is said to have ended while its runner was silent may live": Row(
        "worker=2",
        """
        1 all answer
        20 worker/1 is cut off
        25 worker/1 is taken for dead
        33.5 all answer
        40 worker/0 exits 0
        40 worker/1 exits 0
        """,
        "Succeeded: all 2 instances of worker ended with exit code 0 after 6.5 s. "
        "It was restarted once before.",
        0,
        (
            "1 cluster worker/0 worker/1",
            "33 kill worker/1",
            "33 generation 2",
            "33 another container for worker/1",
            "33.5 cluster worker/0 worker/1",
            "40 shutdown",
        ),
    ),
    "a failure while newcomers come: they join later": Row(
        "chief=1 worker=1",
        """
        1 all answer
        20 flex worker +1
        21 worker/0 killed 9
        22 chief/0 answers
        22 worker/0 answers
        30 worker/1 answers
        31 all answer
        40 chief/0 exits 0
        50
        """,
        "Succeeded: chief/0 ended with exit code 0 after 9 s. It was restarted once before.",
        0,
        (
            "1 cluster chief/0 worker/0",
            "21 generation 2",
            "22 cluster chief/0 worker/0",
            "30 generation 3",
            "31 cluster chief/0 worker/0 worker/1",
            "42 stop worker/0 30",
            "42 stop worker/1 30",
            "42.5 shutdown",
        ),
    ),
}


def made(row: Row) -> World:
    limits = dataclasses.replace(LIMITS, settle=row.settle)
    chosen = job(row.layout, limits=limits, failure=row.failure)
    components = tuple(
        dataclasses.replace(c, failure_threshold=row.threshold, failure_window=row.window)
        for c in chosen.components
    )
    return World(dataclasses.replace(chosen, components=components))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_history(row):
    world = made(row).play(row.history)
    verdict = world.state.verdict
    assert world.state.phase == FINISHED
    assert verdict is not None
    assert (verdict.summary, verdict.exit_code) == (row.summary, row.exit_code)
    assert tuple(world.log) == row.log


def told(world: World) -> list[tuple[float, str]]:
    return [(moment.time, moment.text) for moment in world.state.timeline]


def test_the_timeline_tells_it_all():
    world = made(ROWS["a lost container is replaced, and no other"])
    world.play("1 all answer\n30 worker/1 lost\n31 all answer\n40 flex worker +1\n50 stop")
    assert told(world) == [
        (1.0, "generation 1 starts, 3 instances"),
        (
            30.0,
            "worker/1 on host-worker-1 was lost in generation 1: its container ended without a "
            "report: out of luck",
        ),
        (30.0, "generation 2 begins"),
        (31.0, "generation 2 starts, 3 instances"),
        (40.0, "worker goes from 2 to 3 instances"),
        (50.0, "Killed: it was asked to stop. It was restarted once before."),
    ]
    assert [(m.kind, m.instance, m.generation) for m in world.state.timeline] == [
        ("starts", "", 1),
        ("failure", "worker/1", 1),
        ("begins", "", 2),
        ("starts", "", 2),
        ("resized", "", 2),
        ("ends", "", 2),
    ]


def test_why_an_instance_that_moves_takes_the_others_with_it():
    policy = rules(FailureRule(RESTART_INSTANCE))
    world = World(job("chief=1 worker=2", limits=LIMITS, failure=policy))
    world.play("1 all answer\n20 worker/0 killed 9\n30 worker/0 lost\n31 all answer")
    texts = [moment.text for moment in world.state.timeline]
    assert [text for text in texts if " lost " not in text] == [
        "generation 1 starts, 3 instances",
        "worker/0 on host-worker-0 was killed by SIGKILL (9) in generation 1, 19 s after its start",
        "worker/0 starts again at its old address",
        "worker/0 gets another address with its new container, and TensorFlow reads those of the "
        "cluster once: all start again",
        "generation 2 begins",
        "generation 2 starts, 3 instances",
    ]


def test_a_loss_that_is_noticed_late_takes_over_the_charge():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.play("1 all answer\n20 worker/1 is cut off\n22 worker/0 killed 6\n30")
    assert shown(world) == (1, 0)
    world.advance(34)
    assert shown(world) == (0, 1)
    assert world.state.charges == Charges()
    assert told(world)[-2:] == [
        (
            33.0,
            "the cause: worker/1 on host-worker-1 was lost in generation 1: nothing was heard of "
            "it for 14 s",
        ),
        (33.0, "worker/1 gets another container"),
    ]
    world.happen("all", "answer")
    world.feed(events.Tick(world.now))
    assert world.state.charges == Charges(losses=1, recent=(22.0,))


def shown(world: World) -> tuple[int | None, int | None]:
    """Restarts and losses, as everybody is told."""
    told = status(world.state, 0.0, 0.0)
    return told.restarts, told.losses


BROKEN = (
    "It failed like generation {} did, with the same last line and without a new checkpoint or "
    "other progress: the program is taken for broken and is not restarted "
    "(failurePolicy.endOnRepeatedFailure)."
)


@dataclasses.dataclass(frozen=True)
class Repetition:
    """The ends of worker/0 at 20 s and at 40 s. `ends`: whether its program counts as broken."""

    first: str
    second: str
    ends: bool
    policy: FailurePolicy = DEFAULT


REPETITIONS = {
    "the same": Repetition("exits 3 stuck", "exits 3 stuck", True),
    "but for numbers and addresses": Repetition(
        "exits 1 stuck 12:31:07 <Foo at 0x7f3a> job 7 at 10.0.0.3:4242",
        "exits 1 stuck 12:31:19 <Foo at 0xbeef> job 12 at 10.0.0.17:999",
        True,
    ),
    "another code": Repetition("exits 3 stuck", "exits 4 stuck", False),
    "another line": Repetition("exits 3 stuck no data", "exits 3 stuck no room", False),
    "no line": Repetition("exits 3 mute", "exits 3 mute", False),
    "with progress": Repetition("exits 3 stuck", "exits 3", False),
    "progress before the first": Repetition("exits 3", "exits 3 stuck the end", True),
    "a signal": Repetition("killed 9", "killed 9", False),
    "a shell's word for a signal": Repetition("exits 137 stuck", "exits 137 stuck", False),
    "a loss first": Repetition("preempted", "exits 3 stuck", False),
    "a loss": Repetition("exits 3 stuck", "preempted", False),
    "turned off": Repetition(
        "exits 3 stuck", "exits 3 stuck", False, make_failure_policy(repeats_end=False)
    ),
}


@pytest.mark.parametrize("row", REPETITIONS.values(), ids=REPETITIONS)
def test_a_failure_that_repeats(row):
    world = World(job("worker=2", limits=LIMITS, failure=row.policy))
    world.play(
        f"1 all answer\n20 worker/0 {row.first}\n21 all answer\n40 worker/0 {row.second}\n"
        "42 all answer\n50 stop"
    )
    assert world.state.verdict is not None
    summary = world.state.verdict.summary
    assert summary.endswith(BROKEN.format(1)) == row.ends
    assert world.state.verdict.exit_code == (65 if row.ends else 66)


def test_a_failure_that_repeats_after_another_generation_is_none():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.play(
        "1 all answer\n20 worker/0 exits 3 stuck\n21 all answer\n30 worker/1 preempted\n"
        "32 all answer\n40 worker/0 exits 3 stuck\n45 all answer\n"
        "60 worker/1 exits 3 stuck\n70"
    )
    assert world.state.verdict is not None
    assert world.state.verdict.summary == (
        "Failed: worker/1 on host-worker-1 ended with exit code 3 in generation 4, 15 s after its "
        f"start. {BROKEN.format(3)}"
    )


def test_a_loss_that_follows_a_repetition_is_the_cause():
    world = World(job("worker=2", limits=LIMITS, failure=DEFAULT))
    world.play(
        "1 all answer\n20 worker/0 exits 3 stuck\n21 all answer\n40 worker/0 exits 3 stuck\n"
        "40.3 worker/1 preempted\n42 all answer\n50 worker/0 exits 0\n50 worker/1 exits 0"
    )
    assert world.state.verdict is not None
    assert world.state.verdict.exit_code == 0
    assert shown(world) == (1, 1)


FLEXES = [
    ("worker 3", "worker goes from 2 to 3 instances"),
    ("worker 2", "worker has 2 instances already"),
    ("worker +9", "worker would have 11 instances, 4 is the most"),
    ("worker -2", "worker would have 0 instances, and needs 1"),
    ("worker two", "'two' is no number of instances: write 3, +1 or -1"),
    ("chief 2", "chief would have 2 instances, 1 is the most"),
    ("chief 0", "chief would have 0 instances, and needs 1"),
    ("boss 1", "there is no component 'boss'; its components: chief, worker"),
]


@pytest.mark.parametrize(("asked", "reply"), FLEXES)
def test_flex_is_answered(asked, reply):
    chosen = job("chief=1 worker=2", limits=LIMITS)
    chief, worker = chosen.components
    worker = dataclasses.replace(worker, min_instances=1, max_instances=4)
    world = World(dataclasses.replace(chosen, components=(chief, worker)))
    world.play(f"1 all answer\n2 flex {asked}")
    assert world.replies == [reply]


def test_flex_is_too_late_at_the_end():
    world = World(job("chief=1 evaluator=1"))
    world.play("1 all answer\n2 chief/0 exits 0\n3 flex evaluator 2")
    assert world.replies == ["the application is about to end"]
