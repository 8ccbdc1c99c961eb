"""Runs the master script, which is the coordinator, as a process beside the master in the same
pod."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfapp.contract.names import MAX_LAST_LINES
from tfapp.errors import UnavailableError
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, Task, Told
from tfapp.standalone import bootstrap
from tfapp.threads import in_thread

TERM_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
CHUNK = 64 * 1024


class ScriptLauncher:
    """See tfapp.master.launcher.Launcher, for a single task. `certificate`, `key`: files. `folder`:
    for its working directory. `host`: the address of this pod. Its output is written to that of
    this process."""

    def __init__(self, files: FileServer, certificate: Path, key: Path, folder: Path, host: str):
        self._files = files
        self._certificate = certificate
        self._key = key
        self._folder = folder
        self._host = host
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, task: Task, told: Told) -> Ended:
        with self._files.offering(task, told):
            try:
                folder, order = await in_thread(self._prepare, task.id)
            except bootstrap.BadArchiveError as error:
                raise UnavailableError(f"a file of the application {error}") from error
        self._process = process = await asyncio.create_subprocess_exec(
            *("bash", ".skein.sh"),
            cwd=folder,
            env={**os.environ, **order["environment"]},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        last = b""
        while chunk := await process.stdout.read(CHUNK):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            last = (last + chunk)[-MAX_LAST_LINES:]
        code = await process.wait()
        return Ended(code, last_lines=last.decode(errors="replace").rstrip("\n"))

    async def kill(self, id: str) -> None:
        """See Launcher.kill. The script has no time to say anything."""
        process = self._process
        if process is not None and process.returncode is None:
            self._signal(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            self._signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), TERM_GRACE)
            self._signal(process.pid, signal.SIGKILL)
            await process.wait()

    def _signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)

    def _prepare(self, id: str) -> tuple[str, dict[str, Any]]:
        here = _Here(self._files, self._host)
        folder, order = bootstrap.prepare(
            here, id, str(self._certificate), str(self._key), str(self._folder)
        )
        return folder, order


class _Here:
    """As tfapp.standalone.bootstrap.MasterClient, in the process of the master itself."""

    def __init__(self, files: FileServer, host: str):
        self._files = files
        self._host = host

    def get(self, path: str, receive: Callable[[Any, str], Any]) -> Any:
        """The order of a container: "/containers/ID?attempt=A"."""
        id, _, attempt = path.rpartition("/")[2].partition("?attempt=")
        order = self._files.order(id, attempt, self._host)
        if order is None:
            raise UnavailableError("the master script is not wanted any more")
        return receive(io.BytesIO(json.dumps(order).encode()), self._host)

    def fetch(self, digest: str, path: str) -> None:
        """Makes a link to the content with this SHA-256."""
        found = self._files.path(digest)
        assert found is not None, digest
        os.symlink(found, path)
