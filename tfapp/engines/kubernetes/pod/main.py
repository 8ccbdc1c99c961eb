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
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.encoding import Coded, encode
from tfapp.contract.job import Job, Limits
from tfapp.contract.names import (
    ACCEPTED,
    ENV_MASTER_TIMEOUT,
    ENV_WITNESS,
    FAILED,
    JOB_FILE,
    KEY_KEPT,
    OWN_LINE,
    SUSPENDED,
)
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.events import Events
from tfapp.engines.kubernetes.pod.failures import AwayError
from tfapp.engines.kubernetes.pod.launcher import PodLauncher, PodRun, release
from tfapp.engines.kubernetes.pod.outside import Outside, table_of
from tfapp.engines.kubernetes.pod.pod_record import PATIENCE, RECORD, PodRecord
from tfapp.engines.kubernetes.pod.record import RecordedRun, RunRecord, RunState, read_run
from tfapp.engines.kubernetes.pod.script import ScriptLauncher
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
from tfapp.protocol.definition import messages
from tfapp.threads import in_thread

ROOT = Path("/tfapp")
FILES_LIMIT = 900.0  # seconds without anything of the files that are put here
OWN_POD_LIMIT = 5.0  # seconds to learn why this pod ends
ASK_EVERY = 0.3
OWNER_LIMIT = 3.0  # seconds to make the owner of the pods
BURY_MARGIN = 10.0  # seconds for pods of earlier masters to be gone
MASTER_FIRST = 10.0  # seconds for an earlier master to be gone, before its pods are ended
PORTS = "port", "files"  # those of a run's masters: of gRPC, of files
BEGUN = "pod", "begun"  # the place of Begun in a journal

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")

log = logging.getLogger(__name__)


@frozen
class PodFolders:
    """The environment of the pod. `root`: the folder of its volumes."""

    name: str
    run: int
    pod: str
    address: str
    root: Path = ROOT

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> PodFolders:
        """UnavailableError when a variable is missing."""
        try:
            return cls(
                environ["TFAPP_NAME"],
                int(environ["TFAPP_RUN"]),
                environ["TFAPP_POD_NAME"],
                environ["TFAPP_POD_IP"],
                Path(environ.get("TFAPP_ROOT", ROOT)),
            )
        except (KeyError, ValueError) as error:
            raise UnavailableError(f"this pod was not made by tfapp: {error}") from error

    @property
    def app(self) -> Path:
        return self.root / "app"

    @property
    def credentials(self) -> tuple[Path, Path]:
        """(certificate, key) of the run."""
        return self.root / "run" / "certificate", self.root / "run" / "key"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def journal(self) -> Path:
        return self.work / "journal"

    @property
    def received(self) -> Path:
        """The folder for files that are in no Secret."""
        return self.work / "files"


@frozen
class Shipped:
    """What the application's Secret says of it: Skein's ApplicationSpec, its deadlines, how many
    masters it may have, and `least`: see PodRun."""

    spec: Any
    limits: Limits = Limits(0.0, 0.0, 0.0, 0.0)
    attempts: int = 1
    least: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, place: PodFolders) -> Shipped:
        """UnavailableError."""
        try:
            spec = messages.ApplicationSpec.FromString((place.app / "spec").read_bytes())
            if JOB_FILE not in spec.master.files:
                return cls(spec)
            file = place.app / _digest(spec.master.files[JOB_FILE])
            job = Job.from_dict(json.loads(file.read_bytes()))
        except OSError as error:
            raise UnavailableError(f"the application's Secret cannot be read: {error}") from error
        least = {c.name: c.elastic_min for c in job.components if c.elastic_min}
        return cls(spec, job.limits, job.attempts, least)

    @property
    def keeps(self) -> bool:
        """Whether pods outlive a master."""
        return self.attempts > 1


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
    """What there was before this master. `earlier`, `lost`: see ServedApplication. `kept`: of the
    one with whose pods it goes on."""

    earlier: ApplicationStatus | None = None
    lost: bool = False
    kept: Kept | None = None


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
            left = self._left(known, journal) if lost and journal is not None else None
            if left is not None and outside is not None:
                await in_thread(record.begins, attempt, since, True)
                begun, kept = left
                another = endings.failures_left(job) > 0
                begun = dataclasses.replace(begun, state=record.state, another=another)
                log.info("a master was lost with its pod; this one goes on with the same programs")
                await self._serve(begun, Before(kept=kept), terminated, outside, True)
                return
            told = False
            if outside is not None:
                of = known.record.application
                others = container_id(of, 0, attempt).rpartition("_")[0]
                told = await terminated.unless(_testify(outside, others))
            limits = self._shipped.limits
            more = limits.master if known.state.outlived and not told else 0.0
            check = outside.check if outside is not None else _alone
            await terminated.unless(_bury(api, place, limits, more, check))
            known = read_run(await in_thread(record.read), place.run)
            earlier = known.status
            if not lost:
                earlier = dataclasses.replace(known.last_known, state=ACCEPTED)
                _resize(self._shipped.spec, earlier)
            before = Before(earlier, lost)
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
            receiving = _with_files(place, shipped.spec, files, record, limit)
            if goes_on and not _missing(place, shipped.spec.master):
                tasks.append(asyncio.ensure_future(receiving))  # programs go on without them
                await asyncio.sleep(0)
            else:
                await terminated.unless(receiving)
            if outside is not None and first:
                addresses = endpoint.address, files.address
                await terminated.unless(_testify(outside, begun.containers, *addresses))
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

            tasks.append(_ends_with_its_pod(terminated, master, launcher, limits.stop_grace))
            # Pods that are about to begin may not hear that nobody knows them.
            try:
                over = await master.serve(lambda address: files.begin() if goes_on else None)
            finally:
                for task in tasks:
                    task.cancel()
            if over and outside is not None:
                await in_thread(outside.forget)


