"""A run on the cluster: its record, its Job and its master's pod."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tfapp.contract.job import queue_limit
from tfapp.contract.names import FINAL_STATES, GRANTED, KILLED, SUSPENDED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Application
from tfapp.engines.client import HANG_LIMIT, Address, Run, happens
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes import verdict
from tfapp.engines.kubernetes.logs import instant
from tfapp.engines.kubernetes.pod import endings, names, record
from tfapp.engines.kubernetes.pod.failures import ConflictError
from tfapp.engines.kubernetes.pod.record import RecordedRun, RunState
from tfapp.engines.refusals import undamaged
from tfapp.errors import ForbiddenError, NotFoundError, UnavailableError, UnreachableError
from tfapp.frozen import frozen
from tfapp.master.ending import Ending

if TYPE_CHECKING:
    from tfapp.engines.kubernetes.api import KubernetesCluster

WATCH = 5.0  # seconds of one watch of a record; then the Job is looked at
WATCH_BEFORE = 1.0  # the same before its master serves
WAIT_EVERY = 0.3  # seconds between two looks for a master, and for an end
KILL_LIMIT = 60.0  # seconds for the pod of a master that is killed to be gone
SUBMISSION = 120.0  # seconds after which a command that makes a run has died
LEFTOVER_GRACE = 1  # seconds
MASTER_LIMIT = 15.0  # seconds for a master's pod to go, before the other pods are deleted
NEXT_LIMIT = 120.0  # seconds for the Job to start another master, and for that one to serve
EXIT_LIMIT = 3.0  # seconds for the pods of a run that has ended to end by themselves
CLEAR_LIMIT = 20.0  # seconds for them to end after they were deleted
MOST_FORWARDS = 64  # at once: each takes three files and a thread


@frozen
class KubernetesRecord:
    """The record of an application at the time it was read."""

    name: str
    uid: str
    version: str  # changes with each write
    data: Mapping[str, str]
    destroyed: bool = False  # it is about to go

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> KubernetesRecord:
        metadata = item["metadata"]
        name = metadata.get("annotations", {}).get(names.NAME, "")
        data = item.get("data") or {}
        destroyed = verdict.is_being_deleted(item)
        return cls(name, metadata["uid"], metadata["resourceVersion"], data, destroyed)

    @property
    def object_name(self) -> str:
        return names.application_object(self.name)

    def folder(self, home: Path) -> Path:
        """What is kept of it below TFAPP_HOME."""
        return home / "kubernetes" / "applications" / self.uid

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
        what = f"the record of {self.name} (ConfigMap {self.object_name})"
        return undamaged(read, what, "Somebody has changed it")


class Forwards:
    """Forwarded ports of pods, which are open until `close`: the MOST_FORWARDS that were asked for
    last."""

    def __init__(self, cluster: KubernetesCluster):
        self._cluster = cluster
        self._lock = threading.Lock()
        # The one that was asked for last is last.
        self._open: dict[tuple[str, int], tuple[tuple[str, int], contextlib.ExitStack]] = {}

    def to(self, pod: str, address: str) -> str:
        """A local host:port that leads to the port of `address` (host:port) in a pod.
        UnreachableError."""
        port = int(address.rpartition(":")[2])
        with self._lock:
            found = self._open.pop((pod, port), None)
            if found is None:
                self._keep(MOST_FORWARDS - 1)
                stack = contextlib.ExitStack()
                try:
                    found = stack.enter_context(self._cluster.forward(pod, port)), stack
                except (UnavailableError, NotFoundError) as error:
                    raise UnreachableError(error.message, error.hint) from error
            self._open[pod, port] = found
            host, local = found[0]
        return f"[{host}]:{local}" if ":" in host else f"{host}:{local}"

    def close(self) -> None:
        with self._lock:
            self._keep(0)

    def _keep(self, most: int) -> None:
        while len(self._open) > most:
            _, stack = self._open.pop(next(iter(self._open)))
            stack.close()


@contextlib.contextmanager
def reaching(
    cluster: KubernetesCluster, name: str, run: int, instance: str, address: str
) -> Iterator[str]:
    """A context manager: a URL that leads to `address`, a URL of a pod: through the API server or,
    inside the cluster, directly. UnavailableError if the instance has no running pod."""
    if cluster.in_cluster:
        yield address
        return
    labels = {**names.run_labels(name, run), names.INSTANCE: names.instance_label(instance)}
    pods = cluster.list("Pod", labels, "status.phase=Running")
    if not pods:
        raise UnavailableError(f"{instance} of {name} has no running pod")
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
    url = urlsplit(address)
    port = url.port or (443 if url.scheme == "https" else 80)
    with cluster.forward(newest["metadata"]["name"], port) as (host, local):
        shown = f"[{host}]" if ":" in host else host
        yield url._replace(netloc=f"{shown}:{local}").geturl()


class KubernetesRun(Run):
    """Run `number` of the application with the record `found`. `home`: TFAPP_HOME."""

    notice = 1.5  # the API shows the end of a pod so late
    wait_every = WAIT_EVERY
    hang_limit = HANG_LIMIT

    def __init__(
        self,
        cluster: KubernetesCluster,
        forwards: Forwards,
        found: KubernetesRecord,
        number: int,
        clock: Callable[[], float],
        home: Path,
    ):
        super().__init__("kubernetes", number)
        self.found = found
        self.name = found.name
        self.logs = found.folder(home) / "runs" / str(number)  # for copies
        self.recorded = found.run(number)
        self._cluster = cluster
        self._forwards = forwards
        self._clock = clock
        self._credentials: tuple[bytes, bytes] | None = None
        self._message = ""
        self._waits = ""
        self.suspended = ""  # why nothing of it may run now, as of the last look
        self._patient = True  # whether a call waits for the next master

    @property
    def object_name(self) -> str:
        """The name of its Job and its Secret."""
        return names.run_object(self.name, self.number)

    @property
    def accepted(self) -> ApplicationStatus:
        return self.recorded.record.accepted

    @property
    def ended(self) -> bool:
        return self.recorded.ending is not None

    @property
    def said(self) -> ApplicationStatus:
        return self.recorded.last_known

    def application(self) -> Application:
        id = self.recorded.record.application
        tags = self.found.tags()
        return self.shown(self.name, id, self.status, tags, self.logs, waits=self._waits)

    @property
    def serves(self) -> bool:
        """Whether its master has published its address."""
        state = self.recorded.state
        return state is not None and state.address != "" and not self.suspended

    @property
    def status(self) -> ApplicationStatus:
        """The last known status. A run whose Job was suspended after it had begun is SUSPENDED."""
        recorded = self.recorded
        if self.suspended and recorded.state is not None and recorded.ending is None:
            return dataclasses.replace(recorded.last_known, state=SUSPENDED)
        return recorded.last_known

    # -- for its client --
    def address(self) -> Address:
        """See Run.address. After the loss of a master, the next one has some time to serve."""
        if not self.serves:
            self.read()
        if self._patient:
            self._await_master()
        state = self.recorded.state
        if state is None or not state.address:
            raise UnreachableError(f"{self.name} has no master yet", self.waiting())
        if self._credentials is None:
            self._credentials = self.credentials()
        return Address(self._forwards.to(state.pod, state.address), *self._credentials)

    def kill(self) -> None:
        """Deletes the Job, the master's pod and all other pods. A master that is just being started
        learns from the record that it must start nothing."""
        began = self.serves
        self._patch({record.stop_key(self.number): self._message or "Stopped."})
        self.delete_pods()
        last_known, now = self.recorded.last_known, self._clock()
        if began:
            how = verdict.Death("its Job was deleted by `tfapp stop`")
            self._write(verdict.ending(how, last_known, now, KILLED, self._message))
        else:
            self._write(verdict.stopped_early(last_known, self._message, now))

    def _await_master(self) -> None:
        """Waits for the master that takes the place of a lost one. One that waits for files is not
        waited for: a command that follows sends them."""
        lost = self.recorded.state
        if lost is None or lost.missing or not self._gets_another(lost):
            return

        def has_come() -> bool:
            self.read()
            return self.is_ending() or (self.serves and self.recorded.state != lost)

        self._patient = happens(has_come, NEXT_LIMIT, self.wait_every)

    def _gets_another(self, state: RunState) -> bool:
        """Whether the master with this state is lost, or is about to take the place of one that is,
        and its Job goes on."""
        is_lost = verdict.is_lost(self._cluster.get("Pod", state.pod))
        if not is_lost and (state.address or state.attempt == 1):
            return False
        job = self.job()
        return not (endings.has_ended(job) or endings.is_suspended(job))

    def stop(self, message: str, force: bool, timeout: float | None) -> None:
        self._message = message
        self._patient = not force
        if not self.serves:
            self.read()
        if not (self.serves or force or self.is_ending()):
            self._await_master()
        if self.is_ending():
            return
        if not self.serves:
            self.kill()  # nothing runs that could be asked
        else:
            self.client.stop(message, force, timeout)

    def ask(self) -> None:
        self._waits = self.waiting()

    def changes(self) -> Iterator[Application]:
        """See Run.changes: for WATCH seconds, or until its record has an ending."""
        self.ask()
        seconds = WATCH if self.serves else WATCH_BEFORE
        silent = [""]
        watch = self._cluster.watch(
            "ConfigMap", name=self.found.object_name, timeout=seconds, away=silent.append
        )
        for kind, item in watch:
            if kind == "DELETED":
                return
            self.take(KubernetesRecord.of(item))
            if self.is_ending():
                return
            if self.recorded.last_known.state not in FINAL_STATES:
                yield self.application()
        if silent[-1]:
            raise UnavailableError(silent[-1])

    # -- the cluster's view --
    def read(self) -> None:
        """Reads the record again. UnreachableError if it was deleted."""
        item = self._cluster.get("ConfigMap", self.found.object_name)
        if item is None or item["metadata"]["uid"] != self.found.uid:
            raise UnreachableError(f"{self.name} was destroyed")
        self.take(KubernetesRecord.of(item))

    def take(self, found: KubernetesRecord) -> None:
        """Sets the record, which was read elsewhere."""
        self.found = found
        self.recorded = found.run(self.number)

    def job(self) -> dict[str, Any] | None:
        return self._cluster.get("Job", self.object_name)

    def pods(self) -> list[dict[str, Any]]:
        """All pods of the run, including the master's."""
        return self._cluster.list("Pod", names.run_labels(self.name, self.number))

    def master_pod(self) -> dict[str, Any] | None:
        labels = {"batch.kubernetes.io/job-name": self.object_name}
        pods = self._cluster.list("Pod", labels)
        return max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    def waiting(self) -> str:
        """What the master waits for, in the cluster's words; "" if unknown. Also for a master that
        serves: its node may not answer."""
        if self.is_ending() or self.suspended:
            return "" if self.is_ending() else self.suspended
        state = self.recorded.state
        if state is not None and state.attempt > 1 and state.missing:
            return (
                f"waiting for {len(state.missing)} files, which `tfapp wait` sends where they are"
            )
        pod = self.master_pod()
        if state is not None and pod is not None and verdict.is_over(pod):
            return "waiting for another master: Kubernetes starts one, after 10 s or 20 s"
        if self.serves or verdict.waiting(pod):
            return verdict.waiting(pod)
        return verdict.waiting(pod, self._events(pod))

    def _events(self, pod: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
        """The events of the master's pod or, if there is none, of its Job."""
        of = self.object_name if pod is None else pod["metadata"]["name"]
        with contextlib.suppress(ForbiddenError):
            return self._cluster.list("Event", fields=f"involvedObject.name={of}")
        return []

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
        self.suspended = verdict.suspension(job)
        if self.suspended:
            return self._is_suspended()
        if job is not None and not endings.has_ended(job):
            return self._never_came(job)
        self.read()  # it may have spoken just before its end
        if self.is_ending():
            return True
        run, now = self.recorded, self._clock()
        made = job is not None or run.state is not None
        if run.stop is not None:  # by a command that has not come to its end
            found = verdict.stopped_early(run.last_known, run.stop, now)
        elif made:
            how = verdict.death(job, self.master_pod())
            masters = run.state.attempt if run.state else 1
            found = verdict.ending(how, run.last_known, now, masters=masters)
        elif now < run.record.started + SUBMISSION:
            return False  # a command is about to make it
        else:
            how = verdict.Death("the command that was about to start it died")
            found = verdict.ending(how, run.last_known, now)
        self._end(self.pods())
        self._write(found)
        return self.is_ending()

    def _is_suspended(self) -> bool:
        """Ends the pods of a master that was killed before it could. Returns False: the run has not
        ended."""
        pods = self.pods()
        if not any(verdict.is_of_master(pod) and not verdict.is_over(pod) for pod in pods):
            self._end(pods)
        return False

    def _never_came(self, job: Mapping[str, Any]) -> bool:
        """Ends a run whose master a scheduler holds back for too long, or which then has no image
        for too long: there is no coordinator to do it."""
        if self.serves:
            return False
        pod = self.master_pod()
        if self.recorded.state is None and pod is not None and verdict.is_over(pod):
            how = verdict.death(job, pod)
            if how.reason in ("start", "exit"):  # so would the next ones of the Job
                self.delete_pods()
                self._write(verdict.ending(how, self.recorded.last_known, self._clock()))
                return self.is_ending()
        waits = endings.waits(pod) if pod else endings.told_by_events(self._events(None))
        if not waits:
            return False
        definition, kind = self.found.definition(), verdict.held_by(pod, waits)
        limit, key = definition.gang, "gang.timeout"
        if kind != GRANTED:
            limit, key = queue_limit(definition.queue, kind), "queue.timeout"
        began = max(self.recorded.record.started, _started(job), _placed(pod))
        if self._clock() < began + limit:
            return False
        self.delete_pods()
        now = self._clock()
        self._write(verdict.never_came(waits, limit, key, self.recorded.last_known, now))
        return self.is_ending()

    def _end(self, pods: Iterable[Mapping[str, Any]]) -> None:
        for pod in pods:
            if not verdict.is_over(pod):
                name = pod["metadata"]["name"]
                self._cluster.delete("Pod", name, grace=LEFTOVER_GRACE)

    def clear(self) -> None:
        """Ends what still runs of a run that has an ending, which should be nothing: its master
        gets a moment to exit. Waits for the end, but not for pods on nodes that are lost."""
        began = time.monotonic()
        while time.monotonic() < began + EXIT_LIMIT + CLEAR_LIMIT:
            living = [pod for pod in self.pods() if endings.ended(pod) is None]
            if not living:
                return
            if time.monotonic() > began + EXIT_LIMIT:
                self._end(living)
            time.sleep(WAIT_EVERY)

    def delete_pods(self) -> None:
        """Deletes the Job and all pods of the run, and waits at most KILL_LIMIT seconds until they
        are deleted. The master's pod goes first: a master replaces pods that are deleted."""
        self._cluster.delete("Job", self.object_name, foreground=True)
        began = time.monotonic()
        while time.monotonic() < began + KILL_LIMIT:
            pods = self.pods()
            masters = [pod for pod in pods if verdict.is_of_master(pod)]
            alone = time.monotonic() < began + MASTER_LIMIT and not all(
                map(verdict.is_over, masters)
            )
            self._end(masters if alone else pods)
            if self.job() is None and all(map(verdict.is_over, pods)):
                return
            time.sleep(WAIT_EVERY)

    def _write(self, ending: Ending) -> None:
        """Writes an ending, if there is none."""
        self._patch(
            {
                record.ending_key(self.number): record.text(ending),
                record.status_key(self.number): None,
                record.STATE: ending.status.state,
            }
        )

    def _patch(self, values: Mapping[str, str | None]) -> None:
        """Writes into the record, if there is no ending."""
        for _ in range(5):
            self.read()
            if self.is_ending():
                return
            body = {"metadata": {"resourceVersion": self.found.version}, "data": values}
            try:
                item = self._cluster.patch("ConfigMap", self.found.object_name, body)
            except ConflictError:
                continue
            self.take(KubernetesRecord.of(item))
            return


def _placed(pod: Mapping[str, Any] | None) -> float:
    """The time at which a pod got its node, in seconds since 1970; 0 while it has none."""
    for condition in (pod or {}).get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return (instant(condition.get("lastTransitionTime") or "") or 0) / 1e9
    return 0.0


def _started(job: Mapping[str, Any]) -> float:
    """The time since which a Job is not suspended, in seconds since 1970; 0 if it has none yet."""
    return (instant(job.get("status", {}).get("startTime", "")) or 0) / 1e9
