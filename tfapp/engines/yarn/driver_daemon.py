"""Runs a driver of Skein: `python -m tfapp.engines.yarn.driver_daemon FOLDER`.

A driver is a Java program that takes seconds to start, so commands share one. The daemon starts it,
publishes its address, and ends it after a time without use: commands touch the record in FOLDER.
The driver ends with its daemon in any case.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.encoding import Coded
from tfapp.disk import write_json
from tfapp.engines.refusals import read_if_whole
from tfapp.engines.yarn.kerberos import find_keytab, java_options
from tfapp.engines.yarn.layout import DriverFolder
from tfapp.frozen import frozen

IDLE_LIMIT = 600.0  # seconds without a command
LOOK_EVERY = 5.0

# A driver needs little memory, and lives for a few calls.
JAVA_OPTIONS = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


@frozen
class DriverRecord(Coded):
    """The address (host:port) of a driver, and the process id of its daemon."""

    address: str
    daemon: int

    @classmethod
    def read(cls, path: Path) -> DriverRecord | None:
        """The record; None if there is none, or it was written by another version."""
        return read_if_whole(path, cls.from_dict)


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Starts the driver and prints one line of JSON: {"address": ...} or {"error": ...}."""
    folder = DriverFolder(Path(argv[0]))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        client = _start(folder, environ)
    except Exception as error:  # handed to the command that asked
        _answer({"error": f"{type(error).__name__}: {error}"})
        return 1
    with contextlib.closing(client):
        running = DriverRecord(client.address, os.getpid())
        write_json(folder.record, running)
        _answer({"address": client.address})
        wait_for_end(folder.record, running, ended, client, time.time)
        if DriverRecord.read(folder.record) == running:
            folder.record.unlink(missing_ok=True)
    return 0


def wait_for_end(
    record: Path,
    running: DriverRecord,
    ended: threading.Event,
    client: Any,
    clock: Callable[[], float],
) -> None:
    """Returns when `ended` is set, the driver has ended, `record` describes another driver than
    `running`, or nobody has touched it for IDLE_LIMIT seconds of `clock`, the clock of the file
    system."""
    while not ended.wait(LOOK_EVERY):
        if client._proc.poll() is not None:
            return
        if DriverRecord.read(record) != running:
            return
        try:
            used = record.stat().st_mtime
        except FileNotFoundError:
            return
        if clock() - used > IDLE_LIMIT:
            return


def _start(folder: DriverFolder, environ: Mapping[str, str]) -> Any:
    from tfapp.skein_library import skein

    credentials = folder.read_credentials()
    if credentials is None:
        raise FileNotFoundError(folder.certificate)
    keytab, principal = find_keytab(environ) or (None, None)
    return skein.Client(
        keytab=keytab,
        principal=principal,
        security=skein.Security(cert_bytes=credentials.certificate, key_bytes=credentials.key),
        log=str(folder.log),
        java_options=[
            *java_options(environ),
            *(environ.get("SKEIN_DRIVER_JAVA_OPTIONS") or JAVA_OPTIONS).split(),
        ],
    )


def _answer(answer: Mapping[str, str]) -> None:
    """Answers the waiting command, which then reads no more."""
    print(json.dumps(answer), flush=True)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
