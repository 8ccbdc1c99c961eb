"""The record of a run as its master writes it: values of the application's ConfigMap."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

from tfapp.contract.names import SUCCEEDED
from tfapp.contract.status import ApplicationStatus, fitting
from tfapp.engines.kubernetes import record
from tfapp.engines.kubernetes.pod.api import FIRST_PAUSE, LONGEST_PAUSE, Api, ApiError, AwayError
from tfapp.engines.kubernetes.record import RunState
from tfapp.master.ending import Ending

PATIENCE = 600.0  # seconds for an API server that is away
MAX_STATUS = 250_000  # bytes; the whole ConfigMap has room for 1 MiB
MAX_ENDING = 60_000

log = logging.getLogger(__name__)


class PodRecord:
    """See tfapp.master.launcher.Record. `name`: that of the ConfigMap. `run`: the number. `pod`:
    that of the master."""

    def __init__(self, api: Api, name: str, run: int, pod: str):
        self._api = api
        self._path = api.path("configmaps", name)
        self._run = run
        self._state = RunState(pod)
        self._over = threading.Event()
        self._writing = threading.Lock()
        self.succeeded = False

    def read(self) -> Mapping[str, str]:
        """The data of the record."""
        return dict(self._api.call("GET", self._path, patience=PATIENCE).get("data") or {})

    def waiting(self, files: str, missing: tuple[str, ...]) -> None:
        """Records the address of the master's file server, and the missing files."""
        self._state = dataclasses.replace(self._state, files=files, missing=missing)
        self._write({record.state_key(self._run): record.text(self._state)}, PATIENCE)

    def serving(self, address: str) -> None:
        """See Record.serving."""
        self._state = dataclasses.replace(self._state, address=address)
        self._write({record.state_key(self._run): record.text(self._state)}, PATIENCE)

    def published(self, status: bytes) -> None:
        """See Record.published. Retried until there is an ending: after a time without an API
        server, the newest status is written with the next one at the latest."""
        pause = FIRST_PAUSE
        while not self._over.is_set():
            with self._writing:
                if self._over.is_set():
                    return
                try:
                    return self._write({record.status_key(self._run): _status(status)})
                except AwayError as error:
                    log.error("the status cannot be written: %s", error)
            self._over.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def ended(self, ending: Ending) -> None:
        """See Record.ended."""
        self._over.set()
        self.succeeded = ending.status.state == SUCCEEDED
        small = fitting(ending.status, MAX_ENDING).decode()
        status = ApplicationStatus.from_dict(json.loads(small))
        said = dataclasses.replace(
            ending, status=status, diagnostics=ending.diagnostics[:MAX_ENDING]
        )
        values = {
            record.ending_key(self._run): record.text(said),
            record.status_key(self._run): None,
        }
        with self._writing:
            self._write(values, PATIENCE)

    def _write(self, values: Mapping[str, Any], patience: float = 0.0) -> None:
        try:
            self._api.call("PATCH", self._path, {"data": values}, patience)
        except ApiError as error:
            message = f"the record cannot be written: {error.message}"
            raise ApiError(error.status, error.reason, message) from error


def _status(status: bytes) -> str:
    if len(status) <= MAX_STATUS:
        return status.decode()
    return fitting(ApplicationStatus.from_dict(json.loads(status)), MAX_STATUS).decode()
