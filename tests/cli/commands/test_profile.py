"""What `tfapp profile` shows."""

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import PlayedEngine, instance, status
from tests.cli.played_runners import PlayedTracers
from tfapp.engines import control

NAMES = ("worker/0", "worker/1", "ps/0")
RUNS = status("RUNNING", *(instance(name, "RUNNING") for name in NAMES))


@pytest.fixture
def ask(tmp_path, monkeypatch):
    def ask(traced: dict[str, str], *words: str):
        engine = PlayedEngine(tmp_path, [RUNS])
        runners = PlayedTracers(traced)
        monkeypatch.setattr(engine, "connect", lambda name: runners, raising=False)
        monkeypatch.setattr(control.time, "strftime", lambda form: "RUN")
        code, a_shell = call(tmp_path, engine, "profile", "app", *words)
        return code, a_shell, [(one.instances, one.seconds) for one in runners.requests]

    return ask


def test_the_traces_of_all_and_why_some_have_none(ask):
    code, a_shell, asked = ask({"worker/0": "", "worker/1": "", "ps/0": "it has not answered"})
    assert (code, asked) == (0, [((), 5.0)])
    assert (
        a_shell.out.text
        == """\
worker/0  /c/plugins/profile/RUN/worker_0.xplane.pb
worker/1  /c/plugins/profile/RUN/worker_1.xplane.pb
ps/0 has no trace: it has not answered
`tfapp tensorboard app` shows them on the page Profile, as RUN
"""
    )


def test_components_and_instances_are_asked_alone(ask):
    words = ("ps", "worker/1", "--seconds", "0.5")
    code, a_shell, asked = ask({"worker/1": "", "ps/0": ""}, *words)
    assert (code, asked) == (0, [(("worker/1", "ps/0"), 0.5)])


def test_without_any_trace_it_fails(ask, monkeypatch):
    monkeypatch.setattr(control.profile, "__defaults__", ((), 5.0, 0.2))
    code, a_shell, _ = ask({"worker/0": "no"}, "worker", "--seconds", "0.1")
    assert (code, a_shell.out.text) == (
        44,
        "worker/0 has no trace: no\nworker/1 has not answered\n",
    )


def test_more_seconds_than_a_trace_takes_are_a_mistake(ask):
    code, a_shell, asked = ask({}, "--seconds", "61")
    assert (code, asked) == (2, [])
    assert "a profile of 61 s: it is more than 0 and at most 60 s" in a_shell.err.text
