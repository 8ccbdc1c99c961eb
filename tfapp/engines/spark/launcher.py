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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tfapp.standalone.bootstrap
import tfapp.standalone.keeper
from tfapp.contract.log_times import Log
from tfapp.contract.names import NODES, RETURNED_FILE
from tfapp.disk import make_private, write_atomically
from tfapp.engines.machine import launcher as machine
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.processes import find_launcher
from tfapp.engines.machine.serving import End, OpenLauncher
from tfapp.engines.machine.state import RunConfig
from tfapp.engines.spark.control import CONTROL_FILE, ON_DRIVER, WORDS_LIMIT, ContainerLine, Control
from tfapp.master.children import ParentLine
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, KeepingLauncher, Task, Told
from tfapp.master.server import Endpoint
from tfapp.standalone.keeper import END, EXIT, GO, GO_ON, LOG, NOTED, RETURNED

KEEPS_CONTAINERS = True  # see tfapp.engines.machine.serving
AGENT_LIMIT = 30.0  # seconds for the driver's agent to come
QUIET = 2.0  # seconds that a job may take to begin before it is said to wait
BACK_LIMIT = 40.0  # seconds for keepers to find the next master; then their runners have ended
CLOSE_LIMIT = 15.0  # seconds for all containers to end at the end of a run
AGAIN = "Spark has lost its task before it began"
NODE_LOST, PREEMPTED, MEMORY, START = "node-lost", "preempted", "memory", "start"
# Spark's own, of an executor that YARN has ended: there is no more of it than the text.
TOO_MUCH_MEMORY = ("exceeding physical memory limits", "exceeding virtual memory limits")

log = logging.getLogger(__name__)


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
) -> Iterator[SparkLauncher]:
    """The launcher of a run. `prefix`: see `find_launcher`. `begun`: see Kept.begun."""
    here = _with_python(config, make_private(run.localized / "bin"))
    here = dataclasses.replace(here, gpus=(), gpus_needed=0)  # they are the executors'
    beside_it = machine.open_launcher(prefix, run, here, endpoint, end, parent, begun)
    keeps = config.attempts > 1
    ports = [parent.reserve(what, config.bind) if keeps else 0 for what in ("files", "control")]
    with beside_it as beside, FileServer(endpoint, port=ports[0], later=True) as files:
        on_driver = config.engine.get(ON_DRIVER, ())
        jobs = {id for id, service in begun.items() if service not in on_driver}
        launcher = SparkLauncher(run, config, endpoint, files, beside, end, ports[1], jobs)
        write_atomically(run.path / CONTROL_FILE, launcher.address.encode())
        yield launcher


class _Container:
    """One container, from its request until its end. `begun`: an earlier master has started it."""

    def __init__(self, task: Task, told: Told, log: Path, begun: bool = False):
        loop = asyncio.get_running_loop()
        self.task = task
        self.told = told
        self.begun = begun
        self.log = log
        self.line: ContainerLine | None = None  # once its keeper is there
        self.attempt = 0  # Spark's number of the task that it is
        self.killed = False
        self.end: asyncio.Future[Ended] = loop.create_future()
        self.words: asyncio.Future[str] = loop.create_future()  # Spark's, of the end of its task
        self.since = loop.time()

    def granted(self, host: str) -> bool:
        """See Told.granted."""
        return not self.killed and (self.begun or self.told.granted(host))

    def waits(self, text: str, kind: str = "") -> None:
        """See Told.waits."""
        self.told.waits(text, kind)

    def finish(self, ended: Ended) -> None:
        """Sets the end; only the first call counts."""
        if not self.end.done():
            self.end.set_result(ended)


