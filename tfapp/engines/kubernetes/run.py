"""A run on the cluster: its record, its Job and its master's pod; and the run for the client of its
master (see tfapp.engines.client.Run)."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfapp.contract.names import FAILED, KILLED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.client import Address, Client
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes import names, record, verdict
from tfapp.engines.kubernetes.pod import endings
from tfapp.engines.kubernetes.record import RecordedRun
from tfapp.engines.refusals import DamagedError
from tfapp.errors import ForbiddenError, UnavailableError, UnreachableError
from tfapp.frozen import frozen
from tfapp.master.ending import Ending

if TYPE_CHECKING:
    from tfapp.engines.kubernetes.api import Cluster

WAIT_EVERY = 0.3  # seconds between two looks for a master, and for an end
KILL_LIMIT = 60.0  # seconds for the pod of a master that is killed to be gone
SUBMISSION = 120.0  # seconds after which a command that makes a run has died
LEFTOVER_GRACE = 1  # seconds


@frozen
class Record:
    """The record of an application at the time it was read."""

    name: str
    uid: str
    version: str  # changes with each write
    data: Mapping[str, str]
    destroyed: bool = False  # it is about to go

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Record:
        metadata = item["metadata"]
        name = metadata.get("annotations", {}).get(names.NAME, "")
        data = item.get("data") or {}
        destroyed = verdict.is_being_deleted(item)
        return cls(name, metadata["uid"], metadata["resourceVersion"], data, destroyed)

    @property
    def object_name(self) -> str:
        return names.application_object(self.name)

    def runs(self) -> list[int]:
        """The numbers of the runs, oldest first."""
        return record.run_numbers(self.data)

    def run(self, number: int) -> RecordedRun:
        """The data of a run. DamagedError if it cannot be read."""
        return self._read(lambda: record.read_run(self.data, number))

    def definition(self) -> Definition:
        """The definition. DamagedError if it cannot be read."""
        text = self.data.get(record.DEFINITION, "")
        return self._read(lambda: Definition.from_dict(json.loads(text)))

    def tags(self) -> tuple[str, ...]:
        """The tags, including tfapp's own. DamagedError if they cannot be read."""
        return self._read(lambda: tuple(json.loads(self.data[record.DEFINITION])["tags"]))

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise DamagedError(
                f"the record of {self.name} (ConfigMap {self.object_name}) cannot be read: "
                f"{reason}",
                "Somebody has changed it, or a newer tfapp has written it. `tfapp destroy` deletes "
                "the application.",
            ) from error


