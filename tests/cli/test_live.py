from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import re
import signal

import pytest

from tests.cli.played_engine import SUCCESS, Output, PlayedEngine, failure, instance, shell, status
from tfapp.cli.live import (
    component_rows,
    ctrl_c_asks,
    follow_to_verdict,
    launch_and_stay,
    stopper_for,
)
from tfapp.contract.exit import Exit
from tfapp.contract.status import FAILURE, Moment
from tfapp.engines.base import Link, LogFile
from tfapp.errors import TimedOutError, UnavailableError


def run(engine: PlayedEngine, a_shell, **more) -> int:
    stopper = stopper_for(a_shell, engine, "app")
    with ctrl_c_asks(stopper.ask):
        return follow_to_verdict(a_shell, engine, engine.find_first(), stopper, **more)


def test_a_pipe_gets_output_on_stdout_and_plain_states_on_stderr(tmp_path):
    workers = [instance("worker/0", "RUNNING"), instance("worker/1", "WAITING")]
    running = [instance("worker/0", "RUNNING"), instance("worker/1", "RUNNING")]
    done = [instance("worker/0", "SUCCEEDED"), instance("worker/1", "SUCCEEDED")]
    engine = PlayedEngine(
        tmp_path,
        [
            status("ACCEPTED"),
            status("FORMING", *workers),
            status("RUNNING", *running),
            status("RUNNING", *running),
            status("SUCCEEDED", *done, verdict=SUCCESS),
        ],
    )
    engine.write_log("worker/0", "tfapp: starting\nepoch 1\nno line end")
    engine.write_log("worker/1", "not shown\n")
    a_shell = shell(tmp_path)
    assert run(engine, a_shell) == 0
    assert a_shell.out.text == "epoch 1\nno line end"
    assert "tfapp: starting\n" in a_shell.err.text
    assert a_shell.err.text.replace("tfapp: starting\n", "") == (
        "app: ACCEPTED\n"
        "app: FORMING\n"
        "app: RUNNING\n"
        "worker: 2 RUNNING\n"
        "app: SUCCEEDED\n"
        "worker: 2 SUCCEEDED\n"
        "app: Succeeded: all workers exited 0\n"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_why_it_starts_again_is_told_once(tmp_path, terminal):
    workers = [instance("worker/0", "RUNNING"), instance("worker/1", "RUNNING")]
    begin = Moment(1.0e9, "generation 1 starts, 2 instances")
    failed = Moment(1.0e9 + 20, "worker/1 ended with exit code 7")
    again = Moment(1.0e9 + 20, "generation 2 begins")
    flexed = Moment(1.0e9 + 30, "worker: 2 -> 3")
    over = Moment(1.0e9 + 40, SUCCESS.summary)

    def at(state: str, *timeline: Moment, **more):
        return dataclasses.replace(status(state, *workers, **more), timeline=timeline)

    engine = PlayedEngine(
        tmp_path,
        [
            at("RUNNING", begin),
            at("FORMING", begin, failed, again),
            at("RUNNING", begin, failed, again, flexed),
            at("STOPPING", begin, failed, again, flexed, over),
            at("SUCCEEDED", begin, failed, again, flexed, over, verdict=SUCCESS),
        ],
    )
    a_shell = shell(tmp_path, err=Output(terminal), environ={"TERM": "xterm"})
    assert run(engine, a_shell) == 0
    assert a_shell.err.text.count("app: worker/1 ended with exit code 7\n") == 1
    assert a_shell.err.text.count("app: worker: 2 -> 3\n") == 1
    assert "generation" not in a_shell.err.text
    assert a_shell.err.text.count(SUCCESS.summary) == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_what_happens_while_it_forms_is_told(tmp_path, terminal):
    """On a terminal once there are no rows any more."""
    back = Moment(1.0e9 + 5, "the application's master was lost and is back", FAILURE)
    worker = instance("worker/0", "WAITING")
    history = [
        status("FORMING", worker),
        dataclasses.replace(status("FORMING", worker), timeline=(back,)),
        dataclasses.replace(status("RUNNING", instance("worker/0", "RUNNING")), timeline=(back,)),
        status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS),
    ]
    a_shell = shell(tmp_path, err=Output(terminal), environ={"TERM": "xterm"})
    assert run(PlayedEngine(tmp_path, history), a_shell) == 0
    assert a_shell.err.text.count(f"app: {back.text}\n") == 1


