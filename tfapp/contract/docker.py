"""How programs run in a Docker image."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known


@dataclasses.dataclass(frozen=True)
class Mount:
    """A file or folder of the machine that a Docker container sees. Both paths are absolute."""

    source: str  # on the machine
    target: str  # in the container
    read_only: bool = False


@dataclasses.dataclass(frozen=True)
class Docker:
    """How the programs of a component run in an image. Sizes are in bytes, 0 and "" leave it to
    the engine."""

    image: str
    mounts: tuple[Mount, ...] = ()
    pull: str = "missing"  # "never", "missing" or "always"
    pull_timeout: float = 600.0  # seconds
    credential: str = ""  # whose value in Private.env is the registry's "USER:PASSWORD"
    host: str = ""  # the engine's address as DOCKER_HOST says it; "": what the environment says
    shm_size: int = 0
    ipc: str = ""  # "host" or "private"
    ulimits: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    tmpfs: Mapping[str, str] = dataclasses.field(default_factory=dict)  # path -> mount options
    cap_drop: tuple[str, ...] = ()
    cgroup_parent: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Docker:
        values = known(cls, data)
        values["mounts"] = tuple(Mount(**known(Mount, mount)) for mount in data["mounts"])
        values["cap_drop"] = tuple(data.get("cap_drop", ()))
        limits = data.get("ulimits", {})
        values["ulimits"] = {name: (soft, hard) for name, (soft, hard) in limits.items()}
        return cls(**values)
