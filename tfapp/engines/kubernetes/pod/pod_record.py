"""The record of a run as its master writes it: values of the application's ConfigMap."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tfapp.contract.names import KILLED, SUCCEEDED, SUSPENDED
from tfapp.contract.status import ApplicationStatus, fitting
from tfapp.engines.kubernetes.pod import record
from tfapp.engines.kubernetes.pod.api import Api, pauses
from tfapp.engines.kubernetes.pod.failures import AwayError, ConflictError
from tfapp.engines.kubernetes.pod.record import RunState, read_run
from tfapp.errors import TfappError, UnavailableError
from tfapp.master.ending import Ending
from tfapp.master.ending import ending as ending_of

PATIENCE = 600.0  # seconds for an API server that is away
MAX_STATUS = 250_000  # bytes; the whole ConfigMap has room for 1 MiB
MAX_ENDING = 60_000
RECORD = "ConfigMap"

log = logging.getLogger(__name__)


class PodRecord:
    """See tfapp.master.launcher.Record. `name`: that of the ConfigMap. `run`: the number. `pod`:
    that of the master."""

    def __init__(self, api: Api, name: str, run: int, pod: str):
        self._api = api
        self._name = name
        self._run = run
        self._state = RunState(pod)
        self._over = threading.Event()
        self._writing = threading.Lock()
        self.succeeded = False

    def read(self) -> Mapping[str, str]:
        return dict(self._api.require(RECORD, self._name, PATIENCE).get("data") or {})

    def begins(self, attempt: int) -> None:
        """Records that this master goes on with a run of an earlier one."""
        self._changed(attempt=attempt)

    def waiting(self, files: str, missing: tuple[str, ...]) -> None:
        """Records the address of the master's file server, and the missing files."""
        self._changed(files=files, missing=missing)

    def serving(self, address: str) -> None:
        self._changed(address=address)

    def _changed(self, **values: Any) -> None:
        self._state = dataclasses.replace(self._state, **values)
        self._write({record.state_key(self._run): record.text(self._state)}, PATIENCE)

    def published(self, status: bytes) -> None:
        """See Record.published. Retried until there is an ending: after a time without an API
        server, the newest status is written with the next one at the latest."""
        for pause in pauses():
            with self._writing:
                if self._over.is_set():
                    return
                try:
                    self._write({record.status_key(self._run): _status(status)})
                    return
                except AwayError as error:
                    log.error("the status cannot be written: %s", error)
            self._over.wait(pause)

    def ended(self, ending: Ending) -> None:
        """See Record.ended. An ending that is there already stands. A suspension writes none, but
        the status from which the next master goes on."""
        self._over.set()
        with self._writing:
            while True:
                item = self._told(self._api.require, PATIENCE)
                known = read_run(item.get("data") or {}, self._run)
                found = known.ending or _as_wanted(ending, known.stop)
                self.succeeded = found.status.state == SUCCEEDED
                if known.ending is not None:
                    return
                version = {"resourceVersion": item["metadata"]["resourceVersion"]}
                body = {"metadata": version, "data": self._values(found)}
                with contextlib.suppress(ConflictError):
                    self._told(self._api.patch, body, PATIENCE)
                    return

    def _values(self, ending: Ending) -> dict[str, str | None]:
        if ending.status.state == SUSPENDED:
            gone = RunState(self._state.pod, attempt=self._state.attempt)
            return {
                record.status_key(self._run): fitting(ending.status, MAX_STATUS).decode(),
                record.state_key(self._run): record.text(gone),
            }
        small = fitting(ending.status, MAX_ENDING).decode()
        status = ApplicationStatus.from_dict(json.loads(small))
        said = dataclasses.replace(
            ending, status=status, diagnostics=ending.diagnostics[:MAX_ENDING]
        )
        return {
            record.ending_key(self._run): record.text(said),
            record.status_key(self._run): None,
        }

    def _write(self, values: Mapping[str, Any], patience: float = 0.0) -> None:
        self._told(self._api.patch, {"data": values}, patience)

    def _told(self, call: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
        try:
            return call(RECORD, self._name, *args)
        except (AwayError, ConflictError):
            raise
        except TfappError as error:
            message = f"the record cannot be written: {error.message}"
            raise UnavailableError(message) from error


def _status(status: bytes) -> str:
    if len(status) <= MAX_STATUS:
        return status.decode()
    return fitting(ApplicationStatus.from_dict(json.loads(status)), MAX_STATUS).decode()


def _as_wanted(ending: Ending, stop: str | None) -> Ending:
    """`ending`, or KILLED if somebody wanted the run to stop because of `stop`."""
    status = ending.status
    if stop is None or status.state == SUCCEEDED:
        return ending
    return ending_of(KILLED, stop, dataclasses.replace(status, verdict=None), status.updated)
