"""Outlives a runner to end its Docker containers: the engine does not notice a runner's death.

    python -m tfapp.runner.docker.guard RUNNER_NAME

Standard input is a pipe from the runner. It brings "creating" before the engine is asked for a
container, then "started PID STARTED" or "ended", and "done" when there is nothing left to do. Its
end otherwise means that the runner was killed. The guard is a session of its own, so that a signal
to the runner's process group misses it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from tfapp.contract.names import ENV_GUARD, OWN_LINE
from tfapp.processes import Process, send
from tfapp.runner.docker.engine import CALL_LIMIT, DockerEngine, EngineError
from tfapp.runner.docker.ownership import LABEL_RUNNER, runner_name

_ROOT = Path(__file__).parents[3]
_CREATING, _STARTED, _ENDED, _DONE = "creating", "started", "ended", "done"
_REMOVAL_LIMIT = 10.0  # seconds
_LOOK_EVERY = 0.05  # seconds between looks at what the engine has
_END_LIMIT = 5.0  # seconds for a guard that was told that it is done


@dataclasses.dataclass
class Started:
    """The result of a container's creation: its first process, None when it did not start or has
    ended."""

    process: Process | None = None


class Guard:
    """The guard of this process's containers, in the hands of the runner."""

    def __init__(self, environ: Mapping[str, str]):
        """Starts it. OSError when that cannot be done."""
        self.runner = runner_name(os.getpid())
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self.runner],
            cwd=_ROOT,  # so that it runs this tfapp and no other
            env={**environ, ENV_GUARD: "1"},
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @contextlib.contextmanager
    def expecting(self) -> Iterator[Started]:
        """Announces that the block creates a container: the engine may finish that after this
        process has died. The block sets the container's first process, which the guard can kill
        without the engine."""
        self._write(_CREATING)
        started = Started()
        try:
            yield started
        finally:
            process = started.process
            words = f"{_STARTED} {process.pid} {process.started}" if process else _ENDED
            self._write(words)

    def close(self) -> None:
        """There are no containers any more: the guard ends."""
        self._write(_DONE)
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _pipe(self) -> IO[str]:
        assert self._process.stdin is not None, "it was asked for"
        return self._process.stdin

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):  # somebody has killed it
            self._pipe.write(f"{line}\n")
            self._pipe.flush()


def main(argv: Sequence[str]) -> int:
    """Waits for the runner's end. Returns an exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    containers = []
    creating = False
    for line in sys.stdin:
        word, *numbers = line.split()
        if word == _DONE:
            return 0
        creating = word == _CREATING
        if word == _STARTED:
            pid, started = map(int, numbers)
            containers.append(Process(pid, started))
    for process in containers:  # at once: this process may be killed the next moment
        send(process, signal.SIGKILL)
    return _remove_all(argv[0], creating)


def _remove_all(runner: str, creating: bool) -> int:
    """`creating`: the engine was asked for a container that it may not have made yet."""
    try:
        engine = DockerEngine(os.environ)
        end = time.monotonic() + (CALL_LIMIT if creating else _REMOVAL_LIMIT)
        # One that was just being started may refuse to go, and has to be asked again.
        while (found := engine.labelled(f"{LABEL_RUNNER}={runner}")) or creating:
            for container in found:
                engine.remove(container)
                creating = False
            if time.monotonic() >= end:
                break
            time.sleep(_LOOK_EVERY)
    except EngineError as error:
        sys.stderr.write(f"{OWN_LINE}a container may remain: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