class LeftError(TfappError):
    """This master ends before it served, and another one goes on: its Job was suspended, or starts
    one."""


class Termination:
    """The termination of this pod from outside, announced by SIGTERM. Create it in the event
    loop. The Job tells what it is: a suspension (the Job's controller ends the pods of a suspended
    Job), the loss of this master, after which the Job starts another one, or the end of the run.
    While that is not known, it is taken for a loss: an ending that is missing is written by whoever
    finds that the Job has ended."""

    def __init__(self, api: Api, place: PodFolders):
        self._api = api
        self._pod = place.pod
        self._job = names.run_object(place.name, place.run)
        self._end: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task[Any] | None = None
        self._begins: Callable[[], None] = lambda: None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._begin)

    async def unless(self, work: Any) -> Any:
        """The result of `work`. UnavailableError or LeftError if the pod is terminated before."""
        doing = asyncio.ensure_future(work)
        await asyncio.wait({doing, self._end}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            state, why = self._end.result()
            raise UnavailableError(why) if state == FAILED else LeftError(why)
        return doing.result()

    def tell(self, begins: Callable[[], None], end: Callable[[str, str], None]) -> None:
        """Calls `begins` at once, and `end` with the state of the run, SUSPENDED, FAILED or "" if
        another master goes on, and the reason, when they are known."""
        self._begins = begins
        if self._asking is not None:
            begins()
        self._end.add_done_callback(lambda told: end(*told.result()))

    def _begin(self) -> None:
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())
            self._begins()

    async def _ask(self) -> None:
        why, state = "", None
        until = time.monotonic() + OWN_POD_LIMIT
        while state is None and time.monotonic() < until:
            try:
                pod = await self._get("Pod", self._pod)
                why = endings.own_end(pod or {}) or why
                state = _state_after(await self._get("Job", self._job))
            except (AwayError, asyncio.TimeoutError) as error:
                log.error("why this pod ends cannot be learned: %s", error)
            except TfappError as error:  # a service account without the right to get Jobs
                log.error("whether the Job goes on cannot be learned: %s", error)
                state = ""
            if state is None:
                await asyncio.sleep(ASK_EVERY)
        told = f"The application master was ended: {why or 'by SIGTERM'}."
        if state == SUSPENDED:
            told = "the application is suspended"
        self._end.set_result((state or "", told))

    async def _get(self, kind: str, name: str) -> dict[str, Any] | None:
        return await asyncio.wait_for(in_thread(self._api.get, kind, name), OWN_POD_LIMIT)


def _ends_with_its_pod(
    terminated: Termination, master: Master, launcher: PodLauncher, grace: float
) -> asyncio.Future[None]:
    """Has the master end as its pod is terminated. Cancel what is returned in the end."""
    ended: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def begins() -> None:  # others end with this pod, which are no losses
        launcher.leave()
        master.leaves()

    async def end() -> None:
        state, why = await ended
        if state != FAILED:
            launcher.grace = grace
        if state == SUSPENDED:
            await master.suspend(why, grace)
        else:
            master.end(state, why)

    terminated.tell(begins, lambda *how: ended.set_result(how))
    return asyncio.ensure_future(end())


