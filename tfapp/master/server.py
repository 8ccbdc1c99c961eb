"""The application master: serves one run until it ends. It knows neither processes nor machines:
its launcher runs the containers, and its record keeps what other processes need to know of the
run."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio

from tfapp.contract.encoding import encode
from tfapp.contract.exit import container_message
from tfapp.contract.names import (
    ENV_COORDINATOR,
    ENV_INSTANCE,
    ENV_WITNESS,
    GRANTED,
    KEY_BACK,
    KEY_KEPT,
    KEY_LEAVES,
    KEY_LOST,
    KEY_SAVED,
    KEY_STATUS,
    SUSPENDED,
    WAITS_PREFIX,
    initial_instance,
)
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.listener import LIMIT
from tfapp.master.ending import ending
from tfapp.master.journal import Kept, Memory, entry_data
from tfapp.master.launcher import (
    Ended,
    Launcher,
    Record,
    SupersededError,
    Task,
    container_id,
)
from tfapp.master.lifecycle import (
    EXIT_MESSAGES,
    FAILED,
    REQUESTED,
    RUNNING,
    SUCCEEDED,
    ContainerRecord,
    Lifecycle,
)
from tfapp.master.messages import read_rules
from tfapp.master.parent import AGAIN
from tfapp.master.service import AppMaster, MasterPages, Page
from tfapp.master.store import (
    PUT,
    Delete,
    KeyRange,
    KeyValueStore,
    Owner,
    StoreEntry,
    StorePut,
)
from tfapp.master.watches import Watches
from tfapp.protocol.definition import handler, messages
from tfapp.threads import in_thread

MAX_MESSAGE = 4 * 1024 * 1024  # bytes; gRPC's default, and Skein's
STREAMS_GRACE = 1.0  # seconds for clients to take what was queued for them
SAVED_MARGIN = 3.0  # seconds until it is known that programs have saved
RECORD_INTERVAL = 1.0  # seconds between two statuses that are written down

log = logging.getLogger(__name__)


@frozen
class ServedApplication:
    """The application that a master runs. `spec`: Skein's ApplicationSpec, serialized. `accepted`:
    its status until the coordinator publishes one. `attempt`: the number of this master of the run.
    `earlier`: the last status of the master before it; the coordinator finds it in the store.
    `lost`: whether that one was lost, else there was a suspension. `another`: whether another
    master follows if this one is lost within AGAIN seconds. `coordinators`: how many this one
    starts, one after another within these, when they are killed; as many masters follow later.
    `why`: why the master before it was lost, where a user could prevent it; else ""."""

    id: str  # application_<milliseconds>_<run, 4 digits>
    user: str
    spec: bytes
    accepted: ApplicationStatus
    earlier: ApplicationStatus | None = None
    attempt: int = 1
    lost: bool = False
    another: bool = False
    coordinators: int = 1
    why: str = ""


@frozen
class Endpoint:
    """The addresses of a master: it listens at `listen` (an address of this machine, or 0.0.0.0),
    and others reach it at `advertise`. `certificate` and `key` are the run's own, in PEM. `port`:
    0 for any. `witness`: the port at which runners learn whether it is lost, 0 if there is none."""

    listen: str
    advertise: str
    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    port: int = 0
    witness: int = 0

    @property
    def address(self) -> str:
        """How others reach its port (host:port)."""
        return _join(self.advertise, self.port)

    def asks_witness(self, limit: float) -> dict[str, str]:
        """The variable by which containers ask the witness, for `limit` seconds without it."""
        if not self.witness:
            return {}
        return {ENV_WITNESS: f"{limit:g} {_join(self.advertise, self.witness)}"}

    def listening(self, port: int = 0) -> tuple[socket.socket, str]:
        """A new socket that listens there, and how others reach it (host:port). OSError."""
        family = socket.AF_INET6 if ":" in self.listen else socket.AF_INET
        made = socket.create_server((self.listen, port), family=family, backlog=1024)
        return made, _join(self.advertise, made.getsockname()[1])


@frozen
class _End:
    final_status: str  # "": it is the end of this master alone, and another one goes on
    diagnostics: str
    driver: Ended | None = None


class Master:
    """The master of one run; to be made and used in one event loop. `clock`: seconds since
    1970. `memory`: where the containers outlive a master, what it goes on from."""

    def __init__(
        self,
        application: ServedApplication,
        endpoint: Endpoint,
        launcher: Launcher,
        record: Record,
        clock: Callable[[], float],
        memory: Memory | None = None,
    ):
        self._memory = memory
        self._application = application
        self._spec = messages.ApplicationSpec.FromString(application.spec)
        self._endpoint = endpoint
        self._launcher = launcher
        self._record = record
        self._clock = clock
        self._address = ""
        self._numbers = itertools.count(2)
        self._driver = (0, 1)  # the coordinators that were lost, the number of its container
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ended: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        self._watches = Watches()
        self._store = KeyValueStore(self._notify, lambda one: self._lifecycle.check_owner(one))
        self._published = asyncio.Event()
        self._saved = asyncio.Event()
        self._leaves = False
        rules = {name: read_rules(service) for name, service in self._spec.services.items()}
        has_driver = bool(self._spec.master.script)
        self._lifecycle = Lifecycle(rules, self, clock, has_driver)
        kept = memory.kept if memory else None
        self._started = kept is not None and kept.started
        self._pages = MasterPages(
            self._page_changed, [Page(**p) for p in kept.pages] if kept else ()
        )
        if kept is not None:
            self._restore(kept)
        self._put("master", "attempt", application.attempt)
        if application.earlier is not None:
            self._store.apply(StorePut(KEY_STATUS, encode(application.earlier)))
        if application.lost:
            self._store.apply(StorePut(KEY_LOST, application.why.encode()))
        self._commit()

    def _restore(self, kept: Kept) -> None:
        self._store.restore(kept.entries)
        self._lifecycle.restore(kept.containers, kept.counted)
        numbers = [int(c.engine_id.rpartition("_")[2]) for c in kept.containers if c.engine_id]
        self._driver = kept.driver
        self._numbers = itertools.count(max(*numbers, kept.driver[1], 1) + 1)
        self._store.apply(Delete(KeyRange(KEY_LEAVES, KEY_LEAVES + "\0")))  # this one does not
        self._store.apply(StorePut(KEY_BACK, encode((self._clock(), self._application.why))))
        if kept.end is not None:
            driver = kept.end["driver"]
            self._ended.set_result(_End(**{**kept.end, "driver": driver and Ended(**driver)}))

    def end(self, status: str, message: str, driver: Ended | None = None) -> None:
        """Makes the application end. The first call counts."""
        if not self._ended.done():
            end = _End(status, message, driver)
            if status:
                self._put("master", "end", dataclasses.asdict(end))
            self._commit()
            self._ended.set_result(end)

    def leave(self, why: str) -> None:
        """Ends what runs, without an end of the application: another master goes on with it."""
        self.end("", why)

    def leaves(self, saves: bool = False) -> None:
        """Tells the coordinator that this master leaves: it decides nothing any more. `saves`: once
        programs have saved."""
        self._saved.clear()
        self._leaves = True
        self._store.apply(StorePut(KEY_LEAVES, encode((self._clock(), saves))))
        self._commit()

    async def suspend(self, why: str, grace: float) -> None:
        """Ends this master, once programs have saved, where they do that: the application goes on
        later. `grace`: seconds that they have to end, besides."""
        limit = self._last_status().stop_grace - grace
        if limit > 0:
            self.leaves(saves=True)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._saved.wait(), limit + SAVED_MARGIN)
        self.end(SUSPENDED, why)

    async def serve(self, ready: Callable[[str], None]) -> bool:
        """Runs the application to its end. Calls `ready(address)` once clients can connect. Returns
        False if another master has to go on with it. TfappError or OSError when it cannot begin."""
        server, port = self._make_server()
        self._address = _join(self._endpoint.advertise, port)
        stated = (self._spec, self._store, self._watches, self._lifecycle)
        service = AppMaster(*stated, self.end, self._pages, self._commit)
        server.add_generic_rpc_handlers((handler(service),))
        try:
            await server.start()
            await self._start_application()
            await in_thread(self._record.serving, self._address)
            log.info("serves %s at %s", self._application.id, self._address)
            ready(self._address)
            self._background(self._write_statuses())
            end = await self._known_end()
        except BaseException:
            await self._launcher.close()
            await server.stop(None)
            raise
        how = end.final_status or "another master goes on"
        log.info("ends: %s: %s", how, end.diagnostics.partition("\n")[0])
        last_known = self._last_status()
        for task in self._tasks:
            task.cancel()
        if not end.final_status and self._memory is not None:
            self._memory.leaves()
        await self._launcher.close()
        service.end_streams("the application has ended")
        await server.stop(STREAMS_GRACE)
        if not end.final_status:
            await self._write_status()  # what the next one goes on from
            return False
        driver = (end.driver.exit, end.driver.last_lines) if end.driver else ()
        said = ending(end.final_status, end.diagnostics, last_known, self._clock(), *driver)
        await in_thread(self._record.ended, said)
        return True

    async def _known_end(self) -> _End:
        """The end, which the next master would know, too; another one that has this one's place
        ends it, or goes on."""
        end = await self._ended
        pending = None if self._memory is None else self._memory.journal.pending
        try:
            if pending is not None:
                await asyncio.shield(pending)
        except SupersededError as error:
            return _End("", str(error))
        return end

    def _make_server(self) -> tuple[grpc.aio.Server, int]:
        endpoint = self._endpoint
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE),
                ("grpc.so_reuseport", 0),  # nobody else may answer at this port
                ("grpc.server_handshake_timeout_ms", int(LIMIT * 1000)),
            ]
        )
        credentials = grpc.ssl_server_credentials(
            [(endpoint.key, endpoint.certificate)],
            root_certificates=endpoint.certificate,
            require_client_auth=True,
        )
        try:
            port = server.add_secure_port(_join(endpoint.listen, endpoint.port), credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise UnavailableError(
                f"{endpoint.listen} is not an address of this machine to listen at"
            )
        return server, port

    async def _start_application(self) -> None:
        """Returns once the master script is about to start, or its service's containers are. What
        an earlier master has started goes on."""
        if self._started:
            self._go_on()
        granted = asyncio.Event()

        def begin() -> None:
            if not self._started:
                self._lifecycle.start()
                self._started = True
                self._put("master", "started", True)
                self._commit()
            granted.set()

        if not self._spec.master.script:
            begin()
            return
        driver = asyncio.ensure_future(self._run_driver(begin))
        if self._started:
            self._background(self._follow_driver(driver))
            return
        waiting = asyncio.ensure_future(granted.wait())
        # A master may be ended before: then its launcher starts nothing any more.
        first: set[asyncio.Future[Any]] = {driver, waiting, self._ended}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not granted.is_set() and not self._ended.done():
            driver.result()  # raises why not
            raise UnavailableError("the master script cannot be started")
        self._background(self._follow_driver(driver))

    def _go_on(self) -> None:
        """Goes on with containers that the master before had launched, and orders again what it had
        ordered and not written down."""
        assert self._memory is not None
        for container in self._lifecycle.all():
            known = self._memory.launcher.knows(container.engine_id)
            if container.state == RUNNING and not known:
                container.state = REQUESTED  # it was about to start
            if container.engine_id and (container.live or known):
                self._background(self._live(container))
                if not container.live:
                    self.kill(container)

    async def _run_driver(self, begin: Callable[[], None]) -> Ended:
        """Runs the present coordinator to its end, or follows it there."""
        number, container = self._driver
        env = {ENV_COORDINATOR: str(number)} if self._application.coordinators > 1 else {}
        task = self._task(self._spec.master, self._container_id(container), env=env)
        return await self._launcher.run(task, _OfDriver(begin))

    async def _follow_driver(self, driver: Awaitable[Ended]) -> None:
        """Follows the coordinator to its end. When it is killed, another one goes on with the same
        containers, unless that has happened too often of late."""
        lost: list[float] = []
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            ended = await driver
            while ended.code is not None and ended.code < 0 and not self._ended.done():
                now = loop.time()
                lost = [*(one for one in lost if one > now - AGAIN), now]
                if len(lost) >= self._application.coordinators:
                    break
                log.warning("the coordinator was lost: %s; another one goes on", ended.exit.text)
                self._driver = self._driver[0] + 1, next(self._numbers)
                self._put("master", "driver", self._driver)
                self._commit()
                ended = await self._run_driver(lambda: None)
        except Exception as error:
            log.error("the master script cannot be run", exc_info=True)
            if not self._leaves:
                self.end(FAILED, f"The master script cannot be started: {error}")
            return
        if self._leaves:  # how that ends is decided by others
            return
        code = 1 if ended.code is None else ended.code
        lasted = self._application.coordinators > 1 and loop.time() - began >= AGAIN
        another = self._application.another or lasted
        if code < 0 and another and self._last_status().verdict is None:
            self._put("master", "started", None)  # the next one begins anew: that may have a reason
            self.leave(f"The coordinator was lost: {ended.exit.text}")
            return
        status, message = driver_ending(code if code >= 0 else 128 - code)
        self.end(status, message, ended)

    # -- what the lifecycle wants --
    def launch(self, container: ContainerRecord) -> None:
        container.engine_id = self._container_id(next(self._numbers))
        self._background(self._live(container))

    def _container_id(self, number: int) -> str:
        return container_id(self._application.id, number, self._application.attempt)

    def kill(self, container: ContainerRecord) -> None:
        self._background(self._launcher.kill(container.engine_id))

    def changed(self, container: ContainerRecord) -> None:
        self._put("container", container.id, dataclasses.asdict(container))
        self._put("master", "counted", self._lifecycle.counted())

    def _page_changed(self, route: str, page: Page | None) -> None:
        self._put("page", route, page and vars(page))

    def _put(self, kind: str, name: str, value: Any) -> None:
        if self._memory is not None:
            self._memory.journal.put(kind, name, value)

    def _commit(self) -> Awaitable[None] | None:
        """Writes down what has changed, before anybody is told of it or acts on it. Returns what is
        done once the loss of this machine does not lose it, None if that need not be waited for.
        It fails if another master has the run."""
        return None if self._memory is None else self._memory.journal.commit()

    def keeps(self, outside: bool) -> None:
        """Tells runners whether a master on another machine would know all that this one does.
        Otherwise they wait for none."""
        self._store.apply(StorePut(KEY_KEPT, encode(outside)))
        self._commit()

    def drop_keys(self, owner: Owner) -> None:
        self._store.drop_owner(owner)

    def _notify(self, kind: str, entries: Sequence[StoreEntry]) -> None:
        for entry in entries:
            self._put("store", entry.key, entry_data(entry) if kind == PUT else None)
        self._watches.notify(kind, entries)
        if kind == PUT and entries[0].key == KEY_STATUS:
            self._published.set()
        if kind == PUT and entries[0].key == KEY_SAVED:
            self._saved.set()

    async def _write_statuses(self) -> None:
        """Hands the newest status to the record."""
        while True:
            await self._published.wait()
            self._published.clear()
            if not await self._write_status():
                return
            await asyncio.sleep(RECORD_INTERVAL)

    async def _write_status(self) -> bool:
        """Returns False if another master writes the record now: then this one leaves."""
        entry = self._store.get(KEY_STATUS)
        if entry is None:
            return True
        try:
            await in_thread(self._record.published, entry.value)
        except SupersededError as error:
            self.leave(str(error))
            return False
        except Exception as error:  # the next status may be written
            log.error("the status cannot be written: %s", error)
        return True

    async def _live(self, container: ContainerRecord) -> None:
        service = self._spec.services[container.service]
        instance = container.env.get(ENV_INSTANCE) or initial_instance(container.id)
        task = self._task(service, container.engine_id, container.id, instance, container.env)
        told = _OfContainer(self._lifecycle, self._store, container, instance, self._commit)
        try:
            ended = await self._launcher.run(task, told)
        except Exception as error:  # the end of this container, not of the application
            log.error("%s cannot be run: %s", container.id, error, exc_info=True)
            self._lifecycle.not_started(container, str(error))
        else:
            log.info("%s has ended: %s", container.id, ended)
            state = SUCCEEDED if ended.code == 0 else FAILED
            message = container_message(ended.message or EXIT_MESSAGES[state], ended.reason)
            self._lifecycle.finished(container, state, message)
        self._commit()
        if self._memory is not None:
            self._memory.launcher.noted(container.engine_id)

    def _task(
        self,
        service: Any,
        id: str,
        name: str = "",
        instance: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Task:
        user = self._application.user
        fixed = {
            "CONTAINER_ID": id,
            "USER": user,
            "LOGNAME": user,
            "HADOOP_USER_NAME": user,
            "SKEIN_APPLICATION_ID": self._application.id,
            "SKEIN_APPMASTER_ADDRESS": self._address,
            "SKEIN_RESOURCE_MEMORY": str(service.resources.memory),
            "SKEIN_RESOURCE_VCORES": str(service.resources.vcores),
        }
        if name:
            fixed["SKEIN_CONTAINER_ID"] = name
        return Task(id, name, instance, service, {**service.env, **(env or {}), **fixed})

    def _background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # Such as an order to kill: what matters to the application is handled where it happens.
            log.error("an error in the background", exc_info=task.exception())

    def _last_status(self) -> ApplicationStatus:
        entry = self._store.get(KEY_STATUS)
        if entry is None:
            return self._application.accepted
        try:
            return ApplicationStatus.from_dict(json.loads(entry.value))
        except ValueError:
            return self._application.accepted


class _OfDriver:
    """Receives what the launcher says about the master script (see tfapp.master.launcher.Told). A
    master script never waits."""

    def __init__(self, begin: Callable[[], None]):
        self._begin = begin

    def granted(self, host: str) -> bool:
        self._begin()
        return True

    def waits(self, text: str, kind: str = "") -> None:
        """See Told.waits."""


class _OfContainer:
    """Receives what the launcher says about a container (see tfapp.master.launcher.Told). The
    reason why it waits becomes its message, and a key that the coordinator watches."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        store: KeyValueStore,
        container: ContainerRecord,
        instance: str,
        commit: Callable[[], object],
    ):
        self._commit = commit
        self._lifecycle = lifecycle
        self._store = store
        self._container = container
        self._key = WAITS_PREFIX + instance
        self._kind = ""

    def granted(self, host: str) -> bool:
        container = self._container
        self.waits("", GRANTED)
        allowed = self._lifecycle.granted(container, host)
        self._commit()
        if allowed:
            log.info("%s starts as %s on %s", container.id, container.engine_id, host)
        return allowed

    def waits(self, text: str, kind: str = "") -> None:
        container = self._container
        if container.state != REQUESTED or (text, kind) == (container.message, self._kind):
            return
        container.message, self._kind = text, kind
        if text:
            log.info("%s is %s", container.id, text)
        value = encode({"container": container.id, "text": text, "kind": kind})
        owner = Owner(container.service, container.instance)
        self._store.apply(StorePut(self._key, value, owner))
        self._commit()


def driver_ending(code: int) -> tuple[str, str]:
    """Final status and diagnostics of a run whose master script ended with `code`, by Skein's
    rules and in its words."""
    if code == 0:
        return SUCCEEDED, "Application driver completed successfully."
    if code == 143:
        return FAILED, (
            "Application driver failed with exit code 143. This is often due to the "
            "application master memory limit being exceeded. See the diagnostics for more "
            "information."
        )
    message = f"Application driver failed with exit code {code}, see logs for more information."
    return FAILED, message


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