class Forwards:
    """Forwarded ports of pods, which are open until this process ends."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._lock = threading.Lock()
        self._open: dict[tuple[str, int], tuple[str, int]] = {}
        self._stack = contextlib.ExitStack()

    def to(self, pod: str, address: str) -> str:
        """A local host:port that leads to the port of `address` (host:port) in a pod.
        UnreachableError."""
        port = int(address.rpartition(":")[2])
        with self._lock:
            if (pod, port) not in self._open:
                try:
                    opened = self._stack.enter_context(self._cluster.forward(pod, port))
                except UnavailableError as error:
                    raise UnreachableError(error.message, error.hint) from error
                self._open[pod, port] = opened
            host, local = self._open[pod, port]
        return f"[{host}]:{local}" if ":" in host else f"{host}:{local}"

    def close(self) -> None:
        """Ends them all."""
        with self._lock:
            self._open.clear()
            self._stack.close()


class Run:
    """Run `number` of the application with the record `found`."""

    notice = 1.5  # the API shows the end of a pod so late

    def __init__(
        self,
        cluster: Cluster,
        forwards: Forwards,
        found: Record,
        number: int,
        clock: Callable[[], float],
    ):
        self.found = found
        self.number = number
        self.recorded = found.run(number)
        self._cluster = cluster
        self._forwards = forwards
        self._clock = clock
        self._credentials: tuple[bytes, bytes] | None = None
        self._message = ""
        self.client = Client(self)

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def object_name(self) -> str:
        """The name of its Job and its Secret."""
        return names.run_object(self.name, self.number)

    @property
    def accepted(self) -> ApplicationStatus:
        return self.recorded.record.accepted

    @property
    def serves(self) -> bool:
        """Whether its master has published its address."""
        return self.recorded.state is not None and self.recorded.state.address != ""

    # -- see tfapp.engines.client.Run --
    def address(self) -> Address:
        if not self.serves:
            self.read()
        state = self.recorded.state
        if state is None or not state.address:
            raise UnreachableError(f"{self.name} has no master yet", self.waits())
        if self._credentials is None:
            self._credentials = self.credentials()
        return Address(self._forwards.to(state.pod, state.address), *self._credentials)

    def is_ending(self) -> bool:
        return self.recorded.ending is not None

    def wait_for_end(self, timeout: float) -> bool:
        """False also if the API server does not answer."""
        deadline = time.monotonic() + timeout
        while not self._look():
            if time.monotonic() >= deadline:
                return False
            time.sleep(WAIT_EVERY)
        return True

    def kill(self) -> None:
        """Deletes the Job, the master's pod and all other pods."""
        began = self.serves
        self.delete_pods()
        last_known, now = self.recorded.last_known, self._clock()
        if began:
            how = verdict.Death("its Job was deleted by `tfapp stop`")
            self._write(verdict.ending(how, last_known, now, KILLED, self._message))
        else:
            self._write(verdict.stopped_early(last_known, self._message, now))

    def stop(self, message: str, force: bool, timeout: float | None) -> None:
        """See Client.stop. `message`: the reason, for the verdict."""
        self._message = message
        if not self.serves:
            self.read()
        if self.is_ending():
            return
        if not self.serves:
            self.kill()  # nothing runs that could be asked
        else:
            self.client.stop(message, force, timeout)

    # -- the cluster's view --
    def read(self) -> None:
        """Reads the record again. UnreachableError if it was deleted."""
        item = self._cluster.get("ConfigMap", self.found.object_name)
        if item is None or item["metadata"]["uid"] != self.found.uid:
            raise UnreachableError(f"{self.name} was destroyed")
        self.take(Record.of(item))

    def take(self, found: Record) -> None:
        """Sets the record, which was read elsewhere."""
        self.found = found
        self.recorded = found.run(self.number)

    def job(self) -> dict | None:
        """The Job; None if there is none."""
        return self._cluster.get("Job", self.object_name)

    def pods(self) -> list[dict]:
        """All pods of the run, including the master's."""
        return self._cluster.list("Pod", names.run_labels(self.name, self.number))

    def master_pod(self) -> dict | None:
        """The pod of the Job."""
        labels = {"batch.kubernetes.io/job-name": self.object_name}
        pods = self._cluster.list("Pod", labels)
        return max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    def waits(self) -> str:
        """What the master waits for, in the cluster's words; "" if unknown. Also for a master that
        serves: its node may not answer."""
        if self.is_ending():
            return ""
        pod = self.master_pod()
        if self.serves or verdict.waiting(pod):
            return verdict.waiting(pod)
        of = self.object_name if pod is None else pod["metadata"]["name"]
        events: list[dict] = []
        with contextlib.suppress(ForbiddenError):
            events = self._cluster.list("Event", fields=f"involvedObject.name={of}")
        return verdict.waiting(pod, events)

    def credentials(self) -> tuple[bytes, bytes]:
        """The certificate and the key of the run, PEM. UnreachableError if they were deleted."""
        secret = self._cluster.get("Secret", self.object_name)
        if secret is None:
            raise UnreachableError(f"the credentials of {self.name} are gone (Secret)")
        data = secret.get("data", {})
        return base64.b64decode(data["certificate"]), base64.b64decode(data["key"])

    # -- its end --
    def settle(self) -> bool:
        """Whether it has ended. If its master has died without a verdict, deletes the remaining
        objects and writes a verdict."""
        if self.is_ending():
            return True
        job = self.job()
        if not verdict.has_ended(job):
            return self._never_came()
        self.read()  # it may have spoken just before its end
        if self.is_ending():
            return True
        state, record_ = self.recorded.state, self.recorded.record
        if job is None and state is None and self._clock() < record_.started + SUBMISSION:
            return False  # a command is about to make it
        how = verdict.death(job, self.master_pod())
        if job is None and state is None:
            how = verdict.Death("the command that was about to start it died")
        self.end_leftovers()
        self._write(verdict.ending(how, self.recorded.last_known, self._clock(), FAILED))
        return self.is_ending()

    def _never_came(self) -> bool:
        """Ends a run whose master has no image after the gang deadline: there is no coordinator to
        do it."""
        pod = None if self.serves else self.master_pod()
        if pod is None or not endings.lacks_image(pod):
            return False
        limit = self.found.definition().gang
        if self._clock() < self.recorded.record.started + limit:
            return False
        self.delete_pods()
        now = self._clock()
        self._write(verdict.never_came(endings.waits(pod), limit, self.recorded.last_known, now))
        return self.is_ending()

    def end_leftovers(self) -> None:
        """Ends the remaining pods. Their logs are kept if their node can end them."""
        for pod in self.pods():
            if not verdict.is_over(pod):
                name = pod["metadata"]["name"]
                self._cluster.delete("Pod", name, grace=LEFTOVER_GRACE)

    def delete_pods(self) -> None:
        """Deletes the Job and all pods of the run, and waits at most KILL_LIMIT seconds until they
        are deleted."""
        self._cluster.delete("Job", self.object_name, foreground=True)
        deadline = time.monotonic() + KILL_LIMIT
        while time.monotonic() < deadline:
            self.end_leftovers()  # also a pod that the Job's controller made meanwhile
            if self.job() is None and all(verdict.is_over(pod) for pod in self.pods()):
                return
            time.sleep(WAIT_EVERY)

    def _write(self, ending: Ending) -> None:
        """Writes an ending, if there is none."""
        from tfapp.engines.kubernetes.api import ConflictError

        for _ in range(5):
            self.read()
            if self.is_ending():
                return
            values = {
                record.ending_key(self.number): record.text(ending),
                record.status_key(self.number): None,
            }
            body = {"metadata": {"resourceVersion": self.found.version}, "data": values}
            try:
                item = self._cluster.patch("ConfigMap", self.found.object_name, body)
            except ConflictError:
                continue
            self.take(Record.of(item))
            return

    def _look(self) -> bool:
        if self.is_ending():
            return True
        try:
            self.read()
            return self.settle()
        except UnavailableError:
            return False
