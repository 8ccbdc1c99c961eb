from __future__ import annotations

import argparse
import os
import signal

from tests.cli.played_engine import PlayedEngine, instance, shell, status
from tfapp.cli.launching import launch_and_stay


def test_ctrl_c_while_it_is_launched_stops_it_once_it_is(tmp_path):
    engine = PlayedEngine(tmp_path, [status("FORMING", instance("worker/0", "WAITING"))])

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        return engine._application(engine.history[0])

    args = argparse.Namespace(detach=False, wait=None)
    assert launch_and_stay("app", start, engine, args, shell(tmp_path)) == 130
    assert engine.stops == [("stopped by Ctrl-C", False)]
