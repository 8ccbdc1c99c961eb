"""A parent of masters for a master in the process of a test."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

from tfapp.master.children import ParentLine

# Looks after a child that does nothing, and serves whoever has the other end of the line.
_PARENT = """
import os, socket, sys, time
from tfapp.master.parent import Parent

parent = Parent()
child = os.fork()
if not child:
    parent.become_master()
    time.sleep(1000000)
parent.look_after(child, socket.socket(fileno=int(sys.argv[1])), float("inf"))
"""


@contextlib.contextmanager
def parent():
    """A ParentLine, whose parent ends with the block, and what it has started."""
    line, end = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(end.fileno())],
        pass_fds=[end.fileno()],
        start_new_session=True,
    )
    end.close()
    try:
        yield ParentLine(line, {}, frozenset(), process.pid)
    finally:
        line.close()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
