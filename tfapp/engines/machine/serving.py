"""The main function of a master process: its launcher, record, log and error handling.

The module of the launcher has `prepare() -> OpenLauncher`, which is called before the run is known.
`KEEPS_CONTAINERS` in it: another master goes on with the containers of one that was lost (see
tfapp.master.journal.Memory).
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from tfapp.contract.names import FAILED
from tfapp.disk import delete_tree, make_private, write_atomically, write_json, writing
from tfapp.engines.credentials import new_credentials
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.processes import end_leftovers
from tfapp.engines.machine.state import (
    MasterState,
    RunConfig,
    read_config,
    read_ending,
    read_state,
    read_status,
)
from tfapp.errors import TfappError
from tfapp.frozen import frozen
from tfapp.master.children import ParentLine
from tfapp.master.ending import Ending
from tfapp.master.journal import Journal, Memory, delete, read_kept
from tfapp.master.launcher import KeepingLauncher, Launcher, container_id
from tfapp.master.server import Endpoint, Master, ServedApplication
from tfapp.processes import identify, redirect

PORTS = ("port", "witness")  # which the parent holds, those of a launcher aside
End = Callable[[str], None]  # ends the run as failed, with a sentence that says why
# Opens the launcher of a run, in the master's event loop. TfappError when that cannot be.
# The last argument: containers that an earlier master has started, see Kept.begun.
OpenLauncher = Callable[
    [RunFolder, RunConfig, Endpoint, End, ParentLine, Mapping[str, str]],
    AbstractContextManager[Launcher],
]


@frozen
class PreparedMaster:
    """The parts of a master that do not depend on its run: the key pair and the launcher.
    `keeps`: whether containers outlive a master."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    open_launcher: OpenLauncher
    keeps: bool


@frozen
class Place:
    """What a master knows of itself: its machine, the process id of its parent, its number,
    whether the one before it was killed, else it has ended what it had started, and how many were
    lost of late."""

    host: str
    parent: int
    attempt: int = 1
    killed: bool = False
    lost: int = 0


def prepare(launcher: str, now: float) -> PreparedMaster:
    """`launcher`: the module. `now`: seconds since 1970."""
    module = importlib.import_module(launcher)
    keeps = getattr(module, "KEEPS_CONTAINERS", False)
    return PreparedMaster(*new_credentials(now), module.prepare(), keeps)


def run_master(
    folder: str,
    prepared: PreparedMaster,
    ready: Callable[[str], None],
    failed: Callable[[str, str], None],
    clock: Callable[[], float],
    place: Place,
    parent: ParentLine,
) -> int | None:
    """Serves the run in `folder`. The starter is told by `ready`, with HOST:PORT, or by `failed`,
    with a sentence and a hint. Returns an exit code; None if another master has to go on."""
    run = RunFolder(Path(folder))
    redirect(os.O_WRONLY | os.O_APPEND, str(run.master_log), 2)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )

    def serves(address: str) -> None:
        ready(address)
        # Else a reader of the starter's pipe would wait for the application's end.
        redirect(os.O_RDWR, os.devnull, 0, 1)

    try:
        return asyncio.run(_serve(run, prepared, serves, clock, place, parent))
    except TfappError as error:
        logging.error("%s", error)
        failed(error.message, error.hint)
        return 1
    except Exception as error:
        logging.exception("the master has failed")
        failed(f"{type(error).__name__}: {error}", "")
        return 1


async def _serve(
    run: RunFolder,
    prepared: PreparedMaster,
    ready: Callable[[str], None],
    clock: Callable[[], float],
    place: Place,
    parent: ParentLine,
) -> int | None:
    config, lost, kept = read_config(run), place.attempt > 1, None
    if lost:
        if place.lost >= config.attempts or not _was_lost(run):
            return 0
        if place.killed and prepared.keeps:
            kept = read_kept(run.journal)
        if kept is None:
            _clear(run, config, parent)
        else:
            logging.info("the master was lost; this one goes on with its containers")
    if kept is None or not (run.certificate.exists() and run.key.exists()):
        with writing(run.security):  # for clients of this user, and for the containers
            make_private(run.security)
            write_atomically(run.certificate, prepared.certificate)
            write_atomically(run.key, prepared.key)
    certificate, key = run.certificate.read_bytes(), run.key.read_bytes()
    keeps = prepared.keeps and config.attempts > 1
    attempt = kept.attempt if kept else place.attempt
    port, witness = (parent.reserve(what, config.bind) if keeps else 0 for what in PORTS)
    if witness:
        containers = container_id(config.application, 0, attempt).rpartition("_")[0]
        parent.testify(witness, containers, key)
    endpoint = Endpoint(config.bind, config.bind, certificate, key, port, witness)

    def end(message: str) -> None:
        master.end(FAILED, message)

    begun = kept.begun if kept else {}
    with prepared.open_launcher(run, config, endpoint, end, parent, begun) as launcher:
        application = ServedApplication(
            config.application,
            config.user,
            run.spec.read_bytes(),
            config.accepted,
            read_status(run) if lost and kept is None else None,
            attempt,
            lost and kept is None,
            another=place.lost + 1 < config.attempts,
            coordinators=config.attempts,
        )
        memory = None
        if keeps:
            with writing(run.journal):
                journal = Journal(run.journal, kept.table if kept else {})
            memory = Memory(journal, kept, cast(KeepingLauncher, launcher))
        record = FolderRecord(run, place, config)
        master = Master(application, endpoint, launcher, record, clock, memory)
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM,
            lambda: end("The application master was ended by a signal (SIGTERM)."),
        )
        beating = asyncio.ensure_future(parent.beat()) if keeps else None
        if await master.serve(ready):
            return 0
        delete(run.journal)  # the next one begins anew
        if beating is not None:
            beating.cancel()
        return None


def _was_lost(run: RunFolder) -> bool:
    """Whether an earlier master of `run` has served, and the run has no ending."""
    state = read_state(run)
    return state is not None and state.address != "" and read_ending(run) is None


def _clear(run: RunFolder, config: RunConfig, parent: ParentLine) -> None:
    """Ends what is left of the master before this one."""
    logging.info("the master was lost; this one goes on")
    parent.forget()
    delete(run.journal)
    for failure in end_leftovers(run, config, sys.executable):
        logging.error("%s", failure)
    for folder in (run.containers, run.localized):
        delete_tree(folder)
        make_private(folder)


class FolderRecord:
    """See tfapp.master.launcher.Record. It is stored in the folder of the run."""

    def __init__(self, run: RunFolder, place: Place, config: RunConfig):
        self._run = run
        self._place = place
        self._attempts = config.attempts

    def serving(self, address: str) -> None:
        place, process = self._place, identify(os.getpid())
        assert process is not None
        parent = identify(place.parent)
        with writing(self._run.state):
            state = MasterState(process, place.host, address, parent, place.attempt)
            write_json(self._run.state, state)

    def published(self, status: bytes) -> None:
        """See Record.published. For another master; clients read it from this one."""
        if self._attempts > 1:
            with writing(self._run.status):
                write_atomically(self._run.status, status)

    def ended(self, ending: Ending) -> None:
        # Room is made first: the disk may be full.
        self._run.delete_leftovers()
        with writing(self._run.ending):
            write_json(self._run.ending, ending, durable=True)
        delete(self._run.journal)  # the last: until now another master goes on
