"""What is shipped to the master's pod: its environment, the application's Secret, and the files
that are too large for it."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp.contract.job import Job, Limits
from tfapp.contract.names import JOB_FILE
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.kubernetes.pod.pod_record import PodRecord
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen
from tfapp.master.files import FileServer
from tfapp.protocol.definition import messages
from tfapp.threads import in_thread

ROOT = Path("/tfapp")

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


async def with_files(
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


def is_missing(place: PodFolders, part: Any) -> bool:
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


def resize(spec: Any, earlier: ApplicationStatus) -> None:
    """Gives `spec` as many instances as there were before the suspension."""
    counts = Counter(instance.component for instance in earlier.instances)
    if counts:
        for name, service in spec.services.items():
            service.instances = counts[name]
