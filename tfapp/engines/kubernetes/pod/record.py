"""The record of an application, a ConfigMap: its keys and values. Imports only the standard
library, the contract and `tfapp.master.ending`: it is shipped to the master's pod, which writes
most of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import Coded, encode
from tfapp.contract.status import ApplicationStatus
from tfapp.frozen import frozen
from tfapp.master.ending import Ending

DEFINITION = "definition"  # JSON of tfapp.engines.definition.Definition
# The state of the newest run, one word: for `kubectl wait`. Nothing of tfapp reads it.
STATE = "state"

_RUN = re.compile(r"run-([1-9][0-9]*)\Z")


def run_key(run: int) -> str:
    """The key of a RunRecord, written by `create` and `start`."""
    return f"run-{run}"


def state_key(run: int) -> str:
    """The key of a RunState, written by the master."""
    return f"run-{run}.state"


def status_key(run: int) -> str:
    """The key of the last ApplicationStatus of the coordinator, copied by the master at most once a
    second. The master deletes it when it writes the ending."""
    return f"run-{run}.status"


def ending_key(run: int) -> str:
    """The key of the Ending, written by the master, or on behalf of a master that has died."""
    return f"run-{run}.ending"


def stop_key(run: int) -> str:
    """The key of the reason to stop a run whose master cannot be asked, written before anything of
    it is deleted: its master starts nothing any more, and the run is KILLED."""
    return f"run-{run}.stop"


KEYS = (run_key, state_key, status_key, ending_key, stop_key)  # all of a run


@frozen
class RunRecord(Coded):
    """The data of a run at its creation. `accepted`: its status until the coordinator publishes
    one. `started`: seconds since 1970."""

    application: str  # application_<milliseconds>_<run, 4 digits>
    run: int
    accepted: ApplicationStatus
    started: float
    namespace: str


@frozen
class RunState(Coded):
    """The state of the master. Addresses are host:port, "" before it serves. `missing`: the SHA-256
    of files that it waits for; they are uploaded to its file server at `files`. `attempt`: the
    number of the master; there is another one each time one was lost, or the run is resumed after a
    suspension. `since`: the Job's start, which is another one after a suspension. `outlived`:
    whether programs may live without it."""

    pod: str
    address: str = ""  # of its gRPC server
    files: str = ""  # of its file server
    missing: tuple[str, ...] = ()
    attempt: int = 1
    since: str = ""
    outlived: bool = False


@frozen
class RecordedRun:
    """All data of one run in the record."""

    record: RunRecord
    state: RunState | None = None
    status: ApplicationStatus | None = None
    ending: Ending | None = None
    stop: str | None = None

    @property
    def last_known(self) -> ApplicationStatus:
        if self.ending is not None:
            return self.ending.status
        return self.status or self.record.accepted


def run_numbers(data: Mapping[str, str]) -> list[int]:
    """The numbers of the runs in a record's data, oldest first."""
    found = (_RUN.match(key) for key in data)
    return sorted(int(match[1]) for match in found if match)


def read_run(data: Mapping[str, str], run: int) -> RecordedRun:
    """The data of a run. KeyError if it does not exist; ValueError, KeyError or TypeError if it is
    damaged."""

    def read(key: str, cls: Any) -> Any:
        text = data.get(key)
        return None if text is None else cls.from_dict(json.loads(text))

    return RecordedRun(
        record=RunRecord.from_dict(json.loads(data[run_key(run)])),
        state=read(state_key(run), RunState),
        status=read(status_key(run), ApplicationStatus),
        ending=read(ending_key(run), Ending),
        stop=data.get(stop_key(run)),
    )


def text(value: Any) -> str:
    """A value as text for the record."""
    return encode(value).decode()
