"""A result goes from one process to another, as multiprocessing and concurrent.futures send it."""

from __future__ import annotations

import dataclasses
import pickle
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfapp.api.result import Result, result_of
from tfapp.contract.exit import Exit
from tfapp.contract.status import ApplicationStatus, Cause, InstanceStatus, Verdict
from tfapp.engines import base
from tfapp.engines.base import LogFile
from tfapp.errors import (
    ApplicationFailedError,
    NotFoundError,
    RemoteError,
    ReturnedError,
    UnreachableError,
)


@pytest.fixture
def result(tmp_path) -> Result:
    exit = Exit(1, None, "exit", "exit code 1")
    cause = Cause("worker/0", 1, "h", "c", exit, "ValueError: no")
    status = ApplicationStatus(
        "digits",
        "FAILED",
        1,
        1.0,
        3.0,
        tuple(InstanceStatus(f"worker/{n}", "worker", "worker", "FAILED") for n in (0, 1)),
        Verdict("FAILED", 65, "Failed: worker/0.", cause),
    )
    log = tmp_path / "log"
    log.write_text("a line\n")
    value = tmp_path / "value"
    value.write_text('{"value": [1]}')

    def returned(name: str, run: int) -> tuple[LogFile, ...]:
        return LogFile("worker/0", value), LogFile("worker/1", Path(), "its node is lost")

    engine = SimpleNamespace(
        returned=returned, logs=lambda name, run: [LogFile("worker/0", log)], name="local"
    )
    application = base.Application("digits", "local", "a_1_0001", 1, False, status)
    return result_of(engine, application, pickles=False)  # type: ignore[arg-type]


def test_what_programs_returned_travels(result):
    (error,) = pickle.loads(pickle.dumps([ApplicationFailedError(result)]))
    arrived = error.result
    assert str(error) == "Failed: worker/0.\nlast lines of worker/0:\n  ValueError: no"
    assert error.exit_code == 65
    assert (arrived.state, arrived.cause, arrived.instances) == (
        *("FAILED", result.cause, result.instances),
    )
    assert arrived.value == [1]
    assert list(arrived.returned) == ["worker/0", "worker/1"]
    with pytest.raises(ReturnedError, match="worker/1: what it returned cannot be read: its node"):
        arrived.returned["worker/1"]
    assert pickle.loads(pickle.dumps(arrived)).value == [1]


TRACEBACK = 'Traceback (most recent call last):\n  File "In[3]", line 2, in train\n'


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ValueError: no", ValueError),
        ("FileNotFoundError: [Errno 2] no: '/data'", FileNotFoundError),
        ("UnicodeDecodeError: no", Exception),
        ("my.OwnError: no", Exception),
        ("KeyboardInterrupt", Exception),
    ],
)
def test_the_exception_of_a_program_is_the_cause(result, said, kind):
    cause = dataclasses.replace(result.cause, last_lines=f"a\n{TRACEBACK}{said}")
    made = ApplicationFailedError(dataclasses.replace(result, cause=cause))
    for error in (made, pickle.loads(pickle.dumps(made))):
        assert str(error) == "Failed: worker/0."
        assert isinstance(error.__cause__, kind) and isinstance(error.__cause__, RemoteError)
        assert error.__cause__.instance == "worker/0"
        told = "".join(traceback.format_exception(type(error), error, None))
        assert f": in worker/0:\n{TRACEBACK}{said}\n\nThe above exception was the" in told
    copied = pickle.loads(pickle.dumps(made.__cause__))
    assert (type(copied).__name__, str(copied)) == (
        *(type(made.__cause__).__name__, str(made.__cause__)),
    )


def test_logs_travel_once_they_are_read(result):
    arrived = pickle.loads(pickle.dumps(result))
    assert list(arrived.logs) == ["worker/0", "worker/1"]
    with pytest.raises(NotFoundError, match="the logs of digits are not in a pickle") as caught:
        arrived.logs["worker/0"]
    assert caught.value.hint == "tfapp.open('digits', run=1).logs() has them."
    assert result.logs["worker/0"] == "a line\n"
    assert pickle.loads(pickle.dumps(result)).logs["worker/0"] == "a line\n"


def test_what_cannot_be_fetched_hides_no_verdict(result, monkeypatch):
    def unreachable() -> None:
        raise UnreachableError("the master does not answer")

    monkeypatch.setattr(result.returned, "_instances", unreachable)
    arrived = pickle.loads(pickle.dumps(result))
    assert arrived.summary == "Failed: worker/0."
    with pytest.raises(UnreachableError, match="does not answer"):
        list(arrived.returned)
