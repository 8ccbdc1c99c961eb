"""The command that the follower's machine runs at the end."""

import dataclasses
import json
import shlex
import sys

import pytest

from tests.cli.played_engine import SUCCESS, PlayedEngine, instance, shell, status
from tests.coordinator.world import job
from tests.waiting import wait
from tfapp.launch import on_end

ENDED = status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS)
WRITES = """
import os, sys
with open(sys.argv[1] + ".new", "w") as file:
    file.write(sys.stdin.read())
os.replace(file.name, sys.argv[1])
"""


def with_command(command: str):
    made = job("worker=1")
    site = {"site.global.on.end": command}
    components = [dataclasses.replace(one, site=site) for one in made.components]
    return dataclasses.replace(made, components=tuple(components))


@pytest.fixture
def engine(tmp_path):
    return PlayedEngine(tmp_path, [ENDED])


def test_it_gets_the_verdict_and_is_not_waited_for(tmp_path, engine):
    a_shell, ended = shell(tmp_path, engine), engine.find("app")
    words = shlex.join(["command", sys.executable, "-c", WRITES, str(tmp_path / "told")])
    on_end.remember(a_shell, ended, with_command(words))
    on_end.run_command(a_shell, engine, ended)
    wait((tmp_path / "told").exists, "the command has written", 60)
    told = json.loads((tmp_path / "told").read_text())
    assert (told["name"], told["state"], told["id"]) == ("app", "SUCCEEDED", ended.id)
    assert a_shell.err.text == ""


@pytest.mark.parametrize("command", ["command /no/such", "command 'open"])
def test_one_that_does_not_run_is_told(tmp_path, engine, command):
    a_shell, ended = shell(tmp_path, engine), engine.find("app")
    on_end.remember(a_shell, ended, with_command(command))
    on_end.run_command(a_shell, engine, ended)
    assert "the command of site.global.on.end does not run: " in a_shell.err.text


def test_what_was_not_submitted_here_runs_nothing(tmp_path, engine):
    """Also not of an earlier application of this name."""
    a_shell, ended = shell(tmp_path, engine), engine.find("app")
    mark = tmp_path / "mark"
    on_end.remember(a_shell, ended, with_command(f"command touch {mark}"))
    for other in (dataclasses.replace(ended, id="another"), dataclasses.replace(ended, name="b")):
        on_end.run_command(a_shell, engine, other)
    on_end.remember(a_shell, ended, with_command(""))
    on_end.run_command(a_shell, engine, ended)
    on_end.remember(a_shell, ended, with_command(f"command touch {mark}"))
    on_end.forget(a_shell, "local", "app")
    on_end.run_command(a_shell, engine, ended)
    assert (mark.exists(), a_shell.err.text) == (False, "")
