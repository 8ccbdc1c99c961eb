"""Starts a master (tfapp.engines.local.daemon) and waits until it serves."""

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
from tfapp.engines.disk import make_private
from tfapp.engines.local.container_env import inherited
from tfapp.engines.local.daemon import GO, HINT
from tfapp.engines.local.layout import RunFolder
from tfapp.engines.local.process_tree import Process, identify
from tfapp.errors import UnavailableError

READY_DEADLINE = 60.0  # seconds until a master must serve

_ENDED = "the application master has ended while it started"
_ROOT = Path(tfapp.__file__).parent.parent


class Launch:
    """A master that is being started. As a context manager: unless `wait` has returned, it is
    ended and its process is gone on leaving."""

    def __init__(self, python: str, run: RunFolder, environ: Mapping[str, str]):
        """Starts the process; it prepares itself, and serves once `go` is called. `run` needs
        to be complete only then."""
        make_private(run.master_log.parent)
        self._pid = 0
        self._ready = False
        self._log = run.master_log
        self._text = b""
        with open(os.open(self._log, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as log:
            self._process = subprocess.Popen(
                [python, "-m", "tfapp.engines.local.daemon", str(run.path)],
                cwd=_ROOT,  # so that it runs this tfapp and no other
                env=master_environment(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._ready:
            self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait()

    def wait_for_process(self, timeout: float = READY_DEADLINE) -> Process:
        """The master's process. It ends by itself if this one ends before `go`."""
        self._pid = int(self._expect("pid", time.monotonic() + timeout))
        process = identify(self._pid)
        if process is None:
            raise UnavailableError(_ENDED, self._last_line())
        return process

    def go(self) -> None:
        """The run folder is complete."""
        with contextlib.suppress(BrokenPipeError):  # `wait` will say why
            self._process.stdin.write(GO.encode())  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    def wait(self, timeout: float = READY_DEADLINE) -> str:
        """The address at which the master serves. UnavailableError when it does not."""
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
        descriptor = self._process.stdout.fileno()  # type: ignore[union-attr]
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while b"\n" not in self._text:
            if not poller.poll(max(end - time.monotonic(), 0) * 1000):
                raise UnavailableError("the application master does not start in time")
            data = os.read(descriptor, 4096)
            if not data:
                raise UnavailableError(_ENDED, self._last_line())
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        return line.decode(errors="replace")

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"The last line of its log: {lines[-1]}" if lines else ""

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def master_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a master's own process gets: what containers inherit, and what its Python needs."""
    python = {name: value for name, value in environ.items() if name.startswith("PYTHON")}
    return {
        **inherited(environ),
        **python,
        "GRPC_ENABLE_FORK_SUPPORT": "0",  # it starts processes, and they never use gRPC's state
        "GRPC_VERBOSITY": "ERROR",
    }
