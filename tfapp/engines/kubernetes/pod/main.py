"""The program of the master's pod: `python3 runtime.zip master`.

Environment: TFAPP_NAME, the application; TFAPP_RUN, the number of the run; TFAPP_POD_NAME and
TFAPP_POD_IP, its pod. It reads the application's Secret in /tfapp/app, the run's Secret in
/tfapp/run, and the record. The exit code is 0 if the application succeeded.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.job import Job, Limits
from tfapp.contract.names import FAILED, JOB_FILE, OWN_LINE
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.kubernetes import names
from tfapp.engines.kubernetes.pod import endings
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.launcher import PodLauncher, Run
from tfapp.engines.kubernetes.pod.record import PATIENCE, PodRecord
from tfapp.engines.kubernetes.pod.script import ScriptLauncher
from tfapp.engines.kubernetes.record import read_run
from tfapp.errors import TfappError, UnavailableError
from tfapp.frozen import frozen
from tfapp.master.ending import ending
from tfapp.master.files import FileServer
from tfapp.master.server import Application, Endpoint, Master
from tfapp.protocol.definition import messages

ROOT = Path("/tfapp")
FILES_LIMIT = 900.0  # seconds without anything of the files that are put here
OWN_POD_LIMIT = 5.0  # seconds to learn why this pod ends

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")

log = logging.getLogger(__name__)


@frozen
class Place:
    """The environment of the pod. `root`: the folder of its volumes."""

    name: str
    run: int
    pod: str
    address: str
    root: Path = ROOT

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Place:
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
        """The folder of the application's Secret."""
        return self.root / "app"

    @property
    def credentials(self) -> tuple[Path, Path]:
        """(certificate, key) of the run."""
        return self.root / "run" / "certificate", self.root / "run" / "key"

    @property
    def work(self) -> Path:
        """The working folder."""
        return self.root / "work"

    @property
    def received(self) -> Path:
        """The folder for files that are in no Secret."""
        return self.work / "files"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Serves the run until its end. Takes no arguments."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"{OWN_LINE}master: %(message)s"
    )
    logging.getLogger("tfapp.master.files").setLevel(logging.WARNING)  # each file of each container
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    try:
        place = Place.read(environ)
        return asyncio.run(serve(Api(environ), place, time.time))
    except TfappError as error:
        log.error("%s", f"{error.message} ({error.hint})" if error.hint else error.message)
        return 1


async def serve(api: Api, place: Place, clock: Callable[[], float]) -> int:
    """Serves the run and always writes its ending. TfappError if that fails."""
    record = PodRecord(api, names.application_object(place.name), place.run, place.pod)
    try:
        data = await asyncio.to_thread(record.read)
        known = read_run(data, place.run).record
        user = json.loads(data["definition"])["user"]
    except (KeyError, ValueError, TypeError) as error:
        raise UnavailableError(f"the application's record is damaged: {error!r}") from error
    try:
        await _serve(api, place, record, known.application, user, known.accepted, clock)
    except (TfappError, OSError) as error:
        await asyncio.to_thread(record.ended, _failed(str(error), known.accepted, clock()))
        raise error if isinstance(error, TfappError) else UnavailableError(str(error)) from error
    except Exception as error:
        log.exception("the master has failed")
        said = f"The application master has failed: {error!r}"
        await asyncio.to_thread(record.ended, _failed(said, known.accepted, clock()))
        return 1
    return 0 if record.succeeded else 1


def _failed(message: str, accepted: ApplicationStatus, now: float) -> Any:
    return ending(FAILED, message, accepted, now)


