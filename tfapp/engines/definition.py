"""The definition of an application, stored for further runs: definition.json; and its tags: the
user's, and tfapp's own, one of which names the definition."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.contract.encoding import Coded
from tfapp.contract.job import Job
from tfapp.contract.names import ACCEPTED, REQUESTED, instance_id
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.refusals import CRASH, read_kept, undamaged
from tfapp.errors import UsageError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled
    from tfapp.skein_library import skein

_LOCAL = "file://"

TAG = "tfapp"  # every application of tfapp

# YARN's limit for an application, less what tfapp needs.
MAX_TAGS = 10 - 2

DEFINITION = "tfapp-definition-"  # then what its definition is called
_DEFINITION = re.compile(rf"{DEFINITION}([0-9a-f]{{64}})\Z")
# YARN's own rule for a tag.
_WORD = re.compile(r"[ -~]{1,100}\Z")


@frozen
class Definition(Coded):
    """`spec`: Skein's application spec as plain data, without credentials. `instances`: the initial
    instances, in job order. `gpus`, `gpus_most`: those that it needs, and takes at most. `docker`:
    the addresses of the Docker engines that containers use; "" for that of the environment.
    `engine`: data for the engine alone."""

    name: str
    user: str
    tags: tuple[str, ...]
    gpus: int
    instances: tuple[InstanceStatus, ...]
    spec: Mapping[str, Any]
    docker: tuple[str, ...] = ()
    stop_grace: float = 30.0  # seconds
    gang: float = 600.0  # seconds until all instances must have exported
    gpus_most: int = 0
    queue: float = 0.0  # seconds for which a scheduler may hold it back; 0: see `queue_limit`
    checkpoint_dir: str = ""  # a path or a URL; "" where it has none that lasts
    attempts: int = 1  # masters of a run, one after another
    master_timeout: float = 300.0  # seconds without one
    storage_schemes: str = ""  # see ApplicationStatus
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Definition | None:
        """The definition in a file; None if there is no file. DamagedError."""

        def make(data: Mapping[str, Any]) -> Definition:
            definition = cls.from_dict(data)
            definition.sources()  # an error if its specification names no files
            return definition

        return read_kept(path, make)

    @classmethod
    def of(
        cls, name: str, compiled: Compiled, engine: Mapping[str, Any] | None = None
    ) -> Definition:
        spec = compiled.spec.to_dict()
        spec.get("master", {}).pop("security", None)  # each run has credentials of its own
        spec["tags"] = tags = sorted(spec.get("tags", ()))
        job = compiled.job
        return cls(
            name=name,
            user=job.user,
            tags=tuple(tags),
            gpus=gpus_needed(job),
            gpus_most=sum(c.instances * c.container.gpus for c in job.components),
            instances=_requested(job),
            spec=_plain(spec),
            docker=docker_engines(job),
            stop_grace=job.limits.stop_grace,
            gang=job.limits.gang,
            queue=job.limits.queue,
            checkpoint_dir=job.checkpoint_dir,
            attempts=job.attempts,
            master_timeout=job.limits.master,
            storage_schemes=job.storage_schemes,
            engine=engine or {},
        )

    def accepted(self, now: float) -> ApplicationStatus:
        """The status of a run until its coordinator publishes one."""
        return ApplicationStatus(
            name=self.name,
            state=ACCEPTED,
            generation=0,
            started=now,
            updated=now,
            instances=self.instances,
            stop_grace=self.stop_grace,
            checkpoint_dir=self.checkpoint_dir,
            storage_schemes=self.storage_schemes,
        )

    def sources(self) -> list[str]:
        """The URLs of all files of the spec."""
        parts = [self.spec.get("master", {}), *self.spec.get("services", {}).values()]
        files = (file for part in parts for file in part.get("files", {}).values())
        return sorted({file["source"] for file in files})

    def local_files(self) -> list[Path]:
        """The files of the spec that belong on this machine."""
        return [Path(s[len(_LOCAL) :]) for s in self.sources() if s.startswith(_LOCAL)]

    def missing_files(self) -> list[Path]:
        """The local files that do not exist any more."""
        return [path for path in self.local_files() if not path.exists()]

    def with_files_in(self, folder: Path) -> Definition:
        """A copy with its local files in `folder`."""

        def moved(part: Mapping[str, Any]) -> dict[str, Any]:
            files = part.get("files", {})
            return {**part, "files": {name: _file_in(folder, files[name]) for name in files}}

        spec = dict(self.spec)
        spec["master"] = moved(spec.get("master", {}))
        spec["services"] = {name: moved(part) for name, part in spec.get("services", {}).items()}
        return dataclasses.replace(self, spec=spec)

    def spec_message(self) -> bytes:
        """Skein's ApplicationSpec, serialized."""
        from tfapp.skein_library import skein

        def made() -> bytes:
            message = skein.ApplicationSpec.from_dict(dict(self.spec)).to_protobuf()
            return message.SerializeToString()

        return undamaged(made, f"the definition of {self.name}", CRASH)


def gpus_needed(job: Job) -> int:
    """Without which it does not train."""
    return sum(component.needed * component.container.gpus for component in job.components)


def docker_engines(job: Job) -> tuple[str, ...]:
    """The addresses of the Docker engines that the components use; "" for that of the
    environment."""
    return tuple(sorted({c.docker.host for c in job.components if c.docker is not None}))


def _requested(job: Job) -> tuple[InstanceStatus, ...]:
    return tuple(
        InstanceStatus(instance_id(c.name, index), c.name, c.role, REQUESTED)
        for c in job.components
        for index in range(c.instances)
    )


def _file_in(folder: Path, file: Mapping[str, Any]) -> dict[str, Any]:
    source = file["source"]
    if source.startswith(_LOCAL):
        source = f"{_LOCAL}{folder}/{source.rpartition('/')[2]}"
    return {**file, "source": source}


def _plain(value: Any) -> Any:
    """A value with lists in place of sets, for JSON."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def check_tags(tags: tuple[str, ...]) -> None:
    """UsageError for a tag of the user that cannot be one."""
    if len(tags) > MAX_TAGS:
        raise UsageError(f"{len(tags)} tags, YARN leaves room for {MAX_TAGS}", "Give fewer --tag.")
    for tag in tags:
        if not _WORD.match(tag):
            raise UsageError(
                f"{tag!r} is not a tag",
                "A tag is 1 to 100 ASCII characters: letters, digits, punctuation, spaces.",
            )
        if tag.startswith(DEFINITION):
            raise UsageError(f"{tag!r} is a tag of tfapp's own", "Give another --tag.")


def definition_tag(spec: skein.ApplicationSpec) -> str:
    """The tag that names the definition of `spec`, by a hash of the specification, which has no
    such tag yet. Shipped files are named by their content, so equal specifications have equal
    definitions."""
    text = json.dumps(spec.to_dict(), sort_keys=True, default=sorted)
    return DEFINITION + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def definition_file(tags: Iterable[str]) -> str:
    """The name of the file with an application's definition; "" when its tags have none."""
    found = (_DEFINITION.match(tag) for tag in tags)
    return next((f"{match[1]}.definition" for match in found if match), "")


def of_the_user(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(t for t in tags if t != TAG and not t.startswith(DEFINITION)))
