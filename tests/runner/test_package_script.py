"""A package's script: loaded from its place, under its own name, on nobody's path. A call has one
outcome: a value, a refusal, an exception, or that it hangs."""

from __future__ import annotations

import queue
import sys
import time
from pathlib import Path

import pytest

from tfapp.contract.exit import Exit
from tfapp.runner import package_script
from tfapp.runner.package_script import ScriptOutcome, load_script, outcome_of
from tfapp.script import ScriptError

SCRIPT = Path("scripts/own.py")
PATIENCE = 120  # seconds, for what happens at once unless it is broken
GOOD = """
import dataclasses
from tfapp.script import Program, Script

@dataclasses.dataclass
class Settings:
    epochs: int = 1

class Trainer(Script):
    def start(self, context):
        return Program(("echo", str(Settings().epochs)))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, package_script.MODULE_NAME, raising=False)
    (tmp_path / "scripts").mkdir()

    def write(text: str, name: str = "tensorflow.py"):
        (tmp_path / "scripts" / name).write_text(text)
        return tmp_path

    yield write
    sys.modules.pop(package_script.MODULE_NAME, None)


def test_the_one_script_of_the_file_is_made(package):
    path, modules = list(sys.path), set(sys.modules)
    script = load_script(package(GOOD), "scripts/tensorflow.py")
    assert script.start(None).argv == ("echo", "1")
    assert sys.path == path
    assert set(sys.modules) - modules == {package_script.MODULE_NAME}


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "tensorflow.py", "scripts/tensorflow.py must define one class .*; found: none"),
        (
            GOOD.replace("Trainer", "One") + GOOD.replace("Trainer", "Two"),
            "tensorflow.py",
            "One, Two",
        ),
        ("from tfapp.script import Script", "tensorflow.py", "found: none"),
        (GOOD, "other.py", "the package has no scripts/tensorflow.py"),
    ],
)
def test_a_file_without_exactly_one_script_is_refused(package, text, name, message):
    with pytest.raises(ScriptError, match=message):
        load_script(package(text, name), "scripts/tensorflow.py")


def test_a_file_that_is_no_python_is_refused(package):
    with pytest.raises(ScriptError, match=r"its name must end in \.py"):
        load_script(package(GOOD, "start.sh"), "scripts/start.sh")


def loaded(folder: Path) -> ScriptOutcome:
    path = Path("scripts/tensorflow.py")
    return outcome_of("its import", lambda: load_script(folder, str(path)), path, folder)


def test_what_the_file_raises_has_its_own_traceback(package):
    folder = package("def broken():\n    return 1 / 0\n\nbroken()\n")
    text = loaded(folder).traceback
    lines = [line.strip() for line in text.splitlines() if "^" not in line and "~" not in line]
    place = folder / "scripts/tensorflow.py"
    assert lines == [
        "Traceback (most recent call last):",
        f'File "{place}", line 4, in <module>',
        "broken()",
        f'File "{place}", line 2, in broken',
        "return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_a_syntax_error_has_a_traceback_of_its_own(package):
    folder = package("def broken(:\n")
    assert f'File "{folder}/scripts/tensorflow.py", line 1' in loaded(folder).traceback


def raising(error: BaseException):
    def function():
        raise error

    return function


def called(function, limit: float = PATIENCE, package: Path = Path("/package")) -> ScriptOutcome:
    outcomes: queue.SimpleQueue = queue.SimpleQueue()
    package_script.call("start()", function, limit, SCRIPT, package, outcomes.put, "timeout")
    return outcomes.get(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        (lambda: 7, ScriptOutcome(7)),
        (
            raising(ScriptError("there is no data")),
            ScriptOutcome(failure=Exit(None, None, "start", "there is no data")),
        ),
        (
            raising(ValueError("bad")),
            ScriptOutcome(
                failure=Exit(
                    None, None, "script", "scripts/own.py: start() raised ValueError: bad"
                ),
                traceback="ValueError: bad\n",
            ),
        ),
        (
            raising(SystemExit()),
            ScriptOutcome(
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
