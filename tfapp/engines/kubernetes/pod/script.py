"""Runs the master script, which is the coordinator, as a process beside the master in the same
pod."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.names import MAX_LAST_LINES
from tfapp.disk import delete_tree
from tfapp.errors import UnavailableError
from tfapp.master.children import ParentLine, Processes
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, Task, Told
from tfapp.standalone import bootstrap
from tfapp.threads import in_thread

CHUNK = 64 * 1024


class ScriptLauncher:
    """See tfapp.master.launcher.Launcher, for a single task. Create it in the event loop.
    `certificate`, `key`: files. `folder`: for its working directory. `host`: the address of this
    pod. `more`: variables for it. Its output is written to that of this process."""

    def __init__(
        self,
        files: FileServer,
        certificate: Path,
        key: Path,
        folder: Path,
        host: str,
        parent: ParentLine,
        more: Mapping[str, str],
    ):
        self._files = files
        self._certificate = certificate
        self._key = key
        self._folder = folder
        self._host = host
        self._more = more
        self._parent = parent
        self._processes = Processes(parent)
        self._output = _Output(folder / "output", parent)
        self._present = ""

    async def clear(self) -> None:
        """Ends what an earlier master has started."""
        self._parent.forget()
        await self._processes.end_all()

    async def run(self, task: Task, told: Told) -> Ended:
        if not self._processes.knows(task.id):
            await in_thread(delete_tree, self._folder / task.id)  # half-made
            with self._files.offering(task, told):
                try:
                    folder, order = await in_thread(self._prepare, task.id)
                except bootstrap.BadArchiveError as error:
                    raise UnavailableError(f"a file of the application {error}") from error
            env = {**os.environ, **order["environment"], **self._more}
            self._output.last = b""
            self._processes.start(task.id, Path(folder), env, self._output.path)
        self._present = task.id
        code = await self._processes.exit(task.id)
        self._output.copy()
        return Ended(code, last_lines=self._output.last.decode(errors="replace").rstrip("\n"))

    async def kill(self, id: str) -> None:
        """See Launcher.kill. The script has no time to say anything. "": the present one."""
        if id in ("", self._present):
            await self._processes.end(self._present, grace=0)

    async def close(self) -> None:
        await self._processes.end_all()
        self._output.close()

    def _prepare(self, id: str) -> tuple[str, dict[str, Any]]:
        here = _Here(self._files, self._host)
        folder, order = bootstrap.prepare(
            here, id, str(self._certificate), str(self._key), str(self._folder)
        )
        return folder, order


class _Output:
    """What the script writes, through a pipe at `path`, which keeps it while there is no master.
    `last`: the end of it."""

    def __init__(self, path: Path, parent: ParentLine):
        self.path = path
        self.last = b""
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        parent.order({"hold": "output"}, self._pipe)
        asyncio.get_running_loop().add_reader(self._pipe, self.copy)

    def copy(self) -> None:
        """Copies what is there."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._pipe, CHUNK):
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
                self.last = (self.last + chunk)[-MAX_LAST_LINES:]

    def close(self) -> None:
        self.copy()
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)


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
