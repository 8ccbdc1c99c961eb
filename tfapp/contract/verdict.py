"""How an application ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known
from tfapp.contract.exit import Exit


@dataclasses.dataclass(frozen=True)
class Cause:
    """What decided a verdict that is not SUCCEEDED."""

    instance: str  # "" when it was no instance (a deadline, a stop request)
    generation: int | None  # None: nobody knows any more
    host: str
    container: str
    exit: Exit
    last_lines: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cause:
        values = known(cls, data)
        values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How the application ended, and why. `exit_code` is that of `tfapp create`."""

    state: str  # one of states.FINAL_STATES
    exit_code: int  # tfapp.errors.ExitCode
    summary: str  # one or two sentences
    cause: Cause | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        values = known(cls, data)
        if data.get("cause") is not None:
            values["cause"] = Cause.from_dict(data["cause"])
        return cls(**values)
