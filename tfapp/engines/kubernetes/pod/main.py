"""The program of the master's pod: `python3 runtime.zip engines.kubernetes.pod`. It is the parent
of masters (see tfapp.master.parent): when one is lost, the next one in this pod goes on with the
same pods of instances, by its journal. When the pod is lost, the master in the next pod of the Job
does so by the copy of the journal (see `outside`).

Environment: TFAPP_NAME, the application; TFAPP_RUN, the number of the run; TFAPP_POD_NAME and
TFAPP_POD_IP, its pod. It reads the application's Secret in /tfapp/app, the run's Secret in
/tfapp/run, and the record. The exit code is 0 if the application succeeded.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.encoding import Coded, encode
from tfapp.contract.names import (
    ACCEPTED,
    ENV_MASTER_TIMEOUT,
    ENV_WITNESS,
    FAILED,
    KEY_KEPT,
    OWN_LINE,
)
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.earlier import alone, bury, testify
from tfapp.engines.kubernetes.pod.events import Events
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.engines.kubernetes.pod.launcher import PodLauncher, PodRun
from tfapp.engines.kubernetes.pod.outside import Outside, table_of
from tfapp.engines.kubernetes.pod.pod_record import PATIENCE, RECORD, PodRecord
from tfapp.engines.kubernetes.pod.record import RecordedRun, RunRecord, RunState, read_run
from tfapp.engines.kubernetes.pod.script import ScriptLauncher
from tfapp.engines.kubernetes.pod.shipped import (
    ROOT,
    PodFolders,
    Shipped,
    is_missing,
    resize,
    with_files,
)
from tfapp.engines.kubernetes.pod.termination import LeftError, Termination, ends_with_its_pod
from tfapp.engines.kubernetes.pod.transport import PodApi
from tfapp.errors import TfappError, UnavailableError
from tfapp.frozen import frozen
from tfapp.master.children import ParentLine
from tfapp.master.ending import ending
from tfapp.master.files import FileServer
from tfapp.master.journal import Journal, Kept, Memory, read_kept
from tfapp.master.launcher import SupersededError, container_id
from tfapp.master.parent import AGAIN, NO_MORE, Parent, Turn
from tfapp.master.server import Endpoint, Master, ServedApplication
from tfapp.master.store import StoreEntry
from tfapp.threads import in_thread

FILES_LIMIT = 900.0  # seconds without anything of the files that are put here
OWNER_LIMIT = 3.0  # seconds to make the owner of the pods
PORTS = "port", "files"  # those of a run's masters: of gRPC, of files
BEGUN = "pod", "begun"  # the place of Begun in a journal

log = logging.getLogger(__name__)


@frozen
class Begun(Coded):
    """What a master knows when it begins to serve. It is in its journal, so that the next one in
    this pod needs no API server to begin. `owner`: of its pods. `job`: a reference to its own.
    `another`: see ServedApplication. `attempt`: of the master with which the containers began.
    `uid`: of the application's record."""

    record: RunRecord
    state: RunState
    user: str
    owner: Mapping[str, Any]
    job: Mapping[str, Any]
    another: bool
    attempt: int = 1
    uid: str = ""

    @property
    def containers(self) -> str:
        """What the ids of the containers begin with."""
        return container_id(self.record.application, 0, self.attempt).rpartition("_")[0]


@frozen
class Before:
    """What there was before this master. `earlier`, `lost`, `why`: see ServedApplication. `kept`:
    of the one with whose pods it goes on."""

    earlier: ApplicationStatus | None = None
    lost: bool = False
    kept: Kept | None = None
    why: str = ""


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Has masters serve the run until its end, one after another. Takes no arguments."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"{OWN_LINE}master: %(message)s"
    )
    logging.getLogger("tfapp.master.files").setLevel(logging.WARNING)  # each file of each container
    os.umask(0o077)
    probe = Path(environ.get("TFAPP_ROOT", ROOT)) / "work" / names.PROBE
    probe.mkdir(parents=True, exist_ok=True)
    parent = Parent(passes_on=True, question=probe / names.QUESTION)
    return parent.keep(lambda turn: _serve(turn, ParentLine.of(turn, parent), environ))


