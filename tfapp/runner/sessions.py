"""The sessions in a container (tfapp.contract.sessions), each a process: tfapp.runner.session."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tfapp import processes, threads
from tfapp.contract.encoding import encode
from tfapp.contract.sessions import Welcome
from tfapp.processes import Process
from tfapp.ready import ready

MOST = 4  # sessions at once
_BEGIN_LIMIT = 10.0  # seconds for a session to listen
_ROOT = Path(__file__).parents[2]


class SessionError(Exception):
    """There is no session; the text is a sentence for the user."""


class Sessions:
    """Those of one container. `environ`: of the processes that serve them; None: this one's.
    `over`: called after each."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        over: Callable[[Welcome], object] = lambda _: None,
    ) -> None:
        self._environ = environ
        self._over = over
        self._open: dict[int, subprocess.Popen[bytes]] = {}

    def pids(self) -> tuple[int, ...]:
        """Of the processes that serve them, whose children are not the program's."""
        return tuple(self._open)

    def begin(self, welcome: Welcome) -> int:
        """The port at which one more waits. SessionError."""
        if len(self._open) >= MOST:
            raise SessionError(f"{MOST} sessions are open in it, and more are not allowed")
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "tfapp.runner.session"],
                cwd=_ROOT,  # so that it runs this tfapp and no other
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            raise SessionError(f"no process can be started for it: {error.strerror}") from error
        self._open[process.pid] = process
        threads.start_surely("tfapp-session", self._wait, process, welcome)
        said = _port(process, welcome)
        if "port" not in said:
            with contextlib.suppress(OSError):
                process.kill()
            raise SessionError(str(said.get("why", "the process for it has not begun")))
        return int(str(said["port"]))

    def _wait(self, process: subprocess.Popen[bytes], welcome: Welcome) -> None:
        process.wait()
        try:
            self._over(welcome)
        finally:
            del self._open[process.pid]
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def kill_marked(
    env: Mapping[str, str],
    process_of: Callable[[int], Process | None] = processes.identify,
    session: int = 0,
) -> None:
    """Kills the processes that have `env` in their environment, with those of their sessions and of
    `session`, which is the pid of its first process. `process_of`: a process by its pid, None for
    one that is not to be looked at."""
    marks = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}

    def found() -> list[Process]:
        known = {
            one: process
            for one in processes.all_processes()
            if not one.dead and (process := process_of(one.pid)) is not None
        }
        marked = {one for one in known if marks.items() <= processes.environment(one.pid).items()}
        sessions = {session, *(one.session for one in marked)} - {0}  # 0: out of sight
        return [known[one] for one in known if one in marked or one.session in sessions]

    processes.kill_all(found, processes.KILL_LIMIT)


def _port(process: subprocess.Popen[bytes], welcome: Welcome) -> dict[str, object]:
    assert process.stdin is not None and process.stdout is not None, "they were asked for"
    with contextlib.suppress(OSError, ValueError):
        process.stdin.write(encode(welcome) + b"\n")
        process.stdin.flush()
        if ready([process.stdout], seconds=_BEGIN_LIMIT)[0]:
            said = json.loads(process.stdout.readline())
            return said if isinstance(said, dict) else {}
    return {}
