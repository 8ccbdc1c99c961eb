"""The coordinator: one process beside the application's master, which makes all decisions."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tfapp import threads
from tfapp.contract.encoding import encode
from tfapp.contract.job import Job
from tfapp.contract.log_times import Log
from tfapp.contract.names import (
    ENV_COORDINATOR,
    ENV_MASTER_TIMEOUT,
    JOB_FILE,
    KEY_FOLLOWED,
    KEY_STATUS,
    OWN_LINE,
    SUCCEEDED,
    attempt_of,
)
from tfapp.contract.status import AFTER_END, ApplicationStatus, Moment, format_diagnostics
from tfapp.coordinator.after_end import follow_up
from tfapp.coordinator.loop import Loop, Terminated
from tfapp.coordinator.nodes import Nodes, leads_to_pages, load, unfit
from tfapp.coordinator.nodes import attempt as attempt_in
from tfapp.coordinator.record import Attempt
from tfapp.errors import ExitCode, RefusedError, TfappError, UnavailableError, UnreachableError
from tfapp.frozen import replace
from tfapp.protocol.connection import Connection, from_current
from tfapp.standalone import watchdog

# Deadline of one call, in seconds, where the master is the last one. One that was silent for longer
# is gone, and so are the runners, which kill their own programs when they cannot reach it.
PATIENCE = 30.0
TERMINATED = 128 + signal.SIGTERM  # exit code of one that was asked to end

CUT_SHORT = (
    "the coordinator was lost after the verdict: the history may lack this run, and "
    "site.global.on.end may not have been told"
)


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
        _be_watched()
        job = Job.from_dict(json.loads(Path(JOB_FILE).read_bytes()))
        patience = float(environ.get(ENV_MASTER_TIMEOUT, PATIENCE))
        nodes = load(job.nodes)
        attempt = attempt_in(nodes, environ, job)
        try:
            with from_current(environ, patience) as connection:
                return coordinate(job, connection, inbox, environ, nodes, attempt)
        except UnreachableError:
            if attempt is not None:
                attempt.end_master()
            raise
    except TfappError as error:
        say(f"{error.message} ({error.hint})" if error.hint else error.message)
        return int(error.exit_code)


def _be_watched() -> None:
    """From now on this process is killed when it stands still (tfapp.standalone.watchdog): whoever
    has started it starts another, which a master that lives would not do otherwise."""
    try:
        command = [sys.executable, "-I", "-S", watchdog.__file__]
        env = {name: value for name, value in os.environ.items() if name != ENV_COORDINATOR}
        pipe = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, env=env).stdin
        assert pipe is not None, "it was asked for"
        threads.start("tfapp-alive", _tell_of_life, pipe)
    except OSError as error:
        say(f"nobody watches whether the coordinator stands still: {error.strerror}")


def _tell_of_life(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # somebody has killed the watchdog
        while True:
            pipe.write(b".")
            time.sleep(watchdog.BEAT)


def coordinate(
    job: Job,
    connection: Connection,
    inbox: queue.SimpleQueue[Any],
    environ: Mapping[str, str],
    nodes: Nodes | None,
    attempt: Attempt | None,
) -> int:
    """Runs the application and tells the master its verdict. UnreachableError if the master is
    gone, and with it the application, or this attempt of it; UnavailableError if the record of the
    earlier attempts cannot be read."""
    another = attempt is not None and attempt.number < job.attempts
    if another:
        # It is no verdict when a container is moved away: the next attempt goes on.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
    seed = int.from_bytes(os.urandom(8), "big")
    clocks, number = (time.monotonic, time.time), attempt_of(environ.get("CONTAINER_ID", ""))
    followed = ENV_COORDINATOR in environ
    ask = unfit(nodes, environ, job)
    loop = Loop(job, connection, inbox, *clocks, say, nodes, seed, attempt, number, followed, ask)
    try:
        with contextlib.ExitStack() as held:
            if nodes is not None and leads_to_pages(nodes):
                from tfapp.coordinator.page import shown

                held.enter_context(shown(loop.status, connection, nodes, environ.get("USER", "")))
            if job.metrics_port:
                from tfapp.coordinator import openmetrics

                try:
                    held.enter_context(openmetrics.served(job.metrics_port, loop.status))
                except OSError as error:
                    say(f"port {job.metrics_port} shows no metrics: {error.strerror}")
            status = loop.run()
    except (UnreachableError, UnavailableError):
        raise
    except Exception as error:
        say(traceback.format_exc())
        status = loop.broken(error)
    # The master ends the coordinator as soon as it has the verdict.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sentences := _follow_up(job, status, loop, connection, environ):
        status = _with_failures(status, sentences)
        with contextlib.suppress(UnreachableError, RefusedError):
            connection.put(KEY_STATUS, encode(status))
    if attempt is not None and another and status.state != SUCCEEDED:
        try:
            attempt.end(status.state, format_diagnostics(status))
        except (UnavailableError, OSError) as error:
            say(f"YARN runs another master, which ends at once: it was not told: {error}")
    try:
        shut_down(connection, status)
    except RefusedError as error:
        say(f"the application had been ended by somebody else: {error.message}")
    return int(ExitCode.SUCCESS)


def _follow_up(
    job: Job,
    status: ApplicationStatus,
    loop: Loop,
    connection: Connection,
    environ: Mapping[str, str],
) -> Sequence[str]:
    """Does once what follows the verdict. Returns what has failed of it, in sentences."""
    settings = job.components[0].settings
    follows = settings.text("history.dir") or settings.text("on.end")
    if follows and ENV_COORDINATOR in environ:
        if connection.get(KEY_FOLLOWED) is not None:
            return (CUT_SHORT,)
        connection.put(KEY_FOLLOWED, b"")
    failed = follow_up(job, status, loop.last_lines(), environ)
    loop.recorded(status)
    return failed()


def _with_failures(status: ApplicationStatus, sentences: Sequence[str]) -> ApplicationStatus:
    now, generation = time.time(), status.generation
    for sentence in sentences:
        say(sentence)
    more = [Moment(now, sentence, AFTER_END, "", generation) for sentence in sentences]
    return replace(status, timeline=(*status.timeline, *more))


def shut_down(connection: Connection, status: ApplicationStatus) -> None:
    """Ends the application with the verdict of `status`."""
    diagnostics, until = format_diagnostics(status), time.monotonic() + connection.deadline
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
