"""Creates the objects of applications and runs on the cluster: all, or none of them."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.compiler.store import CACHE
from tfapp.engines.credentials import new_credentials
from tfapp.engines.definition import Definition, of_the_user
from tfapp.engines.kubernetes.objects import left_out, objects, owned, run_objects
from tfapp.engines.kubernetes.pod import names, record
from tfapp.engines.kubernetes.pod.failures import ConflictError
from tfapp.engines.kubernetes.pod.record import RunRecord
from tfapp.engines.kubernetes.pods import Places
from tfapp.engines.kubernetes.run import WAIT_EVERY, Forwards, KubernetesRecord, KubernetesRun
from tfapp.errors import InUseError, UnavailableError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled
    from tfapp.engines.kubernetes.api import KubernetesCluster

SUBMISSION = "tfapp/submission"  # annotation: tells the record of one command from another's
LARGE = "large"  # key of the record: {SHA-256: file name} of those that no Secret holds
BEGIN_LIMIT = 600.0  # seconds for the master's pod to take files
GONE_LIMIT = 60.0  # seconds for what is deleted to be gone
FORGET_AFTER = 20.0  # seconds after which a pod that should end is on no node that lives
CALL_LIMIT = 60.0  # seconds in which something has to go over a connection
ATTEMPTS = 4
RECORD_LIMIT = 700_000  # bytes of a record beyond which its oldest runs are forgotten

_CHUNK = 1 << 20
_LOCAL = "file://"


@frozen
class LargeFile:
    """A file that is streamed to the master."""

    digest: str  # SHA-256
    path: Path


class KubernetesSubmission:
    """Creates and deletes applications. `home`: TFAPP_HOME. `clock`: seconds since 1970."""

    def __init__(
        self,
        cluster: KubernetesCluster,
        forwards: Forwards,
        home: Path,
        clock: Callable[[], float],
    ):
        self._cluster = cluster
        self._forwards = forwards
        self._home = home
        self._clock = clock

    def create(
        self,
        definition: Definition,
        compiled: Compiled,
        keep: Callable[[KubernetesRecord, Definition], None],
    ) -> KubernetesRecord:
        """Creates all objects of an application and its first run, and uploads the files that are
        in no Secret to its master. `keep` is called with the record before anything else is
        created. ExistsError if the name is taken; on any failure nothing is left behind."""
        run = self._run_record(definition, 1)
        at = places(compiled, self._cluster.namespace)
        data = {
            record.DEFINITION: record.text(definition),
            record.run_key(1): record.text(run),
            record.STATE: run.accepted.state,
        }
        first, *rest = objects(compiled, at, data, new_credentials(run.started))
        large = [
            LargeFile(digest, Path(source[len(_LOCAL) :]))
            for digest, source in left_out(compiled, rest).items()
        ]
        token = secrets.token_hex(8)
        first["metadata"]["annotations"][SUBMISSION] = token
        names_of_large = {file.digest: file.path.name for file in large}
        first["data"][LARGE] = json.dumps(names_of_large)
        try:
            made = self._cluster.create(first)
            found = KubernetesRecord.of(made)
            keep(found, definition)
            for other in rest:
                self._cluster.create(owned(other, made))
            return self._supplied(found, run, large)
        except BaseException:
            self._undo(definition.name, token)
            raise

    def start(
        self, found: KubernetesRecord, definition: Definition
    ) -> tuple[KubernetesRecord, int]:
        """Creates the next run of an application that has ended. Returns its record and the number
        of the run. InUseError if another command has started it; UnavailableError if a file that is
        in no Secret is not on this machine; on any failure nothing of the run is left behind."""
        number = found.runs()[-1] + 1
        large = self._large_files(found, definition)
        run = self._run_record(definition, number)
        text, before = record.text(run), found.data.get(record.STATE)
        values = {
            **dict.fromkeys(_forgotten(found)),
            record.run_key(number): text,
            record.STATE: run.accepted.state,
        }
        body = {"metadata": {"resourceVersion": found.version}, "data": values}
        try:
            try:
                changed = self._cluster.patch("ConfigMap", found.object_name, body)
            except ConflictError:
                raise InUseError(f"{found.name} was changed by another command") from None
            found = KubernetesRecord.of(changed)
            for item in self._run_objects(definition, run):
                self._cluster.create(owned(item, changed))
            return self._supplied(found, run, large), number
        except BaseException:
            self._undo_run(found, number, text, before)
            raise

    def supply(self, run: KubernetesRun, definition: Definition) -> None:
        """Sends the files that are in no Secret to a run's master. UnavailableError if one is not
        on this machine."""
        files = self._large_files(run.found, definition)
        Supply(run, self._forwards, {file.digest: file.path for file in files}).bring()

    def delete(self, found: KubernetesRecord) -> None:
        """Deletes the record and everything that it owns, itself or through others, and waits at
        most GONE_LIMIT seconds. Pods on a lost node are force-deleted after FORGET_AFTER."""
        self._cluster.delete("ConfigMap", found.object_name, foreground=True)
        labels = names.application_labels(found.name)
        began = time.monotonic()
        while time.monotonic() < began + GONE_LIMIT:
            item = self._cluster.get("ConfigMap", found.object_name)
            if item is not None and item["metadata"]["uid"] != found.uid:
                return
            pods = self._cluster.list("Pod", labels)
            if item is None and not pods and not self._cluster.list("ConfigMap", labels):
                return
            if time.monotonic() > began + FORGET_AFTER:
                for pod in pods:
                    self._cluster.delete("Pod", pod["metadata"]["name"], grace=0)
            time.sleep(WAIT_EVERY)

    def _run_record(self, definition: Definition, number: int) -> RunRecord:
        now = self._clock()
        return RunRecord(
            application=f"application_{int(now * 1000)}_{number:04d}",
            run=number,
            accepted=definition.accepted(now),
            started=now,
            namespace=self._cluster.namespace,
        )

    def _run_objects(self, definition: Definition, run: RunRecord) -> list[dict[str, Any]]:
        name = names.application_object(definition.name)
        secret = self._cluster.get("Secret", name)
        if secret is None:
            raise UnavailableError(
                f"what {definition.name} is made of is gone: there is no Secret {name}",
                f"`tfapp destroy {definition.name}` and create it anew.",
            )
        content = {key: base64.b64decode(value) for key, value in secret["data"].items()}
        tags = of_the_user(definition.tags)
        at = Places(definition.name, definition.user, self._cluster.namespace, run.run, tags=tags)
        return run_objects(content, at, new_credentials(run.started))

    def _supplied(
        self, found: KubernetesRecord, run: RunRecord, large: Sequence[LargeFile]
    ) -> KubernetesRecord:
        """The record, once the run's master has all files."""
        if not large:
            return found
        made = KubernetesRun(self._cluster, self._forwards, found, run.run, self._clock, self._home)
        Supply(made, self._forwards, {file.digest: file.path for file in large}).bring()
        return made.found

    def _undo(self, name: str, token: str) -> None:
        """Deletes the record that this command has created, if any, with everything that it
        owns."""
        object_name = names.application_object(name)
        item = self._cluster.get("ConfigMap", object_name)
        if item is None or item["metadata"].get("annotations", {}).get(SUBMISSION) != token:
            return
        self.delete(KubernetesRecord.of(item))

    def _undo_run(
        self, found: KubernetesRecord, number: int, text: str, before: str | None
    ) -> None:
        """Deletes what this command has created for a run. `before`: the recorded state."""
        item = self._cluster.get("ConfigMap", found.object_name)
        if item is None or (item.get("data") or {}).get(record.run_key(number)) != text:
            return
        name = names.run_object(found.name, number)
        self._cluster.delete("Job", name, foreground=True)
        self._cluster.delete("Secret", name)
        data = {**{key(number): None for key in record.KEYS}, record.STATE: before}
        self._cluster.patch("ConfigMap", found.object_name, {"data": data})

    def _large_files(
        self, found: KubernetesRecord, definition: Definition
    ) -> tuple[LargeFile, ...]:
        """The files to stream. UnavailableError if one is not on this machine."""
        wanted: Mapping[str, str] = json.loads(found.data.get(LARGE, "{}"))
        local = definition.local_files()
        files = []
        for digest, name in sorted(wanted.items()):
            candidates = [self._home / CACHE / name, *(p for p in local if p.name == name)]
            path = next((p for p in candidates if p.is_file() and sha256(p) == digest), None)
            if path is None:
                raise UnavailableError(
                    f"{name}, which {found.name} ships to its containers, is not on this machine",
                    "Start it where it was created, or destroy it and create it anew.",
                )
            files.append(LargeFile(digest, path))
        return tuple(files)