def _state_after(job: Mapping[str, Any] | None) -> str | None:
    """The state of a run after the end of its master's pod, "" if another master goes on; None if
    the Job does not tell yet."""
    if job is None or endings.has_ended(job) or "deletionTimestamp" in job["metadata"]:
        return FAILED
    if endings.is_suspended(job):
        return SUSPENDED
    return "" if endings.failures_left(job) > 0 else None


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


async def _testify(outside: Outside, *told: str) -> bool:
    """See Outside.testify. Returns False if it may not. UnavailableError, SupersededError."""
    try:
        await in_thread(outside.testify, *told)
    except (AwayError, SupersededError):
        raise
    except TfappError as error:
        log.error("programs have no witness when this pod is lost: %s", error)
        return False
    return True


def _alone() -> None:
    """As Outside.check, where no master can know of another one."""


async def _bury(
    api: Api, place: PodFolders, limits: Limits, more: float, check: Callable[[], None]
) -> None:
    """Ends the pods of earlier masters of this run, and waits for their end; not longer than
    runners which cannot reach their master let a program run. A master that still ends has the
    first moments for itself: it ends its pods, and gives their programs time to save. `more`:
    seconds that runners may live by a witness that could not be changed. `check`: see
    Outside.check."""
    labels = names.run_labels(place.name, place.run)
    fence = limits.heartbeat_lost + 2 * limits.heartbeat if limits.heartbeat_lost else math.inf
    begun = time.monotonic()
    until = begun + max(fence, limits.stop_grace, more) + BURY_MARGIN
    told: set[str] = set()
    while True:
        pods = await in_thread(api.list, "Pod", labels, "", PATIENCE)
        ends = [(pod, endings.ended(pod)) for pod in pods if pod["metadata"]["name"] != place.pod]
        living = [pod["metadata"] for pod, ended in ends if ended is None]
        for pod, ended in ends:
            if ended is not None and ended.reason == "node-lost":
                await in_thread(release, api, pod)
        now = time.monotonic()
        if not living or now > until:
            return
        masters = [each for each in living if _is_master(each)]
        for each in masters if now < begun + MASTER_FIRST and masters else living:
            name = each["name"]
            if name in told:
                continue
            try:
                await in_thread(check)
            except AwayError:
                continue
            log.info("waits for the end of pod %s, of an earlier master", name)
            told.add(name)
            if "deletionTimestamp" not in each and not _is_master(each):
                with contextlib.suppress(TfappError):
                    await in_thread(api.delete, "Pod", name)
        await asyncio.sleep(ASK_EVERY)


def _is_master(metadata: Mapping[str, Any]) -> bool:
    return metadata["labels"].get(names.COMPONENT) == names.MASTER_COMPONENT


async def _with_files(
    place: PodFolders, spec: Any, files: FileServer, record: PodRecord, limit: float
) -> None:
    """Returns when all files of `spec`, Skein's ApplicationSpec, have arrived. Their names, which
    are SHA-256 digests, are replaced by paths in this pod. `limit`: seconds for the next file."""
    digests = {_digest(file) for file in _files(spec)} - {""}
    large = {digest for digest in digests if not (place.app / digest).exists()}
    place.received.mkdir(mode=0o700, exist_ok=True)
    missing = {digest for digest in large if not (place.received / digest).exists()}
    for file in _files(spec):
        digest = _digest(file)
        if digest:
            file.source.file = str((place.received if digest in large else place.app) / digest)
    if missing:

        async def changed(left: tuple[str, ...]) -> None:
            log.info("waits for %d files", len(left))
            await in_thread(record.waiting, files.address, left)

        await files.receive(missing, place.received, changed, limit)


def _missing(place: PodFolders, part: Any) -> bool:
    """Whether a file of a part of Skein's ApplicationSpec is not here yet."""
    digests = {_digest(file) for file in part.files.values()} - {""}
    return not all(
        (place.app / digest).exists() or (place.received / digest).exists() for digest in digests
    )


def _files(spec: Any) -> Iterator[Any]:
    for part in (spec.master, *spec.services.values()):
        yield from part.files.values()


def _digest(file: Any) -> str:
    """The SHA-256 in the name of a file; "" for a file from elsewhere."""
    name = str(file.source.file).rpartition("/")[2]
    return name if file.source.scheme in ("", "file") and _DIGEST.match(name) else ""


def _resize(spec: Any, earlier: ApplicationStatus) -> None:
    """Gives `spec` as many instances as there were before the suspension."""
    counts = Counter(instance.component for instance in earlier.instances)
    if counts:
        for name, service in spec.services.items():
            service.instances = counts[name]


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
