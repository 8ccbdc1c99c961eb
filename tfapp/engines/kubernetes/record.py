"""The record of an application, a ConfigMap: its keys and their values. Standard library, contract
and `tfapp.master.ending` alone: it travels into the master's pod, which writes most of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import encode, known
from tfapp.contract.status import ApplicationStatus
from tfapp.frozen import frozen
from tfapp.master.ending import Ending

DEFINITION = "definition"  # JSON of tfapp.engines.definition.Definition

_RUN = re.compile(r"run-([1-9][0-9]*)\Z")


def run_key(run: int) -> str:
    """The key of a RunRecord: written by `create` and `start`."""
    return f"run-{run}"


def state_key(run: int) -> str:
    """The key of a RunState: written by the master."""
    return f"run-{run}.state"


def status_key(run: int) -> str:
    """The key of the ApplicationStatus that the coordinator has published last, copied by the
    master once a second at most. The master deletes it with its ending."""
    return f"run-{run}.status"


def ending_key(run: int) -> str:
    """The key of the Ending: written by the master, or for a master that died."""
    return f"run-{run}.ending"


@frozen
class RunRecord:
    """What is known of a run when it is made. `accepted` is its status until the coordinator
    publishes one; `started` in seconds since 1970."""

    application: str  # application_<milliseconds>_<run, 4 digits>
    run: int
    accepted: ApplicationStatus
    started: float
    namespace: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunRecord:
        values = known(cls, data)
        values["accepted"] = ApplicationStatus.from_dict(data["accepted"])
        return cls(**values)


@frozen
class RunState:
    """The master's own state. Addresses are host:port, "" before it serves. `missing`: the SHA-256
    of the files that it still waits for, which are put to its file server at `files`."""

    pod: str
    address: str = ""  # of its gRPC server
    files: str = ""  # of its file server
    missing: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunState:
        values = known(cls, data)
        values["missing"] = tuple(data.get("missing", ()))
        return cls(**values)


@frozen
class RecordedRun:
    """All that the record has of one run."""

    record: RunRecord
    state: RunState | None = None
    status: ApplicationStatus | None = None
    ending: Ending | None = None

    @property
    def last_known(self) -> ApplicationStatus:
        """The last status that there is."""
        if self.ending is not None:
            return self.ending.status
        return self.status or self.record.accepted


def run_numbers(data: Mapping[str, str]) -> list[int]:
    """The runs in a record's data, oldest first."""
    found = (_RUN.match(key) for key in data)
    return sorted(int(match[1]) for match in found if match)


def read_run(data: Mapping[str, str], run: int) -> RecordedRun:
    """KeyError when there is no such run; ValueError, KeyError or TypeError when it is damaged."""

    def read(key: str, cls: Any) -> Any:
        text = data.get(key)
        return None if text is None else cls.from_dict(json.loads(text))

    return RecordedRun(
        record=RunRecord.from_dict(json.loads(data[run_key(run)])),
        state=read(state_key(run), RunState),
        status=read(status_key(run), ApplicationStatus),
        ending=read(ending_key(run), Ending),
    )


def text(value: Any) -> str:
    """A value as the record has it."""
    return encode(value).decode()