def places(compiled: Compiled, namespace: str) -> Places:
    """The first run of an application in a namespace."""
    spec = compiled.spec
    user = compiled.job.user
    return Places(spec.name, user, namespace, queue=spec.queue, tags=compiled.tags)


def sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _forgotten(found: KubernetesRecord) -> Iterator[str]:
    """The keys of the oldest runs in a record that becomes too large."""
    size = sum(len(value) for value in found.data.values())
    for number in found.runs()[:-1]:
        if size < RECORD_LIMIT:
            return
        for key in record.KEYS:
            size -= len(found.data.get(key(number), ""))
            yield key(number)


class Supply:
    """Uploads files to the master of a run, which requests them by their SHA-256. `files`: digest
    -> path."""

    def __init__(self, run: KubernetesRun, forwards: Forwards, files: Mapping[str, Path]):
        self._run = run
        self._forwards = forwards
        self._files = files

    def bring(self) -> None:
        """Returns once the master has all files. UnavailableError if it does not start, or has
        ended."""
        brought: set[str] = set()
        deadline = time.monotonic() + BEGIN_LIMIT
        while True:
            self._run.read()
            state = self._run.recorded.state
            if state is not None and state.files:
                for digest in state.missing:
                    if digest not in brought and digest in self._files:
                        self._put(state.pod, state.files, digest)
                        brought.add(digest)
                if not state.missing or brought >= set(state.missing):
                    return
            if self._run.settle():
                verdict = self._run.recorded.last_known.verdict
                raise UnavailableError(verdict.summary if verdict else "its master has ended")
            if time.monotonic() > deadline:
                waits = self._run.waiting()
                raise UnavailableError(
                    f"the master of {self._run.name} did not begin in {BEGIN_LIMIT:g} s"
                    f"{': ' if waits else ''}{waits}"
                )
            time.sleep(WAIT_EVERY)

    def _put(self, pod: str, address: str, digest: str) -> None:
        path = self._files[digest]
        for left in reversed(range(ATTEMPTS)):
            try:
                host, _, port = self._forwards.to(pod, address).rpartition(":")
                self._send(host.strip("[]"), int(port), digest, path)
                return
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, FileNotFoundError) or not left:
                    raise UnavailableError(
                        f"{path} could not be brought to the master's pod {pod}: {error}",
                        "`tfapp doctor --engine kubernetes` says whether ports may be forwarded.",
                    ) from error
                time.sleep(WAIT_EVERY)

    def _send(self, host: str, port: int, digest: str, path: Path) -> None:
        connection = http.client.HTTPSConnection(
            host, port, timeout=CALL_LIMIT, context=self._tls()
        )
        try:
            with path.open("rb") as file:
                size = str(path.stat().st_size)
                headers = {"Content-Length": size}
                connection.request("PUT", f"/files/{digest}", file, headers)
                answer = connection.getresponse()
                said = answer.read(1000).decode(errors="replace")
            if answer.status >= 300:
                raise http.client.HTTPException(f"{answer.status} {said}")
        finally:
            connection.close()

    def _tls(self) -> ssl.SSLContext:
        certificate, key = self._run.credentials()
        context = ssl.create_default_context(cadata=certificate.decode())
        context.check_hostname = False  # all of an application have this one certificate
        # ssl reads keys from files alone.
        with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:
            pem = Path(folder, "pem")
            pem.touch(0o600)
            pem.write_bytes(key + certificate)
            context.load_cert_chain(pem)
        return context
