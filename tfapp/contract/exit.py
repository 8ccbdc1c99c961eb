"""How a program ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known


@dataclasses.dataclass(frozen=True)
class Exit:
    """How a program ended. `code` is the exit code or None, `signal` its number or None.
    `reason` is one of "exit", "signal", "memory", "hang" (it stood still), "script" (the
    package's script failed), "start" (the program could not be started), "timeout" (the script
    did not start it in time), "lost" (its container is gone), "silent" (its runner is),
    "preempted", "node-lost", "deadline", "stopped"."""

    code: int | None
    signal: int | None
    reason: str
    text: str  # one sentence for a person: "exit code 3", "killed by SIGKILL (9)"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exit:
        return cls(**known(cls, data))
