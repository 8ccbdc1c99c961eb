"""Calls into a package's script: values, refusals, exceptions, and calls that hang."""

from __future__ import annotations

import queue
import time
from pathlib import Path

import pytest

from tfapp.contract.exit import Exit
from tfapp.runner import script_calls
from tfapp.runner.script_calls import Outcome
from tfapp.script import ScriptError

SCRIPT = Path("scripts/own.py")
PATIENCE = 30  # seconds, for what happens at once unless it is broken


def raising(error: BaseException):
    def function():
        raise error

    return function


def called(function, limit: float = PATIENCE, package: Path = Path("/package")) -> Outcome:
    outcomes: queue.SimpleQueue = queue.SimpleQueue()
    script_calls.call("start()", function, limit, SCRIPT, package, outcomes.put, "timeout")
    return outcomes.get(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        (lambda: 7, Outcome(7)),
        (
            raising(ScriptError("there is no data")),
            Outcome(failure=Exit(None, None, "start", "there is no data")),
        ),
        (
            raising(ValueError("bad")),
            Outcome(
                failure=Exit(
                    None, None, "script", "scripts/own.py: start() raised ValueError: bad"
                ),
                traceback="ValueError: bad\n",
            ),
        ),
        (
            raising(SystemExit()),
            Outcome(
                failure=Exit(None, None, "script", "scripts/own.py: start() raised SystemExit"),
                traceback="SystemExit\n",
            ),
        ),
    ],
)
def test_a_call_has_one_outcome(function, outcome):
    assert called(function) == outcome


def test_a_call_that_hangs_is_overdue():
    outcome = called(lambda: time.sleep(2), limit=0.1, package=Path(__file__).parent)
    text = "scripts/own.py: start() did not return within 0.1 s"
    assert outcome.failure == Exit(None, None, "timeout", text)
    assert outcome.traceback.splitlines()[1:2] == [
        "    outcome = called(lambda: time.sleep(2), limit=0.1, package=Path(__file__).parent)"
    ]