def _serve(turn: Turn, parent: ParentLine, environ: Mapping[str, str]) -> int:
    """In the process of a master."""
    try:
        place = PodFolders.read(environ)
        return asyncio.run(PodMaster(PodApi(environ), place, time.time, turn, parent).serve())
    except TfappError as error:
        log.error("%s", f"{error.message} ({error.hint})" if error.hint else error.message)
        return 1


class PodMaster:
    """A master in its pod, for one call of `serve`. `clock`: seconds since 1970."""

    def __init__(
        self,
        api: Api,
        place: PodFolders,
        clock: Callable[[], float],
        turn: Turn,
        parent: ParentLine,
    ):
        self._api = api
        self._place = place
        self._clock = clock
        self._turn = turn
        self._parent = parent
        self._record = PodRecord(api, place.name, place.run, place.pod)
        self._shipped = Shipped.read(place)

    async def serve(self) -> int:
        """Serves the run and writes its ending, unless its Job is suspended or starts another
        master. A run that has an ending is left alone. Returns an exit code. TfappError if that
        fails."""
        if self._turn.lost >= self._shipped.attempts:
            return NO_MORE
        beating = asyncio.ensure_future(self._parent.beat()) if self._shipped.keeps else None
        kept = read_kept(self._place.journal) if self._turn.killed else None
        try:
            if kept is not None:
                begun = Begun.from_dict(kept.table[BEGUN])
                accepted, serving = begun.record.accepted, self._go_on(begun, kept)
            else:
                data = await in_thread(self._record.read)
                known = read_run(data, self._place.run)
                user = json.loads(data["definition"])["user"]
                accepted, serving = known.record.accepted, self._begin(known, user)
        except (KeyError, ValueError, TypeError) as error:
            raise UnavailableError(f"the application's record is damaged: {error!r}") from error
        try:
            await serving
        except (LeftError, SupersededError) as error:
            log.info("%s", error)
        except (TfappError, OSError) as error:
            await self._fail(str(error), accepted)
            if isinstance(error, TfappError):
                raise
            raise UnavailableError(str(error)) from error
        except Exception as error:
            log.exception("the master has failed")
            await self._fail(f"The application master has failed: {error!r}", accepted)
            return 1
        finally:
            if beating is not None:
                beating.cancel()
        return 0 if self._record.succeeded else 1

    async def _fail(self, why: str, accepted: ApplicationStatus) -> None:
        await in_thread(self._record.ended, ending(FAILED, why, accepted, self._clock()))

    async def _go_on(self, begun: Begun, kept: Kept) -> None:
        """Goes on with the pods of a master that was lost in this pod."""
        log.info("the master was lost; this one goes on with its pods")
        self._record.goes_on(begun.state)
        outside = self._outside(begun.uid, begun.state.attempt) if begun.uid else None
        terminated = Termination(self._api, self._place)
        await self._serve(begun, Before(kept=kept), terminated, outside)

    def _outside(self, uid: str, epoch: int = 0) -> Outside:
        place = self._place
        name = names.application_object(place.name)
        owner = {"apiVersion": "v1", "kind": RECORD, "name": name, "uid": uid}
        return Outside(self._api, place.name, place.run, owner, epoch)

    def _claim(self, outside: Outside, least: int) -> bytes | None:
        """What is in the copy of the journal, once it is this master's. None if pods do not outlive
        that of their master."""
        try:
            return outside.claim(least)
        except AwayError as error:
            raise UnavailableError(f"the run cannot be claimed: {error}") from error
        except SupersededError:
            raise
        except TfappError as error:
            log.error("programs do not outlive this pod, of which nothing may be kept: %s", error)
            return None

    def _left(self, known: RecordedRun, journal: bytes) -> tuple[Begun, Kept] | None:
        """What the master of another pod, which was lost, has left to go on with."""
        gone = known.state is not None and known.state.pod != self._place.pod
        over = known.stop is not None or known.last_known.verdict is not None
        if not gone or over:
            return None
        try:
            kept = Kept.of(table_of(journal))
            return (Begun.from_dict(kept.table[BEGUN]), kept) if kept.started else None
        except (KeyError, ValueError, TypeError) as error:
            log.error("what the lost master knew cannot be read: %r", error)
            return None

    async def _begin(self, known: RecordedRun, user: str) -> None:
        api, place, record = self._api, self._place, self._record
        own = await in_thread(api.require, "Pod", place.pod, PATIENCE)
        terminated = Termination(api, place)
        attempt, before = 1, Before()
        job = await in_thread(_job, api, place)
        since = job.get("status", {}).get("startTime", "")
        outside: Outside | None = None
        journal: bytes | None = None
        if known.ending is None:
            attempt = known.state.attempt + 1 if known.state is not None else 1
            if self._shipped.keeps and ENV_WITNESS in (place.app / "pods").read_text():
                claimed = self._outside(record.uid)
                journal = await terminated.unless(in_thread(self._claim, claimed, attempt))
                if journal is not None:
                    outside, attempt = claimed, claimed.epoch
        if known.state is not None and known.ending is None:
            lost = since == known.state.since != ""
            why = await in_thread(_why_lost, api, known.state.pod)
            left = self._left(known, journal) if lost and journal is not None else None
            if left is not None and outside is not None:
                await in_thread(record.begins, attempt, since, True)
                begun, kept = left
                another = endings.failures_left(job) > 0
                begun = dataclasses.replace(begun, state=record.state, another=another)
                log.info("a master was lost with its pod; this one goes on with the same programs")
                await self._serve(begun, Before(None, False, kept, why), terminated, outside, True)
                return
            told = False
            if outside is not None:
                of = known.record.application
                others = container_id(of, 0, attempt).rpartition("_")[0]
                told = await terminated.unless(testify(outside, others))
            limits = self._shipped.limits
            more = limits.master if known.state.outlived and not told else 0.0
            check = outside.check if outside is not None else alone
            await terminated.unless(bury(api, place, limits, more, check))
            known = read_run(await in_thread(record.read), place.run)
            earlier = known.status
            if not lost:
                earlier = dataclasses.replace(known.last_known, state=ACCEPTED)
                resize(self._shipped.spec, earlier)
            before = Before(earlier, lost, why=why)
        if (
            known.ending is not None
            or known.stop is not None
            or known.last_known.verdict is not None
        ):
            log.info("the run has ended: it is not started")
            await in_thread(record.ended, ending(FAILED, "", known.last_known, self._clock()))
            return
        await in_thread(record.begins, attempt, since, outside is not None)
        begun = Begun(
            known.record,
            record.state,
            user,
            await in_thread(_owner, api, place, own),
            _job_of(own),
            endings.failures_left(job) > 0,
            attempt,
            record.uid if outside is not None else "",
        )
        await self._serve(begun, before, terminated, outside, True)

    async def _serve(
        self,
        begun: Begun,
        before: Before,
        terminated: Termination,
        outside: Outside | None,
        first: bool = False,
    ) -> None:
        """`first`: whether it is the first master in this pod."""
        place, shipped, parent, record = self._place, self._shipped, self._parent, self._record
        certificate, key = place.credentials
        listen = "::" if ":" in place.address else "0.0.0.0"
        reserved = (parent.reserve(what, listen) if shipped.keeps else 0 for what in PORTS)
        port, files_port = reserved
        endpoint = Endpoint(listen, place.address, certificate.read_bytes(), key.read_bytes(), port)
        record.tells(
            Events(self._api, names.run_object(place.name, place.run), begun.job["uid"], place.pod)
        )
        attempt, kept = begun.attempt, before.kept
        goes_on = kept is not None
        tasks: list[asyncio.Future[Any]] = []
        with FileServer(endpoint, stay=True, port=files_port, later=goes_on) as files:
            limit = FILES_LIMIT if not goes_on and (attempt == 1 or before.lost) else math.inf
            receiving = with_files(place, shipped.spec, files, record, limit)
            if goes_on and not is_missing(place, shipped.spec.master):
                tasks.append(asyncio.ensure_future(receiving))  # programs go on without them
                await asyncio.sleep(0)
            else:
                await terminated.unless(receiving)
            if outside is not None and first:
                addresses = endpoint.address, files.address
                await terminated.unless(testify(outside, begun.containers, *addresses))
            limits = shipped.limits
            pods = json.loads((place.app / "pods").read_text())
            run = PodRun(
                place.name,
                place.run,
                begun.owner,
                pods,
                limits.heartbeat,
                attempt,
                shipped.least,
            )
            more = {ENV_MASTER_TIMEOUT: f"{limits.master:g}"} if shipped.keeps else {}
            script = ScriptLauncher(
                files, certificate, key, place.work, place.address, parent, more
            )
            if not goes_on:
                await script.clear()
            launcher = PodLauncher(self._api, run, files, script, kept.begun if kept else ())
            launcher.start()
            application = ServedApplication(
                begun.record.application,
                begun.user,
                shipped.spec.SerializeToString(),
                begun.record.accepted,
                before.earlier,
                attempt,
                before.lost,
                another=begun.another,
                coordinators=shipped.attempts,
                why=before.why,
            )
            memory = None
            if shipped.keeps:
                journal = Journal(place.journal, kept.table if kept else {}, outside)
                files.kept = launcher.kept = lambda: journal.pending
                state = dataclasses.replace(record.state, address=endpoint.address)
                journal.put(*BEGUN, json.loads(encode(dataclasses.replace(begun, state=state))))

                def leaves() -> None:
                    superseded = outside is not None and outside.is_superseded
                    whole = outside is not None and outside.is_complete
                    launcher.stay = whole or superseded or record.is_superseded

                memory = Memory(journal, kept, launcher, leaves)
            master = Master(application, endpoint, launcher, record, self._clock, memory)
            if outside is not None:
                entries = kept.entries if kept else ()
                outside.is_complete = not any(e == StoreEntry(KEY_KEPT, b"false") for e in entries)
                outside.superseded = lambda: master.leave("another master has the run")
                outside.told = master.keeps
                launcher.check = outside.check
                launcher.lives = functools.partial(outside.lives_until, limits)
                tasks += map(asyncio.ensure_future, (outside.keep(), outside.renew()))
            if shipped.keeps:
                tasks.append(asyncio.ensure_future(_lasts(record, shipped.attempts)))

            tasks.append(ends_with_its_pod(terminated, master, launcher, limits.stop_grace))
            # Pods that are about to begin may not hear that nobody knows them.
            try:
                over = await master.serve(lambda address: files.begin() if goes_on else None)
            finally:
                for task in tasks:
                    task.cancel()
            if over and outside is not None:
                await in_thread(outside.forget)


