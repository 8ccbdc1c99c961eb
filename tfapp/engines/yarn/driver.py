"""Skein's driver, which the commands of a user share. It is started if none runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.disk import locked, make_private, writing
from tfapp.engines.credentials import new_credentials
from tfapp.engines.yarn import kerberos
from tfapp.engines.yarn.configuration import without_proxies
from tfapp.engines.yarn.driver_daemon import DriverRecord
from tfapp.engines.yarn.hadoop_client import find_java, fingerprint, read_class_path
from tfapp.engines.yarn.layout import DriverFolder, YarnCredentials, YarnHome
from tfapp.errors import UnavailableError
from tfapp.ready import ready

START_LIMIT = 60.0  # seconds for a driver to start
LOCK_LIMIT = 2 * START_LIMIT  # seconds for another command to start one
PING_LIMIT = 5.0
CALL_LIMIT = 10.0  # seconds for a question to the cluster
SUBMIT_LIMIT = 300.0  # seconds, with the upload of all files


# An exception in a log of Java: its class, which is left out, and its message.
_JAVA_ERROR = re.compile(r"^(?:[a-z]\w*\.)+\w+(?:Exception|Error): (.*)", re.MULTILINE)


def open_driver(home: YarnHome, environ: Mapping[str, str], now: float) -> Any:
    """A skein.Client whose calls have deadlines (skein's TimeoutError). `now`: seconds since 1970.
    UnavailableError if no driver can be started."""
    folder = _folder(home, environ)
    found = _find(folder)
    if found is not None:
        return found
    with _starting(folder):
        return _find(folder) or _start(folder, environ, now)


@contextlib.contextmanager
def _starting(folder: DriverFolder) -> Iterator[None]:
    """A lock: one command at a time starts a driver; others then find it. UnavailableError after
    the time limit."""
    with writing(folder.path):
        make_private(folder.path)
        lock = locked(folder.lock, LOCK_LIMIT)
    with lock as held:
        if not held:
            raise UnavailableError(
                f"another command has been starting Skein's driver for {LOCK_LIMIT:g} s",
                f"{folder.log} may say why.",
            )
        yield


def touch(home: YarnHome, environ: Mapping[str, str]) -> None:
    """Records that the driver is in use. Does nothing if there is none."""
    try:
        os.utime(_folder(home, environ).record)
    except FileNotFoundError:
        return


def forget(home: YarnHome, environ: Mapping[str, str]) -> None:
    """Ends the driver soon, so that the next command starts another. Does nothing if there is
    none."""
    _folder(home, environ).record.unlink(missing_ok=True)


def _folder(home: YarnHome, environ: Mapping[str, str]) -> DriverFolder:
    """The folder of the driver for this cluster and user. A driver keeps the ticket with which it
    has started."""
    key = fingerprint(environ)
    if kerberos.is_asked(environ) and not environ.get(kerberos.KEYTAB):
        ticket = repr(kerberos.find_ticket(environ))
        key = hashlib.sha256(f"{key}{ticket}".encode()).hexdigest()[: len(key)]
    return home.driver(key)


def _find(folder: DriverFolder) -> Any:
    """A client of the running driver; None if no driver answers."""
    from tfapp.skein_library import skein

    record = DriverRecord.read(folder.record)
    credentials = folder.read_credentials()
    if record is None or credentials is None:
        return None
    try:
        client = _connect(record.address, credentials)
        os.utime(folder.record)
    except (skein.exceptions.ConnectionError, skein.exceptions.TimeoutError, FileNotFoundError):
        return None
    return client


def _connect(address: str, credentials: YarnCredentials) -> Any:
    from tfapp.skein_library import skein

    security = skein.Security(cert_bytes=credentials.certificate, key_bytes=credentials.key)
    return _client_class()(address, security)


def _start(folder: DriverFolder, environ: Mapping[str, str], now: float) -> Any:
    find_java(environ)
    read_class_path(environ)
    if folder.read_credentials() is None:
        folder.write_credentials(YarnCredentials(*new_credentials(now)))
    answer = _ask_daemon(folder, environ)
    if "error" in answer:
        reason = _java_error(folder.log) or answer["error"]
        if kerberos.complaint(reason):
            raise kerberos.refused(environ, reason)
        raise UnavailableError(
            f"Skein's driver did not start: {reason}", f"{folder.log} says more."
        )
    credentials = folder.read_credentials()
    assert credentials is not None
    return _connect(answer["address"], credentials)


def _java_error(log: Path) -> str:
    """The last error in the log of a Java program that has ended, in one line; "" if there is
    none."""
    found = _JAVA_ERROR.findall(log.read_text(errors="replace")) if log.exists() else ()
    return found[-1].strip() if found else ""


def _ask_daemon(folder: DriverFolder, environ: Mapping[str, str]) -> Mapping[str, str]:
    daemon = subprocess.Popen(
        [sys.executable, "-m", "tfapp.engines.yarn.driver_daemon", str(folder.path)],
        env=without_proxies(environ),  # Skein calls the driver with what it finds there
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert daemon.stdout is not None
    with daemon.stdout:
        answered, _ = ready([daemon.stdout], seconds=START_LIMIT)
        line = daemon.stdout.readline() if answered else b""
    if not line:
        daemon.kill()
        daemon.wait()
        reason = "it ended" if answered else f"no answer within {START_LIMIT:g} s"
        return {"error": reason}
    daemon.returncode = 0  # It goes on without this process; `subprocess` is not to warn of that.
    return json.loads(line)


def _client_class() -> Any:
    from tfapp.protocol.client import open_channel
    from tfapp.skein_library import skein

    class BoundedClient(skein.Client):
        """Skein's client with deadlines. It ignores proxy variables, because the driver runs on
        this machine."""

        def __init__(self, address: str, security: Any):
            certificate, key = (security._get_bytes(kind) for kind in ("cert", "key"))
            self._channel = open_channel(address, certificate, key)
            self._stub = skein.proto.DriverStub(self._channel)
            self.address, self.security, self._proc = address, security, None
            self._call("ping", skein.proto.Empty())

        def _call(self, method: str, req: Any, timeout: float | None = None) -> Any:
            limits = {"ping": PING_LIMIT, "submit": SUBMIT_LIMIT}
            return super()._call(method, req, timeout=limits.get(method, CALL_LIMIT))

    return BoundedClient