def test_what_a_browser_can_look_at_and_what_it_waits_for(tmp_path):
    board = instance("tensorboard/0", "RUNNING", exports={"t": {"url": "http://127.0.0.1:6006"}})
    history = [
        status("ACCEPTED"),
        status("RUNNING", board),
        status("SUCCEEDED", instance("tensorboard/0", "KILLED"), verdict=SUCCESS),
    ]
    page = Link("", "page", "http://manager/proxy/app/")
    for terminal in (False, True):
        engine = PlayedEngine(tmp_path, history, links=(page,), waits="The queue is full.")
        a_shell = shell(tmp_path, err=Output(terminal), environ={"TERM": "xterm"})
        assert run(engine, a_shell) == 0
        assert "app: http://manager/proxy/app/\n" in a_shell.err.text
        assert "The queue is full." in a_shell.err.text
        assert terminal or a_shell.err.text.count("app waits: The queue is full.\n") == 1
        assert a_shell.err.text.count("tensorboard/0 shows: http://127.0.0.1:6006\n") == 1


def test_the_verdict_is_told_though_there_is_no_log(tmp_path, monkeypatch):
    ended = status("SUCCEEDED", instance("worker/0", "SUCCEEDED", container="w_0"), verdict=SUCCESS)
    engine = PlayedEngine(tmp_path, [status("ACCEPTED"), ended])

    def no_logs(*_):
        raise UnavailableError("YARN has no logs")

    monkeypatch.setattr(engine, "logs", no_logs)
    a_shell = shell(tmp_path)
    assert run(engine, a_shell) == 0
    assert a_shell.err.text.splitlines()[-2:] == [
        "worker/0: YARN has no logs",
        "app: Succeeded: all workers exited 0",
    ]


def test_a_log_that_can_be_had_at_the_end_alone_is_shown_then(tmp_path, monkeypatch):
    running = status("RUNNING", instance("worker/0", "RUNNING", container="w_0"))
    ended = status("SUCCEEDED", instance("worker/0", "SUCCEEDED", container="w_0"), verdict=SUCCESS)
    engine = PlayedEngine(tmp_path, [running, ended])
    engine.write_log("worker/0", "epoch 1\n")
    look, refusals = engine.logs, iter([UnavailableError("its node does not show it")])

    def logs(name, run=None):
        for refusal in refusals:
            raise refusal
        return look(name, run)

    monkeypatch.setattr(engine, "logs", logs)
    a_shell = shell(tmp_path)
    assert run(engine, a_shell) == 0
    assert a_shell.out.text == "epoch 1\n"
    assert a_shell.err.text.count("worker/0: its node does not show it\n") == 1


def test_the_chief_is_shown_rather_than_a_worker(tmp_path):
    members = [instance("worker/0", "SUCCEEDED"), instance("chief/0", "SUCCEEDED")]
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", *members, verdict=SUCCESS)])
    engine.write_log("worker/0", "worker\n")
    engine.write_log("chief/0", "chief\n")
    a_shell = shell(tmp_path)
    assert run(engine, a_shell) == 0
    assert a_shell.out.text == "chief\n"


def test_output_goes_on_in_another_container(tmp_path):
    """The worker lost its first one."""
    running = status("RUNNING", instance("worker/0", "RUNNING"))
    ended = status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS)
    engine = PlayedEngine(tmp_path, [running, ended])
    engine.write_log("worker/0", "epoch 1\n")
    second = LogFile("worker/0", tmp_path / "second")
    second.path.write_text("epoch 2\n")
    look = engine.logs
    engine.logs = lambda name, run=None: (*look(name, run), second)
    a_shell = shell(tmp_path)
    assert run(engine, a_shell) == 0
    assert a_shell.out.text == "epoch 1\nepoch 2\n"