def _why_lost(api: Api, pod: str) -> str:
    """Why the master in `pod` was lost, where a user could prevent it; else ""."""
    with contextlib.suppress(TfappError):
        found = api.get("Pod", pod)
        ended = None if found is None else endings.ended(found)
        if found is not None and ended is not None and ended.reason == "memory":
            return endings.master_memory(found)
    return ""


def _job(api: Api, place: PodFolders) -> dict[str, Any]:
    """The Job of this master; empty without the right to read it."""
    try:
        return api.require("Job", names.run_object(place.name, place.run), PATIENCE)
    except TfappError as error:
        log.error("the Job cannot be read: %s", error)
        return {}


async def _lasts(record: PodRecord, attempts: int) -> None:
    """A pod that has lasted may be lost as if it were the first one."""
    while True:
        await asyncio.sleep(AGAIN)
        try:
            await in_thread(record.lasts, attempts)
        except TfappError as error:
            log.error("the Job counts the masters of long ago, too: %s", error)


def _job_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The reference to the Job that owns a pod."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        if owner["kind"] == "Job":
            return owner
    raise UnavailableError(f"the pod {pod['metadata']['name']} is of no Job")


def _owner(api: Api, place: PodFolders, pod: Mapping[str, Any]) -> dict[str, Any]:
    """The owner of the pods of instances: an empty ConfigMap that goes with the Job of the master's
    `pod`. As pods with a controller they can be drained, which a Job that counts its pods cannot
    be. Without the right to make it, the Job itself owns them, and they have no controller."""
    job = _job_of(pod)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["name"], "uid": job["uid"]}
    anchor = {"apiVersion": "v1", "kind": "ConfigMap"}
    metadata = {
        "name": place.pod,
        "labels": names.run_labels(place.name, place.run),
        "ownerReferences": [owner],
    }
    try:
        made = api.make({**anchor, "metadata": metadata}, OWNER_LIMIT)
    except TfappError as error:
        log.error("the pods get no controller, `kubectl drain` will refuse them: %s", error)
        return owner
    return {**anchor, "name": place.pod, "uid": made["metadata"]["uid"], "controller": True}
