"""Starts the processes of containers, and ends them with all their descendants.

This process must be a subreaper: descendants of a container then remain descendants of this
process, even if they leave their session and their parents die. No process can escape, so the end
of a container can be verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import tfapp
from tfapp import tools
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import RunConfig
from tfapp.master.launcher import container_id
from tfapp.processes import (
    Process,
    children_of_this_process,
    descendants,
    environment,
    identify,
    is_guard,
    kill_all,
    left_behind,
    send,
    session,
    stat,
    with_environment,
    working_under,
)

TERM_GRACE = 0.25  # seconds between SIGTERM and SIGKILL, YARN's own
GUARD_GRACE = 5.0  # seconds that a guard has to remove what is no process: Docker's containers
KILL_DEADLINE = 10.0  # seconds to wait for the killed; then the kernel holds them

log = logging.getLogger(__name__)
SWEEP = "tfapp.runner.docker.ownership"  # a process of its own: only runners load Docker's library
SWEEP_LIMIT = 30.0  # seconds for one engine

_ROOT = Path(tfapp.__file__).parent.parent


class Processes:
    def __init__(
        self,
        reaper: Reaper,
        launcher: Sequence[str] = (),
        kill_deadline: float = KILL_DEADLINE,
    ):
        """`launcher`: a prefix for the command of each container."""
        self._reaper = reaper
        self._launcher = launcher
        self._kill_deadline = kill_deadline
        self._roots: dict[str, tuple[int, asyncio.Future[int]]] = {}

    def start(self, id: str, folder: Path, env: Mapping[str, str], output: Path) -> None:
        """Runs `bash .skein.sh` in `folder` in a new session. `id`: its CONTAINER_ID. OSError if it
        cannot be started."""
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
            process = subprocess.Popen(
                [*self._launcher, "bash", ".skein.sh"],
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._roots[id] = (process.pid, self._reaper.watch(process.pid))
        process.returncode = 0  # the reaper waits for it, not this object

    async def exit(self, id: str) -> int:
        """Waits until the container and all its processes have ended. Returns its exit code, or
        minus the number of the signal that has killed it."""
        pid, future = self._roots[id]
        code = await asyncio.shield(future)
        await self._kill(lambda: self._leftovers(id, pid), f"leftovers of {id}")
        self._roots.pop(id, None)
        return code

    async def end(self, id: str) -> None:
        """Sends SIGTERM, and after a moment SIGKILL. `exit` returns when the processes have
        ended."""
        if id not in self._roots:
            return
        pid, future = self._roots[id]
        if not future.done():
            _signal_group(pid, signal.SIGTERM)
            await asyncio.wait([future], timeout=TERM_GRACE)
        if not future.done():
            for process in [*descendants(pid), *_identified([pid])]:
                if not is_guard(process):
                    send(process, signal.SIGKILL)

    async def end_all(self) -> None:
        """Ends all descendants of containers like `end` does."""
        running = [(pid, future) for pid, future in self._roots.values() if not future.done()]
        for pid, _ in running:
            _signal_group(pid, signal.SIGTERM)
        if running:
            await asyncio.wait([future for _, future in running], timeout=TERM_GRACE)
        await self._kill(_descendants_of_containers, "processes of the application")

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
            await self._reaper.next_death(min(left, 0.1))

    def _leftovers(self, id: str, session_id: int) -> list[Process]:
        """The remaining processes of a container that has ended. Orphans have become children of
        this process."""
        orphans = children_of_this_process() - self._reaper.watched
        found: list[Process] = []
        for process in _identified(orphans):
            pid = process.pid
            if session(pid) == session_id or environment(pid).get(b"CONTAINER_ID") == id.encode():
                found += [process, *descendants(pid)]
        return found


def _descendants_of_containers() -> list[Process]:
    """The descendants of this process, except for its own helpers, which stay in its session."""
    return [Process(p.pid, p.started) for p in left_behind() if not p.dead]


def find_launcher() -> tuple[str, ...]:
    """The command that ends containers together with this process, even if it is killed. () if
    util-linux does not have it (before 2.33): the processes are then ended by the next command that
    examines the run."""
    tool = shutil.which("setpriv")
    launcher = (tool or "", "--pdeathsig", "KILL", "--")
    if tool and subprocess.run([*launcher, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        return launcher
    return ()


def _identified(pids: Iterable[int]) -> list[Process]:
    found = (identify(pid) for pid in pids)
    return [process for process in found if process is not None]


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(pid, number)


def processes_of(run: RunFolder, config: RunConfig) -> list[Process]:
    """The living processes of a run's containers, except for guards. They are found by their
    environment or their initial working directory."""
    prefix = container_id(config.application, 0)[: -len("01_000000")].encode()  # of all masters
    folder = os.fsencode(run.containers)
    told = with_environment(
        lambda env: (
            env.get(b"CONTAINER_ID", b"").startswith(prefix) and env.get(b"LOCAL_DIRS") == folder
        )
    )
    found = {*told, *working_under(str(run.containers.resolve()))}
    return [process for process in found if not is_guard(process)]


def end_leftovers(run: RunFolder, config: RunConfig, python: str) -> list[str]:
    """Ends the processes of containers of a run whose master was lost. Returns errors: a sentence
    for each Docker engine that was not asked."""
    kill_all(lambda: processes_of(run, config), KILL_DEADLINE)
    return sweep_docker(config.docker, python, config.environment)


def sweep_docker(addresses: Iterable[str], python: str, environ: Mapping[str, str]) -> list[str]:
    """Removes Docker containers whose runner and guard were killed together, or with the master,
    from the engines at `addresses`; "" is the engine that `environ` names. Returns errors: a
    sentence for each engine."""
    failures = []
    for address in addresses:
        env = {**environ, "DOCKER_HOST": address} if address else dict(environ)
        try:
            # In this folder, so that it runs this tfapp and no other.
            done = tools.run([python, "-m", SWEEP], env, SWEEP_LIMIT, _ROOT)
        except tools.ToolError as error:
            failures.append(f"the Docker engine was not asked for containers: {error.reason}")
            continue
        if done.code:
            failures.append(done.err.strip())
    return failures


class Reaper:
    """Watches children of the process whose event loop runs it, and orphans. The exit status of
    other children is left to the code that has started them, such as `subprocess.run` in a thread.
    Orphans are recognised by their session: containers start in new sessions, and their processes
    cannot join the session of this process."""

    def __init__(self) -> None:
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._died = asyncio.Event()

    def start(self) -> None:
        """Must be called in the event loop before the first child is started."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def watch(self, pid: int) -> asyncio.Future[int]:
        """Waits for a child and returns its exit code, or minus the number of the signal that has
        killed it. Must be called just after the start of the child, before the event loop
        continues."""
        future = asyncio.get_running_loop().create_future()
        self._exits[pid] = future
        return future

    @property
    def watched(self) -> set[int]:
        """The children that are watched and still run."""
        return set(self._exits)

    async def next_death(self, timeout: float) -> None:
        """Waits until any child has ended, at most `timeout` seconds."""
        self._died.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._died.wait(), timeout)

    def _reap(self) -> None:
        for pid in tuple(self._exits):
            status = _exit_status(pid)
            if status is not None:
                self._died.set()
                future = self._exits.pop(pid)
                if not future.done():
                    future.set_result(os.waitstatus_to_exitcode(status))
        own = os.getsid(0)
        for pid in children_of_this_process() - self.watched:
            found = stat(pid)
            if found is not None and found.dead and found.session != own:
                _exit_status(pid)
                self._died.set()


def _exit_status(pid: int) -> int | None:
    """Reaps a child and returns its status; None if it lives."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # no child of this process (any more)
        return None
    return status if found else None
