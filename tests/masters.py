"""What befalls the masters of a run."""

from __future__ import annotations

import os
import signal
import time

from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import read_state
from tfapp.processes import children

AWAY = 45.0  # seconds; a runner that is cut off lives for 30
OPTION = "site.global.master.attempts"
ATTEMPTS = 20  # a master that was stopped too late is another one of them


def keep_away(run: RunFolder, seconds: float = AWAY) -> None:
    """Kills the master, and lets none of the next ones begin for so long."""
    state = read_state(run)
    assert state is not None and state.parent is not None
    parent, stopped, until = state.parent.pid, set[int](), time.monotonic() + seconds
    others = children(parent)
    os.kill(state.process.pid, signal.SIGKILL)
    while time.monotonic() < until:
        for next in children(parent) - others - stopped:
            os.kill(next, signal.SIGSTOP)
            stopped.add(next)
        time.sleep(0.001)
    for next in stopped & children(parent):
        os.kill(next, signal.SIGCONT)
