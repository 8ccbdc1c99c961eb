from __future__ import annotations

import dataclasses

import pytest

from tfapp.contract.exit import Exit
from tfapp.contract.status import (
    ApplicationStatus,
    Cause,
    InstanceStatus,
    Verdict,
    format_diagnostics,
)
from tfapp.master.ending import Driver, ending

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
    found = ending("FAILED", "driver failed", DECIDED, NOW, Driver(1, ""))
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
    found = ending("FAILED", "driver failed", KNOWN, NOW, Driver(code, "last lines"))
    assert found.status == concluded(verdict, "KILLED")


def test_a_coordinator_that_ends_well_without_a_word():
    found = ending("SUCCEEDED", "done", KNOWN, NOW, Driver(0, ""))
    assert found.status == concluded(Verdict("SUCCEEDED", 0, "done"), "KILLED")
