"""Has the parent of this master start the processes of containers, and ends them with all their
descendants.

The parent is a subreaper: descendants of a container remain descendants of the parent, even if they
leave their session and their parents die. No process can escape, so the end of a container can be
verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.master.parent import BEAT, MAX_LINE, Child, Parent, Turn
from tfapp.processes import (
    Process,
    children,
    descendants,
    environment,
    identify,
    is_alive,
    is_guard,
    left_behind,
    send,
    session,
)
from tfapp.standalone.bootstrap import witness_secret

TERM_GRACE = 0.25  # seconds between SIGTERM and SIGKILL, YARN's own
GUARD_GRACE = 5.0  # seconds that a guard has to remove what is no process: Docker's containers
LOOK_EVERY = 0.02  # seconds between two looks for processes that were killed
KILL_DEADLINE = 10.0  # seconds to wait for the killed; then the kernel holds them

log = logging.getLogger(__name__)


class _Container:
    """A container's first process, once it is started, and its exit code, once it has ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[Process] = loop.create_future()
        self.code: asyncio.Future[int] = loop.create_future()

    def fail(self, error: OSError) -> None:
        for future in (self.started, self.code):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits for it is told


class ParentLine:
    """The line to the parent of this master (see tfapp.master.parent), and what it knew when it
    started this master: `children`, `held`. `pid`: its own."""

    def __init__(
        self, line: socket.socket, children: Mapping[str, Child], held: frozenset[str], pid: int
    ):
        self.children = children
        self.held = held
        self.pid = pid
        self._line = line
        self._heard = b""

    @classmethod
    def of(cls, turn: Turn, parent: Parent) -> ParentLine:
        """In a new master."""
        return cls(turn.line, parent.children, parent.held, os.getppid())

    def reserve(self, what: str, address: str) -> int:
        """The port of the run's masters for `what`, which nobody else gets while there is none. 0
        if `address` is not of this machine: the server will say so."""
        for name in self.held:
            if name.startswith(f"{what} "):
                return int(name.rpartition(" ")[2])
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as made, contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, 0))
            port: int = made.getsockname()[1]
            self.order({"hold": f"{what} {port}"}, made.fileno())
            return port
        return 0

    def testify(self, port: int, containers: str, key: bytes) -> None:
        """Has the parent answer runners that cannot reach their master at this port, which is
        reserved for the "witness". See tfapp.master.witness."""
        told = {"containers": containers, "secret": witness_secret(key).hex()}
        self.order({"testify": f"witness {port}", **told})

    async def beat(self) -> None:
        """Tells the parent that this event loop does not hang, from now on."""
        while True:
            self.order({"alive": 1})
            await asyncio.sleep(BEAT)

    def forget(self) -> None:
        """What an earlier master has started is no container any more."""
        for id in self.children:
            self.order({"noted": id})
        self.children = {}

    def listen(self, heard: Callable[[Mapping[str, Any]], None], lost: Callable[[], None]) -> None:
        """Calls `heard` with each message, and `lost` once the parent has ended, from now on."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            try:
                data = self._line.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                loop.remove_reader(self._line)
                lost()
                return
            *lines, self._heard = (self._heard + data).split(b"\n")
            for line in lines:
                heard(json.loads(line))

        loop.add_reader(self._line, read)

    def order(self, message: Mapping[str, Any], *files: int) -> None:
        """An order to a parent that has ended is void."""
        data = json.dumps(message).encode() + b"\n"
        if len(data) > MAX_LINE:
            raise OSError(errno.E2BIG, "its environment is too large")
        with contextlib.suppress(OSError):
            sent = socket.send_fds(self._line, [data], files) if files else 0
            self._line.sendall(data[sent:])


class Processes:
    """`lost` is called when the parent has ended, and with it the containers."""

    def __init__(
        self,
        parent: ParentLine,
        launcher: Sequence[str] = (),
        kill_deadline: float = KILL_DEADLINE,
        lost: Callable[[], None] = lambda: None,
    ):
        """`launcher`: a prefix for the command of each container."""
        self._parent = parent
        self._launcher = launcher
        self._kill_deadline = kill_deadline
        self._lost = lost
        self.parent_lost = False
        self._containers: dict[str, _Container] = {}
        for child in parent.children.values():
            container = self._containers[child.id] = _Container()
            container.started.set_result(Process(child.pid, child.since))
            if child.code is not None:
                container.code.set_result(child.code)
        parent.listen(self._heard, self._parent_ended)

    def knows(self, id: str) -> bool:
        """Whether the container was started, by this master or one before it, and its end is not
        noted."""
        return id in self._containers

    def start(
        self, id: str, folder: Path, env: Mapping[str, str], output: Path, note: str = ""
    ) -> None:
        """Runs `bash .skein.sh` in `folder` in a new session. `id`: its CONTAINER_ID. `note`: what
        the next master reads of it, see Child. OSError if it cannot be ordered."""
        order = {
            "start": id,
            "argv": [*self._launcher, "bash", ".skein.sh"],
            "folder": str(folder),
            "env": dict(env),
            "output": str(output),
            "note": note,
        }
        self._parent.order(order)
        self._containers[id] = _Container()

    async def exit(self, id: str) -> int:
        """Waits until the container and all its processes have ended. Returns its exit code, or
        minus the number of the signal that has killed it. OSError if it could not be started."""
        container = self._containers[id]
        try:
            root = await asyncio.shield(container.started)
        except OSError:
            del self._containers[id]
            raise
        code = await asyncio.shield(container.code)
        await self._kill(lambda: self._leftovers(id, root.pid), f"leftovers of {id}")
        return code

    def noted(self, id: str) -> None:
        """The end of a container is written down: no other master has to learn of it. Void before
        that end: others wait for it."""
        container = self._containers.get(id)
        if container is not None and container.code.done():
            del self._containers[id]
            self._parent.order({"noted": id})

    async def end(self, id: str, grace: float = TERM_GRACE) -> None:
        """Sends SIGTERM, and SIGKILL after `grace` seconds, or with 0 at once. `exit` returns when
        the processes have ended."""
        if id not in self._containers:
            return
        container = self._containers[id]
        with contextlib.suppress(OSError):
            root = await asyncio.shield(container.started)
            if grace and not container.code.done():
                _signal_group(root, signal.SIGTERM)
                await asyncio.wait([container.code], timeout=grace)
            if not container.code.done():
                for process in [*descendants(root.pid), root]:
                    if not is_guard(process):
                        send(process, signal.SIGKILL)

    async def end_all(self) -> None:
        """Ends all descendants of containers like `end` does."""
        running = [c for c in self._containers.values() if not c.code.done()]
        for container in running:
            with contextlib.suppress(OSError):
                _signal_group(await asyncio.shield(container.started), signal.SIGTERM)
        if running:
            await asyncio.wait([container.code for container in running], timeout=TERM_GRACE)
        await self._kill(self._descendants_of_containers, "processes of the application")

    def _heard(self, message: Mapping[str, Any]) -> None:
        container = self._containers.get(str(message.get("started", message.get("ended"))))
        if "failed" in message and message["failed"] in self._containers:
            error = OSError(message["errno"], message["text"])
            self._containers[message["failed"]].fail(error)
        elif container is not None and "started" in message:
            container.started.set_result(Process(message["pid"], message["since"]))
        elif container is not None and not container.code.done():
            container.code.set_result(message["code"])

    def _parent_ended(self) -> None:
        self.parent_lost = True
        for container in self._containers.values():
            container.fail(OSError(errno.ESRCH, "the parent of the application's master has ended"))
        self._lost()

    async def _kill(self, find: Callable[[], list[Process]], what: str) -> None:
        """Sends SIGKILL until no process is left. Guards get some time to end first."""
        clock = asyncio.get_running_loop().time
        end, spared_until = clock() + self._kill_deadline, clock() + GUARD_GRACE
        while found := find() or find():  # twice: see left_behind
            left = end - clock()
            if left <= 0:
                log.error("%s cannot be killed: %s", what, [p.pid for p in found])
                return
            for process in found:
                if clock() >= spared_until or not is_guard(process):
                    send(process, signal.SIGKILL)
            await asyncio.sleep(min(left, LOOK_EVERY))

    def _descendants_of_containers(self) -> list[Process]:
        """The descendants of the parent, except for masters and their own helpers, which stay in
        their session."""
        try:
            found = left_behind(self._parent.pid)
        except ProcessLookupError:  # the parent has ended
            return []
        return [Process(p.pid, p.started) for p in found if not p.dead]

    def _leftovers(self, id: str, session_id: int) -> list[Process]:
        """The remaining processes of a container that has ended. Orphans have become children of
        the parent."""
        running = (c.started.result() for c in self._containers.values() if _runs(c))
        orphans = children(self._parent.pid) - {process.pid for process in running}
        found: list[Process] = []
        for process in filter(None, map(identify, orphans)):
            pid = process.pid
            if session(pid) == session_id or environment(pid).get(b"CONTAINER_ID") == id.encode():
                found += [process, *descendants(pid)]
        return found


def _runs(container: _Container) -> bool:
    """Whether it is known to be started, and not to have ended."""
    started = container.started
    return started.done() and started.exception() is None and not container.code.done()


def _signal_group(leader: Process, number: int) -> None:
    if is_alive(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(leader.pid, number)
