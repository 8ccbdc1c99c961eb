import re
import time

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, instance, status
from tfapp.contract.log_times import TimesWriter
from tfapp.engines.base import LogFile
from tfapp.engines.refusals import DamagedError

ENDED = status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS)
RUNNING = status("RUNNING", instance("worker/0", "RUNNING"))


@pytest.fixture
def engine(tmp_path) -> PlayedEngine:
    engine = PlayedEngine(tmp_path / "logs", [ENDED])
    engine.write_log("worker/0", "one\ntwo")
    engine.write_log("worker/1", "three\n")
    engine.write_log("coordinator", "policy\n")
    return engine


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ((), "worker/0 | one\nworker/0 | two\nworker/1 | three\n"),
        (("worker",), "worker/0 | one\nworker/0 | two\nworker/1 | three\n"),
        (("worker/0",), "one\ntwo"),
        (("coordinator",), "policy\n"),
        (("--tail", "1"), "worker/0 | two\nworker/1 | three\n"),
        (("worker/0", "--tail", "0"), ""),
    ],
    ids=str,
)
def test_what_is_printed(tmp_path, engine, what, text):
    code, a_shell = call(tmp_path, engine, "logs", "app", *what)
    assert (code, a_shell.out.text, a_shell.err.text) == (0, text, "")


def test_lines_and_their_times(tmp_path, engine):
    """Of worker/1 and the coordinator it is not known when they were written."""
    times = TimesWriter(tmp_path / "logs" / "worker" / "0" / "log")
    times.note(0, time.time() - 3600)
    times.note(4, time.time() - 60)
    code, a_shell = call(tmp_path, engine, "logs", "app", "--since", "10 min", "--timestamps")
    one, two = a_shell.out.text.splitlines()
    assert code == 0
    assert re.fullmatch(r"worker/0 \| [\d-]{10}T[\d:]{8}\.\d{3}[+-]\d\d:\d\d two", one)
    assert two == "worker/1 | - three"
    assert a_shell.err.text == "worker/1: when its lines were written is not known\n"
    _, a_shell = call(tmp_path, engine, "logs", "app", "worker/0", "--since", "2001-01-01T00:00Z")
    assert a_shell.out.text == "one\ntwo\n"


@pytest.mark.parametrize("text", ["yesterday", "-5", "25:00", ""])
def test_what_is_no_time(tmp_path, engine, capsys, text):
    with pytest.raises(SystemExit):
        call(tmp_path, engine, "logs", "app", f"--since={text}")
    said = capsys.readouterr().err
    assert f"argument --since: {text!r} is not a time such as 10min, 2h or 2026-11-24T13:05" in said


def test_a_number_without_a_unit(tmp_path, engine, capsys):
    with pytest.raises(SystemExit):
        call(tmp_path, engine, "logs", "app", "--since=5")
    assert "argument --since: '5' has no unit: 5s or 5min?" in capsys.readouterr().err


def test_the_logs_of_every_container_that_an_instance_had(tmp_path, engine):
    """The second came when the first was lost."""
    engine.write_log("worker/0", "\n")
    second = LogFile("worker/0", tmp_path / "second")
    second.path.write_text("four\n")
    look = engine.logs
    engine.logs = lambda name, run=None: (*look(name, run), second)
    _, one = call(tmp_path, engine, "logs", "app", "worker/0")
    _, both = call(tmp_path, engine, "logs", "app", "worker")
    assert one.out.text == "one\ntwo\nfour\n"
    assert both.out.text == ("worker/0 | one\nworker/0 | two\nworker/1 | three\nworker/0 | four\n")


def test_a_log_that_cannot_be_had_now(tmp_path, engine):
    missing = (
        LogFile("worker/2", tmp_path / "none", "n2:8042 does not answer: timed out"),
        LogFile("coordinator", tmp_path / "none", "n2:8042 does not answer: timed out"),
    )
    look = engine.logs
    engine.logs = lambda name, run=None: (*look(name, run), *missing)
    said = "worker/2: its log cannot be read now: n2:8042 does not answer: timed out\n"
    code, a_shell = call(tmp_path, engine, "logs", "app")
    assert (code, a_shell.err.text) == (0, said)
    assert a_shell.out.text == "worker/0 | one\nworker/0 | two\nworker/1 | three\n"
    code, a_shell = call(tmp_path, engine, "logs", "app", "worker/2")
    assert (code, a_shell.out.text) == (44, "")
    assert a_shell.err.text.startswith(f"{said}error: app has no log 'worker/2'")