def test_a_failure_shows_its_cause_unless_its_output_was_shown(tmp_path):
    ended = Exit(3, None, "exit", "exit code 3")
    members = [instance("worker/0", "KILLED"), instance("worker/1", "FAILED", exit=ended)]
    for culprit, shown in (
        ("worker/1", "last lines of worker/1:\n  no such file\n"),
        ("worker/0", ""),
    ):
        verdict = failure(culprit, "no such file\n")
        engine = PlayedEngine(tmp_path, [status("FAILED", *members, verdict=verdict)])
        engine.write_log("worker/0", "")
        a_shell = shell(tmp_path)
        assert run(engine, a_shell) == 65
        assert a_shell.err.text == (
            "app: FAILED\n"
            "worker/1: FAILED: exit code 3\n"
            f"{shown}"
            f"app: Failed: {culprit}: exit code 3\n"
        )


def test_a_terminal_gets_rows_then_the_output_then_the_verdict(tmp_path):
    engine = PlayedEngine(
        tmp_path,
        [
            status("FORMING", instance("worker/0", "WAITING"), instance("ps/0", "WAITING")),
            status("SUCCEEDED", instance("worker/0", "SUCCEEDED"), verdict=SUCCESS),
        ],
    )
    engine.write_log("worker/0", "epoch 1\n")
    a_shell = shell(tmp_path, err=Output(terminal=True), environ={"TERM": "xterm"})
    assert run(engine, a_shell) == 0
    assert a_shell.out.text == "epoch 1\n"
    assert "1 WAITING" in a_shell.err.text
    assert a_shell.err.text.endswith("app: \x1b[32mSucceeded: all workers exited 0\x1b[0m\n")


def test_ctrl_c_stops_once_and_gives_130(tmp_path, monkeypatch):
    engine = PlayedEngine(tmp_path, [status("RUNNING", instance("worker/0", "RUNNING"))])
    a_shell = shell(tmp_path)
    interrupt_at_log_lookup(engine, monkeypatch, times=1)
    assert run(engine, a_shell) == 130
    assert engine.stops == [("stopped by Ctrl-C", False)]
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", a_shell.err.text)
    assert text.endswith(
        "stopping app (Ctrl-C once more: at once)\n"
        "app: its programs are asked to end, killed at TIME\n"
        "app: KILLED\napp: Stopped: a test\n"
    )


def test_ctrl_c_ends_the_rows_of_a_terminal(tmp_path):
    """They would be drawn over what it says."""
    engine = PlayedEngine(tmp_path, [status("FORMING", instance("worker/0", "WAITING"))])
    a_shell = shell(tmp_path, err=Output(terminal=True), environ={"TERM": "xterm"})
    stopper = stopper_for(a_shell, engine, "app")
    stopper.ask()
    assert follow_to_verdict(a_shell, engine, engine.find_first(), stopper) == 130
    rows, said, after = a_shell.err.text.partition("stopping app (Ctrl-C once more: at once)\n")
    assert rows.endswith("\x1b[?25h")  # the cursor is shown again: no row is to come
    assert said
    assert after.endswith("app: KILLED\napp: \x1b[33mStopped: a test\x1b[0m\n")
    assert "\x1b[2K" not in after


def test_a_second_ctrl_c_stops_at_once(tmp_path, monkeypatch):
    engine = PlayedEngine(tmp_path, [status("RUNNING", instance("worker/0", "RUNNING"))])
    patient = engine.stop
    monkeypatch.setattr(
        engine,
        "stop",
        lambda name, message, force: patient(name, message, force) if force else None,
    )
    interrupt_at_log_lookup(engine, monkeypatch, times=2)
    assert run(engine, shell(tmp_path)) == 130
    assert engine.stops == [("stopped by Ctrl-C", True)]


def interrupt_at_log_lookup(engine, monkeypatch, times: int) -> None:
    left = [times]
    logs = engine.logs

    def interrupted(name, run=None):
        if left[0]:
            left[0] -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return logs(name, run)

    monkeypatch.setattr(engine, "logs", interrupted)


def test_wait_gives_up_but_lets_the_application_go_on(tmp_path):
    engine = PlayedEngine(tmp_path, [status("FORMING", instance("worker/0", "WAITING"))])
    with pytest.raises(TimedOutError, match="app is not running after 0 s; it goes on"):
        run(engine, shell(tmp_path), wait=0.0)
    assert engine.stops == []
    engine.stop("app", "end of the test")


