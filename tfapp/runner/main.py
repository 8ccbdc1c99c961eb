"""The runner: one per container, from its start until its program and all of its kind are gone."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp import processes, threads
from tfapp.contract.log_times import Log
from tfapp.contract.names import OWN_LINE
from tfapp.errors import TfappError
from tfapp.protocol.connection import from_current, load
from tfapp.runner.container import Container, ContainerError
from tfapp.runner.events import Terminated
from tfapp.runner.loop import TERMINATED, Runner
from tfapp.runner.preparation import Preparation
from tfapp.runner.run_mode import RunMode, open_mode

# Seconds that are left to end a program after it had time to save.
LEAST = 6.0


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
            preparation = Preparation(container, mode)
            _leave_when_asked(container, mode, preparation)
            load()
            with from_current(environ) as connection:
                container.delete_master_key()
                preparation.start()
                return Runner(container, connection, preparation, mode, say).run()
    except (ContainerError, TfappError, OSError) as error:
        say(str(error))
        return 1


def say(text: str) -> None:
    """Writes to the container's log. An error of the log is ignored."""
    lines = "".join(f"{OWN_LINE}{line}\n" for line in text.splitlines())
    Log(sys.stderr.fileno()).write(lines.encode(errors="replace"))


def _leave_when_asked(container: Container, mode: RunMode, preparation: Preparation) -> None:
    """On SIGTERM, gives the program the grace that this container has, then kills all and ends this
    process, in whatever it waits for its master."""
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def leave() -> None:
        asked.get()
        limits = container.job.limits
        grace = min(limits.stop_grace, limits.container_grace)
        saves = 0.0
        if container.saved_file.is_file():
            saves = max(min(limits.save_grace, limits.container_grace - LEAST), 0.0)
        preparation.events.put(Terminated(grace, saves))
        time.sleep(min(saves + grace, limits.container_grace))
        mode.kill_all()
        os._exit(TERMINATED)

    threads.start_surely("tfapp-terminated", leave)
    # A signal's handler may take no lock, which the thread that it interrupts might hold.
    signal.signal(signal.SIGTERM, lambda *_: asked.put(None))
