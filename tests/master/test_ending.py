import dataclasses

import pytest

from tfapp.contract.exit import Exit
from tfapp.contract.status import (
    SUSPENDS,
    ApplicationStatus,
    Cause,
    InstanceStatus,
    Moment,
    Verdict,
    format_diagnostics,
)
from tfapp.master.ending import ending
from tfapp.master.launcher import Ended

NOW = 50.0


def instance(number, state):
    return InstanceStatus(f"w/{number}", "w", "worker", state)


KNOWN = ApplicationStatus(
    "app", "RUNNING", 2, 1.0, 2.0, (instance(0, "RUNNING"), instance(1, "SUCCEEDED"))
)
DECIDED = dataclasses.replace(
    KNOWN, state="SUCCEEDED", verdict=Verdict("SUCCEEDED", 0, "All workers are done.")
)


def concluded(verdict, unfinished):
    return dataclasses.replace(
        KNOWN,
        state=verdict.state,
        updated=NOW,
        instances=(instance(0, unfinished), instance(1, "SUCCEEDED")),
        verdict=verdict,
    )


def test_the_coordinators_own_word():
    found = ending("FAILED", format_diagnostics(DECIDED), KNOWN, NOW)
    assert found.status == DECIDED
    assert (found.final_status, found.diagnostics) == ("FAILED", format_diagnostics(DECIDED))


def test_a_coordinator_that_published_its_verdict_and_died():
    found = ending("FAILED", "driver failed", DECIDED, NOW, Ended(1).exit)
    assert found.status == DECIDED


@pytest.mark.parametrize(
    ("final", "state", "code"),
    [
        ("SUCCEEDED", "SUCCEEDED", 0),
        ("FAILED", "FAILED", 65),
        ("KILLED", "KILLED", 66),
        ("UNDEFINED", "FAILED", 65),
    ],
)
def test_other_words(final, state, code):
    assert ending(final, "because", KNOWN, NOW).status == concluded(
        Verdict(state, code, "because"), "KILLED"
    )


@pytest.mark.parametrize(
    ("code", "exit", "summary"),
    [
        (
            3,
            Exit(3, None, "exit", "exit code 3"),
            "The coordinator was lost: it ended with exit code 3 and gave no verdict.",
        ),
        (
            -9,
            Exit(None, 9, "signal", "killed by SIGKILL (9)"),
            "The coordinator was lost: killed by SIGKILL (9), before it gave a verdict.",
        ),
    ],
)
def test_a_lost_coordinator(code, exit, summary):
    verdict = Verdict("FAILED", 65, summary, Cause("", 2, "", "", exit, "last lines"))
    found = ending("FAILED", "driver failed", KNOWN, NOW, Ended(code).exit, "last lines")
    assert found.status == concluded(verdict, "KILLED")


def test_a_coordinator_that_ends_well_without_a_word():
    found = ending("SUCCEEDED", "done", KNOWN, NOW, Ended(0).exit)
    assert found.status == concluded(Verdict("SUCCEEDED", 0, "done"), "KILLED")


def test_a_suspension_is_no_ending_unless_there_was_a_verdict():
    ended = ending("SUSPENDED", "it is suspended", KNOWN, NOW)
    assert (ended.status.state, ended.status.verdict, ended.status.updated) == (
        "SUSPENDED",
        None,
        NOW,
    )
    assert {i.state for i in ended.status.instances} == {"REQUESTED"}
    assert ended.status.timeline[-1] == Moment(NOW, "it is suspended", SUSPENDS, "", 2)
    assert ending("SUSPENDED", "it is suspended", DECIDED, NOW).status == DECIDED