async def _serve(
    api: Api,
    place: Place,
    record: PodRecord,
    application: str,
    user: str,
    accepted: ApplicationStatus,
    clock: Callable[[], float],
) -> None:
    certificate, key = place.credentials
    listen = "::" if ":" in place.address else "0.0.0.0"
    endpoint = Endpoint(listen, place.address, certificate.read_bytes(), key.read_bytes())
    own = await asyncio.to_thread(api.call, "GET", api.path("pods", place.pod), None, PATIENCE)
    terminated = Termination(api, place)
    with FileServer(endpoint, stay=True) as files:
        spec = await terminated.unless(_with_files(place, files, record))
        pods = json.loads((place.app / "pods").read_text())
        run = Run(place.name, place.run, _owner(own), pods, _heartbeat(spec))
        script = ScriptLauncher(files, certificate, key, place.work, place.address)
        launcher = PodLauncher(api, run, files, script)
        launcher.start()
        master = Master(
            Application(application, user, spec, accepted), endpoint, launcher, record, clock
        )
        terminated.tell(lambda why: master.end(FAILED, why))
        await master.serve(lambda address: None)


class Termination:
    """The termination of this pod from outside, announced by SIGTERM. Create it in the event
    loop."""

    def __init__(self, api: Api, place: Place):
        self._api = api
        self._path = api.path("pods", place.pod)
        self._why: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task | None = None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._begin)

    async def unless(self, work: Any) -> Any:
        """The result of `work`. UnavailableError if the pod is terminated before."""
        doing = asyncio.ensure_future(work)
        await asyncio.wait({doing, self._why}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            raise UnavailableError(self._why.result())
        return doing.result()

    def tell(self, end: Callable[[str], None]) -> None:
        """Calls `end` with the reason of the termination."""
        self._why.add_done_callback(lambda why: end(why.result()))

    def _begin(self) -> None:
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> None:
        why = ""
        try:
            asked = asyncio.to_thread(self._api.call, "GET", self._path)
            why = endings.own_end(await asyncio.wait_for(asked, OWN_POD_LIMIT))
        except (TfappError, asyncio.TimeoutError) as error:
            log.error("why this pod ends cannot be learned: %s", error)
        self._why.set_result(f"The application master was ended: {why or 'by SIGTERM'}.")


# ---- The files of the spec --------------------------------------------------------------------


async def _with_files(place: Place, files: FileServer, record: PodRecord) -> bytes:
    """Skein's ApplicationSpec, serialized, once all of its files have arrived. Their names, which
    are SHA-256 digests, are replaced by paths in this pod."""
    spec = messages.ApplicationSpec.FromString((place.app / "spec").read_bytes())
    digests = {_digest(file) for file in _files(spec)} - {""}
    missing = {digest for digest in digests if not (place.app / digest).exists()}
    place.received.mkdir(mode=0o700, exist_ok=True)
    if missing:

        async def changed(left: tuple[str, ...]) -> None:
            log.info("waits for %d files", len(left))
            await asyncio.to_thread(record.waiting, files.address, left)

        await files.receive(missing, place.received, changed, FILES_LIMIT)
    for file in _files(spec):
        digest = _digest(file)
        if digest:
            file.source.file = str((place.received if digest in missing else place.app) / digest)
    return spec.SerializeToString()


def _files(spec: Any) -> Iterator[Any]:
    for part in (spec.master, *spec.services.values()):
        yield from part.files.values()


def _digest(file: Any) -> str:
    """The SHA-256 in the name of a file; "" for a file from elsewhere."""
    name = str(file.source.file).rpartition("/")[2]
    return name if file.source.scheme in ("", "file") and _DIGEST.match(name) else ""


def _heartbeat(spec: bytes) -> float:
    """The interval of the runners' heartbeats, in seconds."""
    files = messages.ApplicationSpec.FromString(spec).master.files
    if JOB_FILE not in files:
        return Limits.heartbeat
    job = Job.from_dict(json.loads(Path(files[JOB_FILE].source.file).read_bytes()))
    return job.limits.heartbeat


def _owner(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The name and the uid of the Job of the master's pod."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        if owner["kind"] == "Job":
            return {"name": owner["name"], "uid": owner["uid"]}
    raise UnavailableError(f"the pod {pod['metadata']['name']} is of no Job")
