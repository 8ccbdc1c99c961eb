"""Keeps one of Skein's drivers: `python -m tfapp.engines.yarn.keeper FOLDER`.

A driver is a Java program that takes seconds to start, so commands share one. Its keeper starts
it, says where it listens, and ends it when no command has used it for a while: commands touch
the record in FOLDER. The driver ends with its keeper, however that ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfapp.engines.disk import write_json
from tfapp.engines.yarn.kerberos import find_keytab
from tfapp.engines.yarn.layout import DriverFolder

IDLE_LIMIT = 600.0  # seconds without a command
LOOK_EVERY = 5.0

# A driver needs little memory, and lives for a few calls.
JAVA_OPTIONS = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


@dataclasses.dataclass(frozen=True)
class Running:
    """A driver that listens at `address` (host:port), and its keeper's process id."""

    address: str
    keeper: int

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Running:
        return cls(**data)


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
        running = Running(client.address, os.getpid())
        write_json(folder.record, running)
        _answer({"address": client.address})
        wait_for_end(folder.record, ended, client, time.time)
        _forget(folder.record, running)
    return 0


def wait_for_end(
    record: Path, ended: threading.Event, client: Any, clock: Callable[[], float]
) -> None:
    """Returns when `ended` is set, the driver is gone, or nobody has touched `record` for
    IDLE_LIMIT seconds of `clock`, which is the file system's."""
    while not ended.wait(LOOK_EVERY):
        if client._proc.poll() is not None:
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
        java_options=environ.get("SKEIN_DRIVER_JAVA_OPTIONS") or JAVA_OPTIONS,
    )


def _answer(answer: Mapping[str, str]) -> None:
    """To the command that waits; it reads no further."""
    print(json.dumps(answer), flush=True)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _forget(record: Path, running: Running) -> None:
    with contextlib.suppress(FileNotFoundError, ValueError):
        if Running.from_dict(json.loads(record.read_bytes())) == running:
            record.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
