"""Runs containers as Spark jobs with one task, submitted by the driver's agent. The master script,
and components that run on the machine of the driver, are processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tfapp.engines.spark.keeper
import tfapp.master.bootstrap
from tfapp.contract.log_times import TimesWriter
from tfapp.contract.names import INSTANCE_FILE, RETURNED_FILE
from tfapp.disk import make_private, write_atomically
from tfapp.engines.folders import RunFolder
from tfapp.engines.local import launcher as local
from tfapp.engines.local.processes import find_launcher
from tfapp.engines.serving import End, OpenLauncher
from tfapp.engines.spark import CONTROL_FILE, ON_DRIVER, WORDS_LIMIT
from tfapp.engines.spark.control import Control, Line
from tfapp.engines.spark.keeper import END, EXIT, GO, LOG, RETURNED
from tfapp.engines.state import RunConfig
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, Launcher, Task, Told
from tfapp.master.server import Endpoint

AGENT_LIMIT = 60.0  # seconds for the driver's agent to come
QUIET = 2.0  # seconds that a job may take to begin before it is said to wait
CLOSE_LIMIT = 15.0  # seconds for all containers to end at the end of a run
AGAIN = "Spark has lost its task before it began"
NODE_LOST, PREEMPTED, MEMORY, START = "node-lost", "preempted", "memory", "start"
# Spark's own, of an executor that YARN has ended: there is no more of it than the text.
TOO_MUCH_MEMORY = ("exceeding physical memory limits", "exceeding virtual memory limits")

log = logging.getLogger(__name__)


def prepare() -> OpenLauncher:
    """See tfapp.engines.serving."""
    return functools.partial(open_launcher, find_launcher())


@contextlib.contextmanager
def open_launcher(
    prefix: tuple[str, ...],
    run: RunFolder,
    config: RunConfig,
    endpoint: Endpoint,
    end: End,
) -> Iterator[SparkLauncher]:
    """The launcher of a run. `prefix`: see `find_launcher`."""
    here = _with_python(config, make_private(run.localized / "bin"))
    here = dataclasses.replace(here, gpus=(), gpus_needed=0)  # they are the executors'
    beside_it = local.open_launcher(prefix, run, here, endpoint, end)
    with beside_it as beside, FileServer(endpoint) as files:
        launcher = SparkLauncher(run, config, endpoint, files, beside, end)
        write_atomically(run.path / CONTROL_FILE, launcher.address.encode())
        yield launcher


class _Container:
    """One container, from its request until its end."""

    def __init__(self, task: Task, told: Told, log: Path):
        loop = asyncio.get_running_loop()
        self.task = task
        self.told = told
        self.log = log
        self.line: Line | None = None  # once its keeper is there
        self.attempt = 0  # Spark's number of the task that it is
        self.killed = False
        self.end: asyncio.Future[Ended] = loop.create_future()
        self.words: asyncio.Future[str] = loop.create_future()  # Spark's, of the end of its task
        self.since = loop.time()

    def finish(self, ended: Ended) -> None:
        """Sets the end; only the first call counts."""
        if not self.end.done():
            self.end.set_result(ended)


class SparkLauncher:
    """See tfapp.master.launcher.Launcher. `beside` runs the containers that are no Spark jobs."""

    def __init__(
        self,
        run: RunFolder,
        config: RunConfig,
        endpoint: Endpoint,
        files: FileServer,
        beside: Launcher,
        end: End,
    ):
        self._run = run
        self._config = config
        self._endpoint = endpoint
        self._files = files
        self._beside = beside
        self._end = end
        self._here = frozenset(config.engine.get(ON_DRIVER, ()))
        self._control = Control(endpoint, self)
        self.address = self._control.address  # for the driver's agent
        self._containers: dict[str, _Container] = {}
        self._unwanted: set[str] = set()
        self._agent = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(AGENT_LIMIT, self.agent_left)
        self._serving = loop.create_task(self._control.start())

    async def run(self, task: Task, told: Told) -> Ended:
        """See Launcher.run."""
        await asyncio.shield(self._serving)
        if not task.name or task.name.rpartition("_")[0] in self._here:
            return await self._beside.run(task, told)
        if task.id in self._unwanted:
            return Ended(None)
        container = _Container(task, told, self._log(task))
        self._containers[task.id] = container
        try:
            with self._files.offering(task, told):
                await self._agent.wait()
                if not container.killed:
                    self._control.order(self._job(task))
                ended = await asyncio.shield(container.end)
                return await self._with_words(container, ended)
        finally:
            if container.end.done():  # else `close` ends it
                del self._containers[task.id]

    async def kill(self, id: str) -> None:
        """See Launcher.kill."""
        self._unwanted.add(id)
        container = self._containers.get(id)
        if container is None:
            await self._beside.kill(id)
            return
        container.killed = True
        if container.line is not None:
            container.line.say(END)
        else:
            container.finish(Ended(None))
            self._control.order({"do": "cancel", "id": id})

    async def close(self) -> None:
        """See Launcher.close."""
        await asyncio.gather(self._beside.close(), self._close_jobs())
        self._deadline.cancel()
        self._serving.cancel()
        self._control.close()

    async def _close_jobs(self) -> None:
        containers = [c for c in self._containers.values() if not c.end.done()]
        for container in containers:
            await self.kill(container.task.id)
        if containers:
            ends = [container.end for container in containers]
            _, left = await asyncio.wait(ends, timeout=CLOSE_LIMIT)
            if left:
                log.error("%d containers do not tell their end", len(left))

    # -- what the driver's agent says: tfapp.engines.spark.control.Ear --
    def agent_came(self) -> None:
        """See Ear."""
        self._deadline.cancel()
        self._agent.set()

    def agent_left(self) -> None:
        """See Ear."""
        self._end("The Spark driver has ended.")

    def report(self, said: Mapping[str, Any]) -> None:
        """See Ear. `over`: why there is no SparkContext any more; `ended`: the container whose job
        has ended, with `words`, and whether these say that it `cannot` begin; `explained`: that
        whose task's end they are about; `slots`: how many there are, and how many are free."""
        if "over" in said:
            self._end(str(said["over"]))
        elif "slots" in said:
            self._tell_slots(int(said["slots"]), int(said["free"]))
        elif container := self._containers.get(said.get("explained", "")):
            self._tell_words(container, str(said["words"]))
        elif container := self._containers.get(said.get("ended", "")):
            words = str(said["words"])
            if words:  # else an attempt that has begun nothing
                self._tell_words(container, words)
            if container.line is None:
                reason = START if said["cannot"] else PREEMPTED
                container.finish(Ended(None, words or AGAIN, reason))

    def _tell_words(self, container: _Container, words: str) -> None:
        """Sets Spark's words for a container; only the first call counts."""
        if not container.words.done():
            container.words.set_result(words)

    def _tell_slots(self, slots: int, free: int) -> None:
        now = asyncio.get_running_loop().time()
        waiting = [c for c in self._containers.values() if c.line is None and not c.end.done()]
        for container in waiting:
            if now - container.since > QUIET:
                container.told.waits(waiting_for(len(waiting), slots, free))

    # -- what keepers say --
    async def container(self, id: str, attempt: int, line: Line) -> None:
        """See Ear."""
        container = self._containers.get(id)
        if container is None or container.killed:
            return
        if container.line is not None:
            # Spark's own retry, or its speculation: the first to end would end the other.
            await asyncio.shield(container.end)
            return
        container.line, container.attempt = line, attempt
        line.say(GO)
        times = TimesWriter(container.log)
        with open(container.log, "ab") as file:
            while frame := await line.frame():
                kind, data = frame
                if kind == LOG:
                    times.note(file.tell())
                    file.write(data)
                    file.flush()
                elif kind == RETURNED:
                    write_atomically(container.log.parent / RETURNED_FILE, data)
                elif kind == EXIT:
                    container.finish(_ended(json.loads(data), container, line.host))
                    return
        text = f"the connection to {line.host} is lost"
        container.finish(Ended(None, text, NODE_LOST, local.last_lines(container.log)))

    async def _with_words(self, container: _Container, ended: Ended) -> Ended:
        """The end, with Spark's words if Spark has ended the container."""
        if ended.reason != PREEMPTED or container.line is None:
            return ended
        about = {"id": container.task.id, "attempt": container.attempt}
        self._control.order({"do": "explain", **about})
        with contextlib.suppress(asyncio.TimeoutError):
            words = await asyncio.wait_for(asyncio.shield(container.words), WORDS_LIMIT)
            if words:
                reason = MEMORY if any(part in words for part in TOO_MUCH_MEMORY) else PREEMPTED
                return Ended(None, f"{ended.message}: {words}", reason, ended.last_lines)
        return ended

    # -- what a job is --
    def _job(self, task: Task) -> dict[str, Any]:
        resources = task.service.resources
        order = {
            "id": task.id,
            "control": self._control.address,
            "files": self._files.address,
            "certificate": self._endpoint.certificate.decode(),
            "key": self._endpoint.key.decode(),
            "keeper": _source(tfapp.engines.spark.keeper),
            "bootstrap": _source(tfapp.master.bootstrap),
        }
        label = f"{self._config.name} {task.instance}"
        size = {"vcores": resources.vcores, "gpus": resources.gpus}
        return {"do": "run", "id": task.id, "label": label, "order": order, **size}

    def _log(self, task: Task) -> Path:
        folder = make_private(self._run.logs / task.name)
        (folder / INSTANCE_FILE).write_text(task.instance)
        return folder / f"{task.name.rpartition('_')[0]}.log"


def _ended(told: Mapping[str, Any], container: _Container, host: str) -> Ended:
    last = local.last_lines(container.log)
    if told["lost"]:
        return Ended(None, f"Spark has ended its task on {host}", PREEMPTED, last)
    return Ended(told["code"], last_lines=last)


def waiting_for(containers: int, slots: int, free: int) -> str:
    """The reason why containers have not started."""
    if not slots:
        return "waiting for Spark's executors: none has registered yet"
    missing = containers - free
    if missing <= 0:
        return "waiting for Spark to begin its task"
    more = f"{missing} more {'is' if missing == 1 else 'are'} needed"
    return f"waiting for a slot of Spark: its executors have {slots}, {free} free, {more}"


def _with_python(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration with this interpreter as python3 for processes on this machine, as on
    executors. `folder`: for the command."""
    command = folder / "python3"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    command.chmod(0o700)
    path = f"{folder}:{config.environment.get('PATH') or os.defpath}"
    return dataclasses.replace(config, environment={**config.environment, "PATH": path})


def _source(module: Any) -> str:
    return Path(module.__file__).read_text(encoding="utf-8")
