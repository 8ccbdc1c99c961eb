"""The coordinator: one process beside the application's master, which makes all decisions."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.job import Job
from tfapp.contract.log_times import Log
from tfapp.contract.names import JOB_FILE, OWN_LINE
from tfapp.contract.status import ApplicationStatus, format_diagnostics
from tfapp.coordinator.loop import Loop, Terminated
from tfapp.coordinator.nodes import leads_to_pages, load
from tfapp.errors import ExitCode, RefusedError, TfappError, UnreachableError
from tfapp.protocol.connection import Connection, from_current

# Deadline of one call, in seconds. A master that was silent for longer is gone, and so are the
# runners, which kill their own programs when they cannot reach it.
PATIENCE = 30.0


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs the application of the job file in the current directory to its end. Returns 0 once the
    master knows the verdict."""
    if argv:
        say(f"the coordinator takes no arguments, got {list(argv)}")
        return int(ExitCode.USAGE)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # A SimpleQueue may be put to from a signal handler.
    signal.signal(signal.SIGTERM, lambda *_: inbox.put(Terminated("its coordinator was ended")))
    try:
        job = Job.from_dict(json.loads(Path(JOB_FILE).read_bytes()))
        with from_current(environ, PATIENCE) as connection:
            return coordinate(job, connection, inbox, environ.get("USER", ""))
    except TfappError as error:
        say(f"{error.message} ({error.hint})" if error.hint else error.message)
        return int(error.exit_code)


def coordinate(job: Job, connection: Connection, inbox: queue.SimpleQueue[Any], user: str) -> int:
    """Runs the application of `user` and tells the master its verdict. UnreachableError if the
    master is gone, and the application with it."""
    nodes = load(job.nodes)
    seed = int.from_bytes(os.urandom(8), "big")
    loop = Loop(job, connection, inbox, time.monotonic, time.time, say, nodes, seed)
    try:
        with contextlib.ExitStack() as held:
            if nodes is not None and leads_to_pages(nodes):
                from tfapp.coordinator.page import shown

                held.enter_context(shown(loop.status, connection, nodes, user))
            if job.metrics_port:
                from tfapp.coordinator import openmetrics

                try:
                    held.enter_context(openmetrics.served(job.metrics_port, loop.status))
                except OSError as error:
                    say(f"port {job.metrics_port} shows no metrics: {error.strerror}")
            status = loop.run()
    except UnreachableError:
        raise
    except Exception as error:
        say(traceback.format_exc())
        status = loop.broken(error)
    # The master ends the coordinator as soon as it has the verdict.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        shut_down(connection, status)
    except RefusedError as error:
        say(f"the application had been ended by somebody else: {error.message}")
    return int(ExitCode.SUCCESS)


def shut_down(connection: Connection, status: ApplicationStatus) -> None:
    """Ends the application with the verdict of `status`."""
    diagnostics, until = format_diagnostics(status), time.monotonic() + PATIENCE
    while True:
        try:
            return connection.shutdown(status.state, diagnostics)
        except UnreachableError:
            connection.containers()  # waits for the master; raises if it is gone
            if time.monotonic() >= until:
                raise


def say(text: str) -> None:
    """Writes a line to the coordinator's log. An error of the log is ignored."""
    Log(sys.stderr.fileno()).write(f"{OWN_LINE}{text}\n".encode(errors="replace"))
