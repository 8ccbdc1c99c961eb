"""Runs containers as processes of this machine: working directory, files, environment, GPUs and
log."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp.contract.names import ENV_MASTER_TIMEOUT, INSTANCE_FILE, MAX_LAST_LINES, NODES
from tfapp.disk import delete_tree, make_private, needing_room
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.gpus import GpuPool, hold, take_free
from tfapp.engines.machine.localize import Localizer
from tfapp.engines.machine.processes import end_leftovers, find_launcher, sweep_docker
from tfapp.engines.machine.serving import End, OpenLauncher
from tfapp.engines.machine.state import RunConfig
from tfapp.frozen import frozen
from tfapp.master.children import ParentLine, Processes
from tfapp.master.launcher import Ended, Task, Told, container_number
from tfapp.master.server import Endpoint
from tfapp.temporary import sweep
from tfapp.threads import in_thread

log = logging.getLogger(__name__)


@frozen
class Machine:
    """Values that all containers of a run share: the address of this machine, the inherited
    variables, and the Docker engines in use (see Definition)."""

    host: str
    inherited: Mapping[str, str]
    docker: tuple[str, ...] = ()


KEEPS_CONTAINERS = True  # see tfapp.engines.machine.serving
PARENT_LOST = "The parent of the application's master was lost, and with it all containers."
GPUS_EVERY = 5.0  # seconds between two looks for GPUs that other applications have given back


def prepare() -> OpenLauncher:
    return functools.partial(open_launcher, find_launcher())


@contextlib.contextmanager
def open_launcher(
    prefix: tuple[str, ...],
    run: RunFolder,
    config: RunConfig,
    endpoint: Endpoint,
    end: End,
    parent: ParentLine,
    begun: Mapping[str, str],
) -> Iterator[LocalLauncher]:
    """The launcher of a run, with GPUs for this run alone, and the containers of its earlier
    masters, all of which `parent` knows. `prefix`: see `find_launcher`. UnavailableError if too few
    GPUs are free."""
    used = {child.id: tuple(json.loads(child.note)) for child in parent.children.values()}
    with contextlib.ExitStack() as held:
        locks, most = Path(config.gpu_locks), max(config.gpus_needed, config.gpus_most)
        taken = [gpu for gpu in config.gpus if _lock_of(gpu) in parent.held]

        def take(found: Mapping[str, int]) -> tuple[str, ...]:
            for gpu, lock in found.items():
                parent.order({"hold": _lock_of(gpu)}, lock)
            taken.extend(found)
            return tuple(found)

        def more(number: int) -> tuple[str, ...]:
            others = [gpu for gpu in config.gpus if gpu not in taken]
            return take(take_free(locks, others, min(number, most - len(taken)), held))

        if not taken:
            take(hold(locks, config.gpus, config.gpus_needed, held, most))
        in_use = {gpu for gpus in used.values() for gpu in gpus}
        pool = GpuPool([gpu for gpu in taken if gpu not in in_use], more)
        processes = Processes(parent, prefix, lost=lambda: end(PARENT_LOST))
        yield LocalLauncher(run, config, endpoint, processes, pool, used)


def _lock_of(gpu: str) -> str:
    """The name by which the parent holds the lock of a GPU."""
    return f"gpu {gpu}"


class LocalLauncher:
    """`endpoint`: the master's, on this machine. `used`: the GPUs of containers that run."""

    def __init__(
        self,
        run: RunFolder,
        config: RunConfig,
        endpoint: Endpoint,
        processes: Processes,
        gpus: GpuPool,
        used: Mapping[str, tuple[str, ...]],
    ):
        self._run = run
        self._config = config
        self._asks_witness = endpoint.asks_witness(config.master_timeout)
        self._node = Machine(endpoint.advertise, config.environment, config.docker)
        self._used = dict(used)
        self._processes = processes
        self._gpus = gpus
        self._gpus_changed = asyncio.Event()
        self._localizer = Localizer(run.localized, run.environments)
        self._unwanted: set[str] = set()  # ids of containers that were killed before they started
        self._killed = False  # whether a container's first process was, and could clear up nothing

    async def run(self, task: Task, told: Told) -> Ended:
        goes_on = self.knows(task.id)
        gpus = self._used.pop(task.id, ()) if goes_on else await self._take_gpus(task, told)
        try:
            if goes_on:
                return await self._end_of(task)
            return await self._start_and_wait(task, told, gpus)
        finally:
            self._unwanted.discard(task.id)
            self._gpus.give_back(gpus)
            self._gpus_changed.set()

    async def kill(self, id: str) -> None:
        self._unwanted.add(id)
        self._gpus_changed.set()
        await self._processes.end(id)

    def knows(self, id: str) -> bool:
        """See KeepingLauncher."""
        return self._processes.knows(id)

    def noted(self, id: str) -> None:
        """See KeepingLauncher."""
        self._processes.noted(id)

    async def close(self) -> None:
        await self._processes.end_all()
        if self._processes.parent_lost:  # no child of this process is left to be seen
            await in_thread(end_leftovers, self._run, self._config, sys.executable)
        await self._localizer.close()
        if self._killed:
            await in_thread(self._sweep_docker)

    def _sweep_docker(self) -> None:
        node = self._node
        for failure in sweep_docker(node.docker, sys.executable, node.inherited):
            log.error("%s", failure)

    async def _start_and_wait(self, task: Task, told: Told, gpus: tuple[str, ...]) -> Ended:
        folder = await self._make_folder(task)
        try:
            if not told.granted(self._node.host):
                await in_thread(delete_tree, folder)
                return Ended(None)
            output = log_file(self._run, task)
            env = local_environment(
                self._node.inherited, task.environment, self._node.host, folder, output.parent, gpus
            )
            if self._config.attempts > 1 and not task.name:
                env[ENV_MASTER_TIMEOUT] = f"{self._config.master_timeout:g}"
            elif task.name:
                env.update(self._asks_witness)
            self._processes.start(task.id, folder, env, output, json.dumps(gpus))
        except BaseException:
            await in_thread(delete_tree, folder)
            raise
        return await self._end_of(task)

    async def _end_of(self, task: Task) -> Ended:
        """Waits for the end of a container that was started."""
        try:
            code = await self._processes.exit(task.id)
            self._killed |= code == -signal.SIGKILL
            if self._config.attempts == 1:  # no other master has to learn of it
                self.noted(task.id)
            return Ended(code, last_lines=last_lines(log_path(self._run, task)))
        finally:
            await in_thread(delete_tree, self._run.containers / task.id)
            await in_thread(sweep, self._node.inherited.get("TMPDIR"))

    async def _take_gpus(self, task: Task, told: Told) -> tuple[str, ...]:
        number = task.service.resources.gpus if task.name else 0
        while task.id not in self._unwanted:
            gpus = self._gpus.take(number)
            if gpus is not None:
                return gpus
            told.waits(f"waiting for {number} GPU{'s' if number > 1 else ''}", NODES)
            self._gpus_changed.clear()
            with contextlib.suppress(asyncio.TimeoutError):  # other applications end too
                await asyncio.wait_for(self._gpus_changed.wait(), GPUS_EVERY)
        return ()

    async def _make_folder(self, task: Task) -> Path:
        folder = self._run.containers / task.id
        with needing_room(folder):
            await in_thread(delete_tree, folder)  # half-made by a master that was lost
            make_private(folder)
            await self._localizer.place(task.service.files, folder)
            (folder / ".skein.crt").symlink_to(self._run.certificate)
            (folder / ".skein.pem").symlink_to(self._run.key)
            (folder / ".skein.sh").write_text(task.service.script)
        return folder