class SparkLauncher:
    """See tfapp.master.launcher.KeepingLauncher. `beside` runs the containers that are no Spark
    jobs. `port`: of its server, 0 for any. `begun`: the ids of Spark jobs that an earlier master
    has started, and whose end it has not noted."""

    def __init__(
        self,
        run: RunFolder,
        config: RunConfig,
        endpoint: Endpoint,
        files: FileServer,
        beside: KeepingLauncher,
        end: End,
        port: int = 0,
        begun: Iterable[str] = (),
    ):
        self._run = run
        self._config = config
        self._endpoint = endpoint
        self._files = files
        self._beside = beside
        self._end = end
        self._here = frozenset(config.engine.get(ON_DRIVER, ()))
        self._control = Control(endpoint, self, port)
        self.address = self._control.address  # for the driver's agent
        self._containers: dict[str, _Container] = {}
        self._unwanted: set[str] = set()
        self._begun = set(begun)
        self._noted: dict[str, asyncio.Event] = {}  # of containers that have told their end
        self._agent = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.call_later(AGENT_LIMIT, self.agent_left)
        self._serving: asyncio.Task[None] | None = None

    async def run(self, task: Task, told: Told) -> Ended:
        if self._serving is None:  # not before all containers of an earlier master are known
            self._serving = self._loop.create_task(self._serve())
        if not task.name or task.name.rpartition("_")[0] in self._here:
            return await self._beside.run(task, told)
        if task.id in self._unwanted:
            return Ended(None)
        log_file, begun = machine.log_file(self._run, task), task.id in self._begun
        container = _Container(task, told, log_file, begun)
        self._containers[task.id] = container
        try:
            with self._files.offering(task, container):
                await self._agent.wait()
                if begun:
                    self._loop.call_later(BACK_LIMIT, self._stays_away, container)
                elif not container.killed:
                    self._control.order(self._job(task))
                ended = await asyncio.shield(container.end)
                return await self._with_words(container, ended)
        finally:
            if container.end.done():  # else `close` ends it
                del self._containers[task.id]

    async def _serve(self) -> None:
        self._files.begin()
        await self._control.start()

    def _stays_away(self, container: _Container) -> None:
        if container.line is None:
            last = machine.last_lines(container.log)
            container.finish(Ended(None, "nothing is heard of it any more", NODE_LOST, last))

    def knows(self, id: str) -> bool:
        """See KeepingLauncher."""
        return id in self._begun or self._beside.knows(id)

    def noted(self, id: str) -> None:
        """See KeepingLauncher."""
        self._begun.discard(id)
        self._beside.noted(id)
        if id in self._noted:
            self._noted.pop(id).set()

    async def kill(self, id: str) -> None:
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
        await asyncio.gather(self._beside.close(), self._close_jobs())
        self._deadline.cancel()
        if self._serving is not None:
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
        self._deadline.cancel()
        wanted = {id: one.begun for id, one in self._containers.items() if not one.killed}
        self._control.order({"do": "keep", "wanted": wanted})
        self._agent.set()

    def agent_left(self) -> None:
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
                container.told.waits(waiting_for(len(waiting), slots, free), NODES)

    # -- what keepers say --
    async def container(self, id: str, attempt: int, line: ContainerLine, again: bool) -> None:
        container = self._containers.get(id)
        if container is None or container.killed:
            line.say(END)
            return
        if container.line is not None or (container.begun and not again):
            # Spark's own retry, or its speculation: the first to end would end the other. One that
            # an earlier master has started may still come back.
            await asyncio.shield(container.end)
            line.say(END)
            return
        container.line, container.attempt = line, attempt
        text = f"the connection to {line.host} is lost"
        try:
            if not again:
                line.say(GO)
            with open(container.log, "ab", buffering=0) as file:
                if again:
                    line.say(GO_ON % file.tell())
                log_file = Log(file.fileno())
                while frame := await line.frame():
                    kind, data = frame
                    if kind == LOG:
                        log_file.write(data)  # what does not fit on the disk is lost
                    elif kind == RETURNED:
                        self._keep_returned(container, data)
                    elif kind == EXIT:
                        container.finish(_ended(json.loads(data), container, line.host))
                        if self._config.attempts > 1 and not container.killed:
                            noted = self._noted.setdefault(id, asyncio.Event())
                            await noted.wait()
                            line.say(NOTED)
                        return
        except Exception as error:
            log.exception("%s cannot be followed", container.task.id)
            text = f"its messages from {line.host} cannot be handled: {error}"
        finally:  # without an end nobody would replace it
            container.finish(Ended(None, text, NODE_LOST, machine.last_lines(container.log)))

    def _keep_returned(self, container: _Container, data: bytes) -> None:
        path = container.log.parent / RETURNED_FILE
        try:
            write_atomically(path, data)
        except OSError as error:
            log.error("%s cannot be written: %s", path, error)

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
            "environment": self._endpoint.asks_witness(self._config.master_timeout),
            "patience": self._config.master_timeout if self._config.attempts > 1 else 0,
            "keeper": _source(tfapp.standalone.keeper),
            "bootstrap": _source(tfapp.standalone.bootstrap),
        }
        label = f"{self._config.name} {task.instance}"
        size = {"vcores": resources.vcores, "gpus": resources.gpus}
        return {"do": "run", "id": task.id, "label": label, "order": order, **size}


def _ended(told: Mapping[str, Any], container: _Container, host: str) -> Ended:
    last = machine.last_lines(container.log)
    if told["lost"]:
        return Ended(None, f"Spark has ended its task on {host}", PREEMPTED, last)
    return Ended(told["code"], last_lines=last)


def waiting_for(containers: int, slots: int, free: int) -> str:
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
    if not command.exists():  # else those of an earlier master may read it just now
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        command.chmod(0o700)
    path = f"{folder}:{config.environment.get('PATH') or os.defpath}"
    return dataclasses.replace(config, environment={**config.environment, "PATH": path})


def _source(module: Any) -> str:
    return Path(module.__file__).read_text(encoding="utf-8")
