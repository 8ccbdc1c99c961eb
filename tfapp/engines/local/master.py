"""The application master: serves one run until it ends, and leaves nothing of it but its logs
and its ending."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tfapp.contract.keys import KEY_STATUS
from tfapp.contract.log_lines import MAX_LAST_LINES
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.credentials import new_credentials
from tfapp.engines.disk import write_atomically, write_json, writing
from tfapp.engines.local import docker_leftovers, verdict
from tfapp.engines.local.container_env import Node
from tfapp.engines.local.containers import Containers
from tfapp.engines.local.gpus import GpuPool, hold
from tfapp.engines.local.keyvalue import KeyValueStore
from tfapp.engines.local.layout import RunFolder
from tfapp.engines.local.lifecycle import FAILED, SUCCEEDED, Lifecycle
from tfapp.engines.local.messages import read_rules
from tfapp.engines.local.process_tree import identify
from tfapp.engines.local.processes import Processes, find_launcher
from tfapp.engines.local.protocol import messages, services
from tfapp.engines.local.reaper import Reaper
from tfapp.engines.local.service import AppMaster
from tfapp.engines.local.state import MasterState, RunConfig, read_config
from tfapp.engines.local.watches import Watches
from tfapp.errors import UnavailableError

MAX_MESSAGE = 4 * 1024 * 1024  # bytes; gRPC's default, and Skein's
STREAMS_GRACE = 1.0  # seconds for clients to take what was queued for them

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a master can have before it knows its run: the run's own key pair, and what
    `find_launcher` has found."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    launcher: tuple[str, ...]


def prepare(now: float) -> Prepared:
    """To be called before anything else of this process starts others. `now`: seconds since
    1970."""
    return Prepared(*new_credentials(now), find_launcher())


@dataclasses.dataclass(frozen=True)
class _End:
    final_status: str
    diagnostics: str
    driver: verdict.Driver | None = None


async def serve(
    run: RunFolder,
    prepared: Prepared,
    ready: Callable[[str], None],
    clock: Callable[[], float],
    hostname: str,
) -> None:
    """Runs the application in `run` to its end. Calls `ready(address)` once clients can connect.
    UnavailableError when it cannot begin."""
    config = read_config(run)
    spec = messages.ApplicationSpec.FromString(run.spec.read_bytes())
    with contextlib.ExitStack() as held:
        gpus = hold(Path(config.gpu_locks), config.gpus, config.gpus_needed, held)
        await _Master(run, prepared, config, spec, GpuPool(gpus), clock, hostname).serve(ready)


class _Master:
    def __init__(
        self,
        run: RunFolder,
        prepared: Prepared,
        config: RunConfig,
        spec: Any,
        gpus: GpuPool,
        clock: Callable[[], float],
        hostname: str,
    ):
        self._run = run
        self._prepared = prepared
        self._config = config
        self._spec = spec
        self._gpus = gpus
        self._clock = clock
        self._hostname = hostname
        self._ended: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        self._watches = Watches()
        # The store asks the lifecycle who may own keys; the lifecycle has containers made; they
        # need the address; so the store comes first.
        self._store = KeyValueStore(
            self._watches.notify, lambda owner: self._lifecycle.check_owner(owner)
        )
        self._lifecycle: Lifecycle

    async def serve(self, ready: Callable[[str], None]) -> None:
        self._write_credentials()
        reaper = Reaper()
        reaper.start()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminated)
        server, port = await self._start_server()
        containers = self._make_containers(Processes(reaper, self._prepared.launcher), port)
        service = AppMaster(
            self._spec,
            self._store,
            self._watches,
            self._lifecycle,
            self._end,
            f"{self._config.bind}:0",
        )
        services.add_AppMasterServicer_to_server(service, server)
        if self._spec.master.script:
            await containers.prepare_driver()
        await server.start()
        address = _join(self._config.bind, port)
        process = identify(os.getpid())
        assert process is not None
        with writing(self._run.state):
            write_json(self._run.state, MasterState(process, self._hostname, address))
        log.info("serves %s at %s", self._config.application, address)
        ready(address)
        self._start_application(containers)
        end = await self._ended
        log.info("ends: %s: %s", end.final_status, end.diagnostics.partition("\n")[0])
        await self._shut_down(end, server, service, containers)

    def _write_credentials(self) -> None:
        """For clients of this user, and for the containers."""
        with writing(self._run.security):
            write_atomically(self._run.certificate, self._prepared.certificate)
            write_atomically(self._run.key, self._prepared.key)

    async def _start_server(self) -> tuple[grpc.aio.Server, int]:
        certificate, key = self._prepared.certificate, self._prepared.key
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE),
                ("grpc.so_reuseport", 0),  # nobody else may answer at this port
            ]
        )
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=certificate, require_client_auth=True
        )
        try:
            port = server.add_secure_port(_join(self._config.bind, 0), credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise UnavailableError(
                f"{self._config.bind} is not an address of this machine to listen at"
            )
        return server, port

    def _make_containers(self, processes: Processes, port: int) -> Containers:
        node = Node(
            self._config.application,
            _join(self._config.bind, port),
            self._config.bind,
            self._config.user,
            self._config.environment,
        )
        containers = Containers(
            self._run, self._spec, node, processes, self._gpus, self._store.drop_owner, self._end
        )
        rules = {name: read_rules(service) for name, service in self._spec.services.items()}
        has_driver = bool(self._spec.master.script)
        self._lifecycle = Lifecycle(rules, containers, self._clock, has_driver)
        containers.lifecycle = self._lifecycle
        return containers

    def _start_application(self, containers: Containers) -> None:
        self._lifecycle.start()
        if not self._spec.master.script:
            return
        try:
            driver = containers.start_driver()
        except OSError as error:
            self._end(FAILED, f"The master script cannot be started: {error}")
        else:
            driver.add_done_callback(self._driver_ended)

    def _driver_ended(self, driver: asyncio.Future[int]) -> None:
        if driver.cancelled() or driver.exception() is not None:
            return
        code = driver.result()
        shown = code if code >= 0 else 128 - code
        status, message = driver_ending(shown)
        self._end(status, message, verdict.Driver(code, last_lines(self._run.driver_log)))

    def _terminated(self) -> None:
        self._end(FAILED, "The application master was ended by a signal (SIGTERM).")

    def _end(self, status: str, message: str, driver: verdict.Driver | None = None) -> None:
        """The first call counts."""
        if not self._ended.done():
            self._ended.set_result(_End(status, message, driver))

    async def _shut_down(
        self, end: _End, server: grpc.aio.Server, service: AppMaster, containers: Containers
    ) -> None:
        last_known = self._last_status()
        await containers.end_all()
        if containers.killed:
            await asyncio.to_thread(self._sweep_docker)
        service.end_streams("the application has ended")
        await server.stop(STREAMS_GRACE)
        # Room is made first: the disk may be full.
        await asyncio.to_thread(self._run.delete_leftovers)
        ending = verdict.ending(
            end.final_status, end.diagnostics, last_known, self._clock(), end.driver
        )
        with writing(self._run.ending):
            write_json(self._run.ending, ending)

    def _sweep_docker(self) -> None:
        config = self._config
        for failure in docker_leftovers.sweep(config.docker, sys.executable, config.environment):
            log.error("%s", failure)

    def _last_status(self) -> ApplicationStatus:
        entry = self._store.get(KEY_STATUS)
        if entry is None:
            return self._config.accepted
        try:
            return ApplicationStatus.from_dict(json.loads(entry.value))
        except (ValueError, KeyError, TypeError):
            return self._config.accepted


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


def last_lines(path: Path, limit: int = MAX_LAST_LINES) -> str:
    """At most `limit` bytes from the end of a log, whole lines where possible."""
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


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
