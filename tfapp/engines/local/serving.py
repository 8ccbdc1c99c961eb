"""The outermost frame of a master's process: its log, its error boundary."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from tfapp.engines.local import master
from tfapp.engines.local.daemon import HINT
from tfapp.engines.local.layout import RunFolder
from tfapp.errors import TfappError


def run_master(
    folder: str,
    prepared: master.Prepared,
    tell: Callable[[str], None],
    clock: Callable[[], float],
) -> int:
    """Serves the run in `folder`; `tell` takes the lines for the starter. Returns an exit code."""
    run = RunFolder(Path(folder))
    _redirect(os.O_WRONLY | os.O_APPEND, run.master_log, 2)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )

    def ready(address: str) -> None:
        tell(f"ready {address}")
        _close_pipes()

    try:
        asyncio.run(master.serve(run, prepared, ready, clock, socket.gethostname()))
    except TfappError as error:
        logging.error("%s", error)
        tell(f"error {error.message}{HINT}{error.hint}")
        return 1
    except Exception as error:
        logging.exception("the master has failed")
        tell(f"error {type(error).__name__}: {error}")
        return 1
    return 0


def _close_pipes() -> None:
    """Whoever reads to the end of the starter's pipe must not wait for the application's end."""
    _redirect(os.O_RDWR, Path(os.devnull), 0, 1)


def _redirect(flags: int, path: Path, *descriptors: int) -> None:
    opened = os.open(path, flags)
    for descriptor in descriptors:
        os.dup2(opened, descriptor)
    os.close(opened)
