from __future__ import annotations

import argparse
import functools
import os
import signal

import pytest

from tests.cli.played_engine import SUCCESS, PlayedEngine, instance, shell, status
from tfapp.cli.launching import launch_and_stay
from tfapp.engines.base import Link


def test_ctrl_c_while_it_is_launched_stops_it_once_it_is(tmp_path):
    engine = PlayedEngine(tmp_path, [status("FORMING", instance("worker/0", "WAITING"))])

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        return engine._application(engine.history[0])

    args = argparse.Namespace(detach=False, wait=None)
    assert launch_and_stay("app", start, engine, args, shell(tmp_path)) == 130
    assert engine.stops == [("stopped by Ctrl-C", False)]


def test_ctrl_c_stays_ignored_where_it_is_as_in_the_background_of_a_shell(tmp_path):
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", instance("w/0", "OK"), verdict=SUCCESS)])

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        return engine._application(engine.history[0])

    args = argparse.Namespace(detach=False, wait=None)
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
    args = argparse.Namespace(detach=True, wait=wait)
    start = functools.partial(engine.create, "app", None)
    assert launch_and_stay("app", start, engine, args, a_shell) == 0
    assert a_shell.err.text.splitlines()[0] == "app: http://manager/proxy/app/"
