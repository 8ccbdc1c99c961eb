"""The runner: one per container, from its start until its program and all of its kind are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfapp import processes
from tfapp.contract.log_times import Log
from tfapp.contract.names import OWN_LINE
from tfapp.errors import TfappError
from tfapp.protocol.connection import from_current, load
from tfapp.runner.container import Container, ContainerError
from tfapp.runner.loop import Runner
from tfapp.runner.preparation import Preparation
from tfapp.runner.run_mode import RunMode, open_mode

_TERMINATED = 128 + signal.SIGTERM


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs the instance that `environ` names, in the current directory. Takes no arguments."""
    if argv:
        say(f"the runner takes no arguments, got {list(argv)}")
        return 2
    try:
        container = Container.read(Path.cwd(), environ)
        container.make_work_dir()
        container.name_logs()
        processes.adopt_orphans()
        with contextlib.closing(open_mode(container, say)) as mode:
            signal.signal(signal.SIGTERM, lambda *_: _terminate(mode))
            load()
            with from_current(environ) as connection:
                container.delete_master_key()
                preparation = Preparation(container, mode)
                preparation.start()
                return Runner(container, connection, preparation, mode, say).run()
    except (ContainerError, TfappError, OSError) as error:
        say(str(error))
        return 1


def say(text: str) -> None:
    """Writes to the container's log. An error of the log is ignored."""
    lines = "".join(f"{OWN_LINE}{line}\n" for line in text.splitlines())
    Log(sys.stderr.fileno()).write(lines.encode(errors="replace"))


def _terminate(mode: RunMode) -> None:
    # SIGKILL follows 250 ms later: too little time to ask a program to end.
    mode.kill_all()
    os._exit(_TERMINATED)
