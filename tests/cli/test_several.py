"""`stop` and `destroy` of several, on an engine that plays several applications."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import STOPPED, SUCCESS, PlayedEngine, status
from tfapp.engines.base import Application
from tfapp.errors import InUseError, UnreachableError


class Several(PlayedEngine):
    """Applications by name, each with its tags; those that begin with "l" run. All that are
    stopped have to be stopped at the same time."""

    def __init__(self, folder, together: int = 1, **tags: tuple[str, ...]):
        super().__init__(folder, [status("RUNNING")])
        self.known = tags
        self.live = {name for name in tags if name.startswith("l")}
        self._stops = threading.Barrier(together)
        self.silent = ""

    def find(self, name, run=None) -> Application:
        live = name in self.live
        now = status("RUNNING") if live else status("SUCCEEDED", verdict=SUCCESS)
        return Application(name, "local", f"id-{name}", 1, live, now, self.known[name])

    def list(self):
        return tuple(map(self.find, self.known))

    def stop(self, name, message, force=False, timeout=None):
        if name == self.silent:
            raise UnreachableError("its master does not answer", "Try again.")
        if name in self.live:
            self._stops.wait(60)
            self.live.discard(name)
            self.stops.append((name, message, force))
        ended = status("KILLED", verdict=STOPPED)
        return dataclasses.replace(self.find(name), status=ended)

    def destroy(self, name) -> None:
        if name in self.live:
            raise InUseError(f"{name} is running", f"`tfapp stop {name}` ends it.")
        self.calls.append(f"destroy {name}")


def ends(a_shell) -> str:
    """What was said, but for what is said while they are waited for."""
    lines = a_shell.err.text.splitlines(keepends=True)
    return "".join(line for line in lines if "are asked to end" not in line)


def test_all_with_a_tag_are_stopped_at_the_same_time(tmp_path):
    engine = Several(tmp_path, 2, l1=("a",), l2=("a", "b"), l3=("b",), e1=("a",))
    code, a_shell = call(tmp_path, engine, "stop", "--tag", "a", "--message", "enough")
    assert (code, ends(a_shell)) == (0, "e1 was not running: KILLED\nl1: KILLED\nl2: KILLED\n")
    assert sorted(engine.stops) == [("l1", "enough", False), ("l2", "enough", False)]
    assert engine.live == {"l3"}


def test_what_keeps_one_does_not_keep_the_others(tmp_path):
    engine = Several(tmp_path, e1=("a",), l2=("a",), e3=("a",), e4=())
    code, a_shell = call(tmp_path, engine, "destroy", "--tag", "a")
    assert (code, a_shell.err.text) == (
        73,
        "e1 is destroyed\ne3 is destroyed\nerror: l2: l2 is running\n  `tfapp stop l2` ends it.\n",
    )
    assert sorted(engine.calls) == ["destroy e1", "destroy e3"]
    code, a_shell = call(tmp_path, engine, "destroy", "--tag", "a", "--force")
    assert (code, sorted(engine.calls[2:])) == (0, ["destroy e1", "destroy e3", "destroy l2"])


def test_the_first_failure_by_name_is_the_exit_code(tmp_path):
    engine = Several(tmp_path, l1=("a",), l2=("a",))
    engine.silent = "l1"
    code, a_shell = call(tmp_path, engine, "stop", "--tag", "a")
    assert code == 48
    assert ends(a_shell) == "error: l1: its master does not answer\n  Try again.\nl2: KILLED\n"


@pytest.mark.parametrize("command", ["stop", "destroy"])
def test_a_tag_that_none_has(tmp_path, command):
    engine = Several(tmp_path, l1=("sweep-7",))
    code, a_shell = call(tmp_path, engine, command, "--tag", "swep-7")
    assert (code, a_shell.err.text) == (
        69,
        "error: no application has the tag swep-7\n  Did you mean sweep-7?\n",
    )
    assert engine.live == {"l1"}


@pytest.mark.parametrize("words", [(), ("l1", "--tag", "a")], ids=str)
@pytest.mark.parametrize("command", ["stop", "destroy"])
def test_a_name_or_a_tag(tmp_path, command, words):
    engine = Several(tmp_path, l1=("a",))
    code, a_shell = call(tmp_path, engine, command, *words)
    assert code == 2
    assert a_shell.err.text.startswith("error: expected either NAME or --tag\n")
    assert engine.live == {"l1"}


def test_several_names_are_taken_in_their_order_and_once(tmp_path):
    engine = Several(tmp_path, 2, l2=(), l1=(), l3=())
    code, a_shell = call(tmp_path, engine, "stop", "l2", "l1", "l2")
    assert (code, ends(a_shell)) == (0, "l2: KILLED\nl1: KILLED\n")
    assert engine.live == {"l3"}
    code, a_shell = call(tmp_path, engine, "destroy", "l1", "l3", "l2")
    assert code == 73
    assert a_shell.err.text.splitlines()[1] == "error: l3: l3 is running"
    assert sorted(engine.calls) == ["destroy l1", "destroy l2"]


def test_all_that_have_ended(tmp_path):
    engine = Several(tmp_path, e1=("a",), l2=("a",), e3=())
    for word, destroyed in (("a", ["e1"]), (None, ["e1", "e3"])):
        tag = () if word is None else ("--tag", word)
        engine.calls.clear()
        assert call(tmp_path, engine, "destroy", "--ended", *tag)[0] == 0
        assert sorted(engine.calls) == [f"destroy {name}" for name in destroyed]


def test_all_that_ended_long_ago(tmp_path, monkeypatch):
    """They ended at 1e9."""
    monkeypatch.setattr("time.time", lambda: 1e9 + 7 * 86400 - 1)
    engine = Several(tmp_path, e1=(), l2=())
    code, a_shell = call(tmp_path, engine, "destroy", "--ended", "--older-than", "7d")
    assert (code, a_shell.err.text) == (0, "no such application has ended\n")
    code, a_shell = call(tmp_path, engine, "destroy", "--ended", "--older-than", "167 h")
    assert (code, engine.calls) == (0, ["destroy e1"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("e1", "--ended"), "error: --ended takes no NAME\n"),
        (("--older-than", "1d"), "error: --older-than is of --ended\n"),
    ],
    ids=str,
)
def test_flags_that_do_not_fit(tmp_path, words, said):
    engine = Several(tmp_path, e1=())
    code, a_shell = call(tmp_path, engine, "destroy", *words)
    assert (code, engine.calls) == (2, [])
    assert a_shell.err.text.startswith(said)


@pytest.mark.parametrize("time", ["soon", "-1", "1 year"])
def test_what_is_no_time(tmp_path, capsys, time):
    with pytest.raises(SystemExit) as raised:
        call(tmp_path, Several(tmp_path, e1=()), "destroy", "--ended", f"--older-than={time}")
    assert raised.value.code == 2
    assert f"{time!r} is not a time such as 7d, 12h, 30min or 90s" in capsys.readouterr().err