def test_rows_name_each_component_once():
    members = [
        instance("chief/0", "RUNNING"),
        instance("worker/0", "RUNNING"),
        instance("worker/1", "WAITING"),
    ]
    assert component_rows(status("FORMING", *members)) == [
        ("app", "FORMING"),
        ("chief", "1 RUNNING"),
        ("worker", "1 RUNNING, 1 WAITING"),
    ]


PULLING = "pulling image mine:1: 1 of 2 layers, 30 of 120 MiB"


def test_a_row_tells_what_its_component_prepares():
    members = [
        instance("chief/0", "WAITING"),
        instance("worker/0", "WAITING"),
        instance("worker/1", "REQUESTED", preparing=PULLING),
        instance("worker/2", "REQUESTED", preparing="pulling image mine:1"),
    ]
    assert component_rows(status("FORMING", *members)) == [
        ("app", "FORMING"),
        ("chief", "1 WAITING"),
        ("worker", f"1 WAITING, 2 REQUESTED: {PULLING} (and 1 more)"),
    ]


def test_a_row_tells_what_the_chief_or_the_first_worker_reports():
    known = {"metrics": {"loss": 0.31}, "step": 1200, "total": 5000, "steps_per_second": 35.2}
    workers = [instance("worker/0", "RUNNING", **known), instance("worker/1", "RUNNING", step=7)]
    told = "step 1200 of 5000 (24 %), 35.2 steps/s, 1m48s left, loss 0.31"
    assert component_rows(status("RUNNING", instance("ps/0", "RUNNING", **known), *workers)) == [
        ("app", "RUNNING"),
        ("ps", "1 RUNNING"),
        ("worker", f"2 RUNNING: {told}"),
    ]
    assert component_rows(status("RUNNING", *workers, instance("chief/0", "RUNNING", step=3))) == [
        ("app", "RUNNING"),
        ("worker", "2 RUNNING"),
        ("chief", "1 RUNNING: step 3"),
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_short_run_tells_its_last_metrics(tmp_path, terminal):
    known = {"metrics": {"loss": 0.25}, "step": 100}
    members = instance("worker/0", "WAITING"), instance("worker/0", "SUCCEEDED", **known)
    engine = PlayedEngine(
        tmp_path,
        [status("FORMING", members[0]), status("SUCCEEDED", members[1], verdict=SUCCESS)],
    )
    a_shell = shell(tmp_path, err=Output(terminal), environ={"TERM": "xterm"})
    assert run(engine, a_shell) == 0
    assert a_shell.err.text.count("worker/0: step 100, loss 0.25\n") == 1


def test_ctrl_c_while_it_is_launched_stops_it_once_it_is(tmp_path):
    engine = PlayedEngine(tmp_path, [status("FORMING", instance("worker/0", "WAITING"))])

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        return engine.find_first()

    args = argparse.Namespace(detach=False, wait=None, format="text")
    assert launch_and_stay("app", start, engine, args, shell(tmp_path)) == 130
    assert engine.stops == [("stopped by Ctrl-C", False)]


def test_ctrl_c_stays_ignored_where_it_is_as_in_the_background_of_a_shell(tmp_path):
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", instance("w/0", "OK"), verdict=SUCCESS)])

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        return engine.find_first()

    args = argparse.Namespace(detach=False, wait=None, format="text")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert launch_and_stay("app", start, engine, args, shell(tmp_path)) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert engine.stops == []


@pytest.mark.parametrize("wait", [None, 60.0])
def test_a_detached_application_says_where_its_page_is(tmp_path, wait):
    page = Link("", "page", "http://manager/proxy/app/")
    engine = PlayedEngine(tmp_path, [status("RUNNING")], links=(page,))
    a_shell = shell(tmp_path, engine)
    args = argparse.Namespace(detach=True, wait=wait, format="text")
    start = functools.partial(engine.create, "app", None)
    assert launch_and_stay("app", start, engine, args, a_shell) == 0
    assert a_shell.err.text.splitlines()[0] == "app: http://manager/proxy/app/"