def test_the_rest_of_a_log_cannot_be_had_now(tmp_path, engine):
    engine.logs = lambda name, run=None: (
        LogFile("worker/0", engine.folder / "worker/0/log", "no"),
    )
    code, a_shell = call(tmp_path, engine, "logs", "app")
    assert (code, a_shell.out.text) == (0, "worker/0 | one\nworker/0 | two\n")
    assert a_shell.err.text == "worker/0: the rest of its log cannot be read now: no\n"


def test_a_log_that_is_not_there(tmp_path, engine):
    code, a_shell = call(tmp_path, engine, "logs", "app", "wroker/1")
    assert (code, a_shell.out.text) == (44, "")
    assert a_shell.err.text == "error: app has no log 'wroker/1'\n  Did you mean worker/1?\n"


def test_another_instance_of_a_component(tmp_path, engine):
    code, a_shell = call(tmp_path, engine, "logs", "app", "worker/7")
    assert code == 44
    assert a_shell.err.text == "error: app has no log 'worker/7'\n  Logs: worker/0, worker/1.\n"


def test_no_logs_at_all(tmp_path):
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path / "logs", [ENDED]), "logs", "app")
    assert code == 44
    assert a_shell.err.text == (
        "error: app has no logs\n  `tfapp status app` says how it stands.\n"
    )


@pytest.mark.parametrize("what", ["worker/0", "worker", "coordinator"])
@pytest.mark.parametrize(("history", "when"), [(RUNNING, " yet"), (ENDED, "")], ids=str)
def test_a_log_that_may_come(tmp_path, what, history, when):
    engine = PlayedEngine(tmp_path / "logs", [history])
    code, a_shell = call(tmp_path, engine, "logs", "app", what)
    assert code == 44
    assert a_shell.err.text == (
        f"error: app has no log {what!r}{when}\n  `tfapp status app` says how it stands.\n"
    )


def test_following_goes_on_to_the_end(tmp_path, engine):
    engine.history = [RUNNING]
    look = engine.logs
    looks = []

    def logs(name, run=None):
        looks.append(name)
        if len(looks) == 2:
            engine.write_log("worker/0", " more\nlast")
        if len(looks) == 4:
            engine.stop("app", "end of the test")
        return look(name, run)

    engine.logs = logs
    code, a_shell = call(tmp_path, engine, "logs", "app", "worker/0", "-f")
    assert (code, a_shell.out.text) == (0, "one\ntwo more\nlast")


def test_following_does_not_wait_for_an_instance_that_will_never_be(tmp_path, engine):
    engine.history = [RUNNING]
    code, a_shell = call(tmp_path, engine, "logs", "app", "worker/7", "-f")
    assert (code, a_shell.out.text) == (44, "")
    assert "  Logs: worker/0" in a_shell.err.text


class Damaged(PlayedEngine):
    """An engine whose application has a state that cannot be read."""

    def find(self, name, run=None):
        raise DamagedError("run.json cannot be read: JSONDecodeError", "Destroy it.")


def test_a_damaged_application_has_its_logs(tmp_path):
    engine = Damaged(tmp_path, [status("DAMAGED")])
    code, shell = call(tmp_path, engine, "logs", "app")
    assert (code, shell.out.text) == (70, "")
    assert shell.err.text.startswith("error: run.json cannot be read")
    engine.write_log("worker/0", "epoch 1\n")
    code, shell = call(tmp_path, engine, "logs", "app", "-f")
    assert (code, shell.out.text) == (0, "worker/0 | epoch 1\n")
    assert shell.err.text == "warning: run.json cannot be read: JSONDecodeError\n"
    assert call(tmp_path, engine, "logs", "nobody")[0] == 70


def test_the_logs_are_listed_once(tmp_path, engine):
    """On a cluster that takes seconds, and to come back is to follow them."""
    asked, look = [], engine.logs
    engine.logs = lambda name, run=None: asked.append(name) or look(name, run)
    assert call(tmp_path, engine, "logs", "app")[0] == 0
    assert asked == ["app"]
