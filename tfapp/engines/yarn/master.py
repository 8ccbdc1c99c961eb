"""A command's view of an application's master: its status, its changes, its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from tfapp.contract.encoding import encode
from tfapp.contract.keys import KEY_STATUS, KEY_STOP
from tfapp.contract.states import KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Link
from tfapp.engines.yarn.cluster import Report
from tfapp.engines.yarn.layout import RunFolder
from tfapp.engines.yarn.links import links
from tfapp.engines.yarn.staging import read_credentials
from tfapp.errors import RefusedError, UnreachableError
from tfapp.skein_calls.connection import Connection
from tfapp.skein_calls.events import Put
from tfapp.skein_calls.opening import connect

CALL_LIMIT = 5.0  # seconds for one call
LOOK_EVERY = 5.0  # seconds between two looks whether a silent master still lives


class Master:
    """The master of the run that `report` tells of; its credentials are in `folder`, or are
    fetched there from the cluster."""

    def __init__(self, report: Report, folder: RunFolder, environ: Mapping[str, str]):
        self._report = report
        self._folder = folder
        self._environ = environ

    def connect(self) -> Connection:
        """UnreachableError when it is not up, or its credentials cannot be had."""
        report = self._report
        if not report.address:
            raise UnreachableError(f"{report.name} has no master yet", "It waits in its queue.")
        credentials = self._folder.read_credentials()
        if credentials is None:
            credentials = read_credentials(report.id, self._environ)
            self._folder.write_credentials(credentials)
        return connect(
            report.address, report.id, credentials.certificate, credentials.key, CALL_LIMIT
        )

    def look(self) -> tuple[ApplicationStatus | None, tuple[Link, ...]]:
        """What the coordinator published last, None before it has begun, and where its instances
        are to be seen. UnreachableError."""
        with self.connect() as connection:
            value = connection.get(KEY_STATUS)
            if value is None:
                return None, ()
            status = ApplicationStatus.from_dict(json.loads(value))
            return status, links(self._report, status, connection.containers())

    def changes(self, ended: Callable[[], bool]) -> Iterator[ApplicationStatus]:
        """What the coordinator publishes, until its verdict, or until the master cannot be
        followed any more. `ended` is asked while it is silent."""
        try:
            with self.connect() as connection:
                for value in _published(connection, ended):
                    status = ApplicationStatus.from_dict(json.loads(value))
                    yield status
                    if status.verdict is not None:
                        return
        except UnreachableError:
            return  # it has just begun, or it ends, and the ResourceManager knows

    def ask_to_stop(self, message: str) -> ApplicationStatus | None:
        """What the coordinator published last, None where it will not hear of it."""
        try:
            with self.connect() as connection:
                value = connection.get(KEY_STATUS)
                if value is None:
                    return None
                connection.put(KEY_STOP, encode({"message": message}))
        except UnreachableError:
            return None
        return ApplicationStatus.from_dict(json.loads(value))

    def shut_down(self, message: str) -> bool:
        """Whether the master has heard that it is to end without asking the coordinator."""
        try:
            with self.connect() as connection:
                connection.shutdown(KILLED, message)
        except (UnreachableError, RefusedError):
            return False
        return True


def _published(connection: Connection, ended: Callable[[], bool]) -> Iterator[bytes]:
    with connection.watch(keys=[KEY_STATUS]) as watch:
        yield from watch.read().values()
        while True:
            event = watch.get(timeout=LOOK_EVERY)
            if isinstance(event, Put):
                yield event.value
            elif event is not None or ended():
                return
