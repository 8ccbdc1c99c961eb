"""What `tfapp stacks` shows."""

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, instance, status
from tests.cli.played_runners import PlayedRunners
from tfapp.contract import stacks as contract
from tfapp.contract.exit import Exit
from tfapp.engines import control

NAMES = ("worker/0", "worker/1", "worker/2", "ps/0")
RUNS = status("RUNNING", *(instance(name, "RUNNING") for name in NAMES))

ALL = """\
2 of 4 are in load at data.py:41: worker/0, worker/2
  worker/0, process 7: python train.py
  by handler (py-spy: none)
    main thread
      load at data.py:41

worker/1 is in load at data.py:12
  worker/1, process 7: python train.py
  by handler (py-spy: none)
    main thread
      load at data.py:12

ps/0 is in a place that is not known: it runs no Python, but bash

"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    def ask(lines: dict[str, int], *words: str, history=RUNS):
        engine = PlayedEngine(tmp_path, [history])
        runners = PlayedRunners(lines)
        monkeypatch.setattr(engine, "connect", lambda name: runners, raising=False)
        code, a_shell = call(tmp_path, engine, "stacks", "app", *words)
        return code, a_shell, [request.instances for request in runners.requests]

    return ask


def test_equal_places_are_told_together_with_the_frames_of_the_first(ask):
    code, a_shell, asked = ask({"worker/0": 41, "worker/1": 12, "worker/2": 41, "ps/0": 0})
    assert (code, asked) == (0, [()])
    assert a_shell.out.text == ALL


def test_peers_that_have_ended_are_named(ask):
    """The others may wait for them."""
    over = instance("worker/1", "SUCCEEDED", exit=Exit(0, None, "exit", "exit code 0"))
    board = instance("tensorboard/0", "FAILED", exit=Exit(1, None, "exit", "exit code 1"))
    runs = status("RUNNING", instance("worker/0", "RUNNING"), over, board)
    code, a_shell, _ = ask({"worker/0": 41}, history=runs)
    assert code == 0
    assert a_shell.out.text.endswith(
        "      load at data.py:41\n\nworker/1 has ended: exit code 0\n"
    )


def test_a_component_or_an_instance_is_asked_alone(ask):
    code, a_shell, asked = ask({"worker/1": 12}, "worker/1")
    assert (code, asked) == (0, [("worker/1",)])
    assert a_shell.out.text.startswith("worker/1 is in load at data.py:12\n")
    assert ask({"worker/0": 1, "worker/1": 1, "worker/2": 1}, "worker")[2] == [
        ("worker/0", "worker/1", "worker/2")
    ]


def test_who_does_not_answer_is_named(ask, monkeypatch):
    monkeypatch.setattr(control.stacks, "__defaults__", ("", 0.3))
    code, a_shell, _ = ask({"worker/0": 41}, "worker")
    assert code == 0
    assert a_shell.out.text.endswith("\nworker/1 has not answered\nworker/2 has not answered\n")
    assert contract.ASK_LIMIT > contract.LIMIT


def test_a_name_that_is_none_and_programs_that_do_not_run(ask):
    code, a_shell, asked = ask({}, "wrker")
    assert (code, asked) == (44, [])
    assert "app has no instance or component 'wrker'" in a_shell.err.text
    forms = status("FORMING", instance("worker/0", "WAITING"))
    code, a_shell, asked = ask({}, history=forms)
    assert (code != 0, asked) == (True, [])
    assert "no program of app runs" in a_shell.err.text
    ended = status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS)
    assert "no program of app runs" in ask({}, history=ended)[1].err.text
