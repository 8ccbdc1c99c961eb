"""Starts a master (tfapp.engines.machine.daemon) and waits until it serves. The variables that it
and its containers inherit from the submitting user."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import tfapp
from tfapp.contract.names import OF_MACHINE
from tfapp.engines.machine.daemon import GO, HINT
from tfapp.engines.machine.folders import RunFolder
from tfapp.errors import UnavailableError
from tfapp.processes import Process, identify
from tfapp.tools import last_line

READY_DEADLINE = 60.0  # seconds until a master must serve

_KILL_LIMIT = 5.0  # seconds that a killed one may take to be gone
_ENDED = "the application master has ended while it started"
_ROOT = Path(tfapp.__file__).parent.parent

_INHERITED = {*OF_MACHINE, "LANG", "LANGUAGE", "TZ"}


class MasterStart:
    """A master that is being started. As a context manager it ends the master at the end of the
    block, unless `wait` has returned."""

    def __init__(self, python: str, launcher: str, run: RunFolder, environ: Mapping[str, str]):
        """Starts the process, which prepares itself. It serves once `go` is called; until then
        nothing of `run` need exist."""
        self.run = run
        self._ready = False
        self._text = b""
        self._process = subprocess.Popen(
            [python, "-m", "tfapp.engines.machine.daemon", launcher, str(run.path)],
            cwd=_ROOT,  # so that it runs this tfapp and no other
            env=master_environment(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        os.set_blocking(self._process.stderr.fileno(), False)  # type: ignore[union-attr]

    def __enter__(self) -> MasterStart:
        return self

    def __exit__(self, *exc_info: object) -> None:
        process = self._process
        if not self._ready:
            # Its group: this process has forked the one that serves, which lives until nobody
            # has the other end of the pipe.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            end = time.monotonic() + _KILL_LIMIT
            with contextlib.suppress(UnavailableError):
                while self._read(end):
                    pass
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        process.wait()

    def wait_for_process(self, timeout: float = READY_DEADLINE) -> tuple[Process, Process]:
        """The master and its parent. They end by themselves if this process ends before `go`."""
        told = self._expect("pid", time.monotonic() + timeout).split()
        process, parent = (identify(int(pid)) for pid in told)
        if process is None or parent is None:
            raise UnavailableError(_ENDED, self._last_line())
        return process, parent

    def go(self) -> None:
        """Tells the master that the run folder is complete."""
        with contextlib.suppress(BrokenPipeError):  # `wait` will say why
            self._process.stdin.write(GO.encode())  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    def wait(self, timeout: float = READY_DEADLINE) -> str:
        """The address at which the master serves. UnavailableError if it does not serve."""
        address = self._expect("ready", time.monotonic() + timeout)
        self._ready = True
        return address

    def _expect(self, word: str, end: float) -> str:
        found, _, rest = self._read_line(end).partition(" ")
        if found != word:
            sentence, _, hint = rest.partition(HINT)
            raise UnavailableError(f"the application master cannot start: {sentence}", hint)
        return rest

    def _read_line(self, end: float) -> str:
        while b"\n" not in self._text:
            data = self._read(end)
            if not data:
                raise UnavailableError(_ENDED, self._last_line())
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        return line.decode(errors="replace")

    def _read(self, end: float) -> bytes:
        """The next bytes of a pipe; none at its end. UnavailableError after the time limit."""
        descriptor = self._process.stdout.fileno()  # type: ignore[union-attr]
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        if not poller.poll(max(end - time.monotonic(), 0) * 1000):
            raise UnavailableError("the application master does not start in time")
        return os.read(descriptor, 4096)

    def _last_line(self) -> str:
        """The last line of a master that has ended: from its log, or from its output if it has no
        log yet."""
        said = self._process.stderr.read() or b""  # type: ignore[union-attr]
        with contextlib.suppress(FileNotFoundError):
            said += self.run.master_log.read_bytes()
        line = last_line(said.decode(errors="replace"))
        return f"The last line of its log: {line}" if line else ""


def master_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a master process: that of containers, and the variables of its Python."""
    python = {name: value for name, value in environ.items() if name.startswith("PYTHON")}
    return {
        **inherited(environ),
        **python,
        "GRPC_ENABLE_FORK_SUPPORT": "0",  # it starts processes, and they never use gRPC's state
        "GRPC_VERBOSITY": "ERROR",
    }


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that containers get from the submitting user's environment: OF_MACHINE, LANG,
    LANGUAGE, LC_* and TZ. Nothing else, as on a cluster: a package declares the variables of its
    programs by `env.NAME`."""
    return {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith("LC_")
    }
