"""The main function of a master process: its launcher, record, log and error handling.

The module of the launcher has `prepare() -> OpenLauncher`, which is called before the run is known.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tfapp.contract.names import FAILED
from tfapp.disk import write_atomically, write_json, writing
from tfapp.engines.credentials import new_credentials
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import MasterState, RunConfig, read_config
from tfapp.errors import TfappError
from tfapp.frozen import frozen
from tfapp.master.ending import Ending
from tfapp.master.launcher import Launcher
from tfapp.master.server import Endpoint, Master, ServedApplication
from tfapp.processes import identify

End = Callable[[str], None]  # ends the run as failed, with a sentence that says why
# Opens the launcher of a run, in the master's event loop. TfappError when that cannot be.
OpenLauncher = Callable[[RunFolder, RunConfig, Endpoint, End], AbstractContextManager[Launcher]]


@frozen
class PreparedMaster:
    """The parts of a master that do not depend on its run: the key pair and the launcher."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    open_launcher: OpenLauncher


def prepare(launcher: str, now: float) -> PreparedMaster:
    """`launcher`: the module. `now`: seconds since 1970."""
    open_launcher: OpenLauncher = importlib.import_module(launcher).prepare()
    return PreparedMaster(*new_credentials(now), open_launcher)


def run_master(
    folder: str,
    prepared: PreparedMaster,
    ready: Callable[[str], None],
    failed: Callable[[str, str], None],
    clock: Callable[[], float],
    hostname: str,
) -> int:
    """Serves the run in `folder`. The starter is told by `ready`, with HOST:PORT, or by `failed`,
    with a sentence and a hint. Returns an exit code."""
    run = RunFolder(Path(folder))
    _redirect(os.O_WRONLY | os.O_APPEND, run.master_log, 2)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )

    def serves(address: str) -> None:
        ready(address)
        # Else a reader of the starter's pipe would wait for the application's end.
        _redirect(os.O_RDWR, Path(os.devnull), 0, 1)

    try:
        asyncio.run(_serve(run, prepared, serves, clock, hostname))
    except TfappError as error:
        logging.error("%s", error)
        failed(error.message, error.hint)
        return 1
    except Exception as error:
        logging.exception("the master has failed")
        failed(f"{type(error).__name__}: {error}", "")
        return 1
    return 0


async def _serve(
    run: RunFolder,
    prepared: PreparedMaster,
    ready: Callable[[str], None],
    clock: Callable[[], float],
    hostname: str,
) -> None:
    config = read_config(run)
    with writing(run.security):  # for clients of this user, and for the containers
        write_atomically(run.certificate, prepared.certificate)
        write_atomically(run.key, prepared.key)
    endpoint = Endpoint(config.bind, config.bind, prepared.certificate, prepared.key)

    def end(message: str) -> None:
        master.end(FAILED, message)

    with prepared.open_launcher(run, config, endpoint, end) as launcher:
        master = Master(
            ServedApplication(
                config.application, config.user, run.spec.read_bytes(), config.accepted
            ),
            endpoint,
            launcher,
            FolderRecord(run, hostname),
            clock,
        )
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM,
            lambda: end("The application master was ended by a signal (SIGTERM)."),
        )
        await master.serve(ready)


class FolderRecord:
    """See tfapp.master.launcher.Record. It is stored in the folder of the run."""

    def __init__(self, run: RunFolder, hostname: str):
        self._run = run
        self._hostname = hostname

    def serving(self, address: str) -> None:
        process = identify(os.getpid())
        assert process is not None
        with writing(self._run.state):
            write_json(self._run.state, MasterState(process, self._hostname, address))

    def published(self, status: bytes) -> None:
        """See Record.published. Not stored: clients read it from the master."""

    def ended(self, ending: Ending) -> None:
        # Room is made first: the disk may be full.
        self._run.delete_leftovers()
        with writing(self._run.ending):
            write_json(self._run.ending, ending, durable=True)


def _redirect(flags: int, path: Path, *descriptors: int) -> None:
    opened = os.open(path, flags)
    for descriptor in descriptors:
        os.dup2(opened, descriptor)
    os.close(opened)