def log_file(run: RunFolder, task: Task) -> Path:
    """The log of a container, in its folder, which is made and says whose it is."""
    path = log_path(run, task)
    make_private(path.parent)
    if task.name:
        (path.parent / INSTANCE_FILE).write_text(task.instance)
    return path


def log_path(run: RunFolder, task: Task) -> Path:
    if not task.name:
        return run.driver_log
    service, _, number = task.name.rpartition("_")
    return run.logs / f"{service}_{container_number(int(number), task.id)}" / f"{service}.log"


def local_environment(
    inherited: Mapping[str, str],
    own: Mapping[str, str],
    host: str,
    folder: Path,
    logs: Path,
    gpus: tuple[str, ...],
) -> dict[str, str]:
    """The complete environment of a container. `own`: the variables from the master. `folder`: the
    working directory."""
    fixed = {
        "NM_HOST": host,
        "NM_PORT": "0",  # no node manager listens
        "NM_HTTP_PORT": "0",
        "LOCAL_DIRS": str(folder.parent),
        "LOG_DIRS": str(logs),
        "PWD": str(folder),
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }
    return {**inherited, **own, **fixed}


def last_lines(path: Path, limit: int = MAX_LAST_LINES) -> str:
    """At most `limit` bytes from the end of a log, in whole lines if possible."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - limit, 0))
            data = file.read(limit)
    except OSError:
        return ""
    if size > limit:
        data = data.partition(b"\n")[2] or data
    return data.decode(errors="replace").rstrip("\n")
