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
from tfapp.engines.kubernetes.pod import names, record
from tfapp.engines.kubernetes.pod.api import Api, pauses
from tfapp.engines.kubernetes.pod.endings import failures_left
from tfapp.engines.kubernetes.pod.events import Events
from tfapp.engines.kubernetes.pod.failures import AwayError, ConflictError
from tfapp.engines.kubernetes.pod.record import RecordedRun, RunState, read_run
from tfapp.errors import TfappError, UnavailableError
from tfapp.master.ending import Ending
from tfapp.master.ending import ending as ending_of
from tfapp.master.launcher import SupersededError

PATIENCE = 600.0  # seconds for an API server that is away
FINAL_LIMIT = 5.0  # seconds to tell the Job that there is an ending
MAX_STATUS = 250_000  # bytes; the whole ConfigMap has room for 1 MiB
MAX_ENDING = 60_000
RECORD = "ConfigMap"

log = logging.getLogger(__name__)


class PodRecord:
    """See tfapp.master.launcher.Record, of run number `run` of the application `name`. `pod`: that
    of the master."""

    def __init__(self, api: Api, name: str, run: int, pod: str):
        self._api = api
        self._name = names.application_object(name)
        self._job = names.run_object(name, run)
        self._run = run
        self.state = RunState(pod)
        # Of the object after the last write, the first of which is `begins`. None: it has to be
        # read before the next one.
        self._version: str | None = ""
        self._events: Events | None = None
        self._over = threading.Event()
        self._writing = threading.Lock()
        self.succeeded = False
        self.is_superseded = False  # whether another master has the run
        self.uid = ""  # of the object, once it was read

    def read(self) -> Mapping[str, str]:
        item = self._api.require(RECORD, self._name, PATIENCE)
        self.uid = str(item["metadata"].get("uid", ""))
        return dict(item.get("data") or {})

    def tells(self, events: Events) -> None:
        """From now on the history is told by `events`, too."""
        self._events = events

    def begins(self, attempt: int, since: str, outlived: bool = False) -> None:
        """Records that this master has begun: see RunState. From now on an earlier one can write
        nothing."""
        self._changed(attempt=attempt, since=since, outlived=outlived)

    def goes_on(self, state: RunState) -> None:
        """This master goes on with the run in the pod of one that was lost, whose state it was."""
        self.state, self._version = state, None

    def waiting(self, files: str, missing: tuple[str, ...]) -> None:
        """Records the address of the master's file server, and the missing files."""
        self._changed(files=files, missing=missing)

    def serving(self, address: str) -> None:
        """See Record.serving. One that goes on at its address can do so without an API server."""
        if self._version is not None or address != self.state.address:
            self._changed(address=address)

    def _changed(self, **values: Any) -> None:
        self.state = dataclasses.replace(self.state, **values)
        self._write({record.state_key(self._run): record.text(self.state)}, PATIENCE)

    def published(self, status: bytes) -> None:
        """See Record.published. Retried until there is an ending: after a time without an API
        server, the newest status is written with the next one at the latest."""
        for pause in pauses():
            with self._writing:
                if self._over.is_set():
                    return
                try:
                    self._publish(_status(status))
                    return
                except AwayError as error:
                    log.error("the status cannot be written: %s", error)
            self._over.wait(pause)

    def _publish(self, text: str) -> None:
        status = ApplicationStatus.from_dict(json.loads(text))
        self._write({record.status_key(self._run): text, record.STATE: status.state})
        if self._events is not None:
            self._events.tell(status)

    def ended(self, ending: Ending) -> None:
        """See Record.ended. An ending that is there already stands. A suspension writes none, but
        the status from which the next master goes on."""
        self._over.set()
        with self._writing:
            while True:
                item = self._told(self._api.require, PATIENCE)
                known = read_run(item.get("data") or {}, self._run)
                self._check_still_ours(known)
                found = known.ending or _as_wanted(ending, known.stop)
                self.succeeded = found.status.state == SUCCEEDED
                if known.ending is not None:
                    return self._is_final()
                version = {"resourceVersion": item["metadata"]["resourceVersion"]}
                body = {"metadata": version, "data": self._values(found)}
                with contextlib.suppress(ConflictError):
                    self._told(self._api.patch, body, PATIENCE)
                    self._tell_end(found.status)
                    return None if found.status.state == SUSPENDED else self._is_final()

    def _tell_end(self, status: ApplicationStatus) -> None:
        if self._events is not None:
            self._events.tell(status)
            self._events.verdict(status)

    def _is_final(self) -> None:
        """Lets the Job start no other master, which would find the ending and end."""
        if self.succeeded:
            return  # so has the Job, then
        try:
            self._api.patch("Job", self._job, {"spec": {"backoffLimit": 0}}, FINAL_LIMIT)
        except TfappError as error:
            log.error("the Job may start another master, which ends at once: %s", error)

    def lasts(self, attempts: int) -> None:
        """Lets the Job start as many other masters as at its begin: earlier losses count no more.
        Not after an ending. TfappError if that fails."""
        with self._writing:
            if self._over.is_set():
                return
            job = self._api.require("Job", self._job, FINAL_LIMIT)
            more = attempts - 1 - failures_left(job)
            limit = job["spec"].get("backoffLimit", 0)
            if limit and more > 0:
                version = {"resourceVersion": job["metadata"]["resourceVersion"]}
                body = {"metadata": version, "spec": {"backoffLimit": limit + more}}
                self._api.patch("Job", self._job, body, FINAL_LIMIT)

    def _values(self, ending: Ending) -> dict[str, str | None]:
        if ending.status.state == SUSPENDED:
            gone = RunState(self.state.pod, attempt=self.state.attempt, since=self.state.since)
            return {
                record.status_key(self._run): fitting(ending.status, MAX_STATUS).decode(),
                record.state_key(self._run): record.text(gone),
                record.STATE: SUSPENDED,
            }
        small = fitting(ending.status, MAX_ENDING).decode()
        status = ApplicationStatus.from_dict(json.loads(small))
        said = dataclasses.replace(
            ending, status=status, diagnostics=ending.diagnostics[:MAX_ENDING]
        )
        return {
            record.ending_key(self._run): record.text(said),
            record.status_key(self._run): None,
            record.STATE: status.state,
        }

    def _write(self, values: Mapping[str, Any], patience: float = 0.0) -> None:
        """SupersededError if another master has begun."""
        while True:
            if self._version is None:
                item = self._told(self._api.require, patience)
                known = read_run(item.get("data") or {}, self._run)
                self._check_still_ours(known)
                if known.state != self.state:  # the master before was lost before it wrote that
                    values = {record.state_key(self._run): record.text(self.state), **values}
                self._version = item["metadata"]["resourceVersion"]
            of = {"metadata": {"resourceVersion": self._version}} if self._version else {}
            try:
                item = self._told(self._api.patch, {**of, "data": values}, patience)
            except ConflictError:
                self._version = None
                continue
            self._version = item["metadata"]["resourceVersion"]
            return

    def _check_still_ours(self, known: RecordedRun) -> None:
        begun = self._version != ""
        if begun and known.state and known.state.attempt > self.state.attempt:
            self.is_superseded = True
            raise SupersededError("another master has the run")

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
