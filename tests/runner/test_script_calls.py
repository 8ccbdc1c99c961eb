"""Calls into a package's script: values, refusals, exceptions, and calls that hang."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import pytest

from tfapp.contract import Exit
from tfapp.runner import script_calls
from tfapp.runner.script_calls import Outcome
from tfapp.script import ScriptError

SCRIPT = Path("scripts/own.py")
PATIENCE = 30  # seconds, for what happens at once unless it is broken


def raising(error: BaseException):
    def function():
        raise error

    return function


def called(function, limit: float = PATIENCE) -> Outcome:
    outcomes: queue.SimpleQueue = queue.SimpleQueue()
    script_calls.call("start()", function, limit, SCRIPT, Path("/package"), outcomes.put)
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
    hanging = threading.Event()
    outcome = called(hanging.wait, limit=0.1)
    hanging.set()
    text = "scripts/own.py: start() did not return within 0.1 s"
    assert outcome == Outcome(failure=Exit(None, None, "script", text))
