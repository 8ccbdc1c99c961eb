"""Brings containers to life: working directory, files, environment, GPUs, processes, log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.container import ENV_INSTANCE, INSTANCE_FILE
from tfapp.engines.disk import delete_tree, make_private, needing_room
from tfapp.engines.local.container_env import Node, container_environment, yarn_container_id
from tfapp.engines.local.gpus import GpuPool
from tfapp.engines.local.keyvalue import Owner
from tfapp.engines.local.layout import RunFolder
from tfapp.engines.local.lifecycle import REQUESTED, Container, Lifecycle
from tfapp.engines.local.localize import Localizer
from tfapp.engines.local.processes import Processes
from tfapp.errors import TfappError

DRIVER = ""  # in place of a container's Skein id

log = logging.getLogger(__name__)


class Containers:
    """The effects of a lifecycle on this machine. `spec` is Skein's ApplicationSpec message."""

    def __init__(
        self,
        run: RunFolder,
        spec: Any,
        node: Node,
        processes: Processes,
        gpus: GpuPool,
        drop_keys: Callable[[Owner], None],
        end: Callable[[str, str], None],
    ):
        self._run = run
        self._spec = spec
        self._node = node
        self._processes = processes
        self._gpus = gpus
        self._localizer = Localizer(run.localized, run.environments)
        self._driver_id = yarn_container_id(node.application, 1)
        self._driver_folder = run.containers  # until it is prepared
        self._numbers = itertools.count(2)
        self._gpus_changed = asyncio.Event()
        self._tasks: set[asyncio.Future] = set()
        self.killed = False  # whether a container's first process was, and could clear up nothing
        self.drop_keys = drop_keys
        self.end = end
        self.lifecycle: Lifecycle  # the two know each other; set before anything is launched

    # -- what the lifecycle wants --
    def launch(self, container: Container) -> None:
        """Starts it as soon as there are GPUs for it."""
        self._background(self._live(container))

    def kill(self, container: Container) -> None:
        """Ends its processes."""
        self._background(self._processes.end(container.yarn_id))

    # -- the master script --
    async def prepare_driver(self) -> None:
        """Makes its folder. UnavailableError or OSError when that cannot be."""
        self._driver_folder = await self._make_folder(self._driver_id, self._spec.master)

    def start_driver(self) -> asyncio.Future[int]:
        """Starts it, once it is prepared; the result is its exit code, once nothing of it
        lives. OSError when it cannot be started."""
        id, master = self._driver_id, self._spec.master
        self._start(id, DRIVER, master, {}, self._driver_folder, self._run.driver_log, ())
        return self._background(self._processes.exit(id))

    async def end_all(self) -> None:
        """Ends every process of the application; nothing is started any more."""
        for task in self._tasks:
            task.cancel()
        await self._processes.end_all()

    # -- one container --
    async def _live(self, container: Container) -> None:
        service = self._spec.services[container.service]
        gpus = await self._take_gpus(container, service.resources.gpus)
        try:
            await self._start_and_wait(container, service, gpus)
        except (OSError, TfappError) as error:
            log.error("%s cannot be started: %s", container.id, error)
            self.lifecycle.not_started(container, str(error))
        finally:
            self._gpus.give_back(gpus)
            self._gpus_changed.set()

    async def _start_and_wait(
        self, container: Container, service: Any, gpus: tuple[str, ...]
    ) -> None:
        id = yarn_container_id(self._node.application, next(self._numbers))
        folder = await self._make_folder(id, service)
        try:
            if not self.lifecycle.granted(container, id):
                return
            log.info("%s starts as %s", container.id, id)
            output = self._log_file(container)
            self._start(id, container.id, service, container.env, folder, output, gpus)
            code = await self._processes.exit(id)
            log.info("%s has ended with %d", container.id, code)
            self.killed |= code == -signal.SIGKILL
            self.lifecycle.finished(container, code)
        finally:
            await asyncio.to_thread(delete_tree, folder)

    async def _take_gpus(self, container: Container, number: int) -> tuple[str, ...]:
        while container.state == REQUESTED:
            gpus = self._gpus.take(number)
            if gpus is not None:
                return gpus
            log.info("%s waits for %d GPUs", container.id, number)
            self._gpus_changed.clear()
            await self._gpus_changed.wait()
        return ()

    async def _make_folder(self, id: str, service: Any) -> Path:
        folder = self._run.containers / id
        with needing_room(folder):
            make_private(folder)
            await self._localizer.place(service.files, folder)
            (folder / ".skein.crt").symlink_to(self._run.certificate)
            (folder / ".skein.pem").symlink_to(self._run.key)
            (folder / ".skein.sh").write_text(service.script)
        return folder

    def _start(
        self,
        id: str,
        skein_id: str,
        service: Any,
        env: Mapping[str, str],
        folder: Path,
        output: Path,
        gpus: tuple[str, ...],
    ) -> None:
        make_private(output.parent)
        environment = container_environment(
            self._node,
            {**service.env, **env},
            yarn_id=id,
            skein_id=skein_id,
            memory=service.resources.memory,
            vcores=service.resources.vcores,
            folder=folder,
            logs=output.parent,
            gpus=gpus,
        )
        self._processes.start(id, folder, environment, output)

    def _log_file(self, container: Container) -> Path:
        folder = make_private(self._run.logs / container.id)
        instance = container.env.get(ENV_INSTANCE, "")
        (folder / INSTANCE_FILE).write_text(instance or f"{container.service}/{container.instance}")
        return folder / f"{container.service}.log"

    def _background(self, work: Coroutine) -> asyncio.Future:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.end("FAILED", f"Unexpected error in application master: {task.exception()!r}")
