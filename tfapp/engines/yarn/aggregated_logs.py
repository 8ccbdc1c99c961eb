"""The aggregated logs of an application that has ended."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp import tools
from tfapp.contract.names import RETURNED_FILE
from tfapp.disk import make_private, write_atomically, writing
from tfapp.engines.base import LogFile
from tfapp.engines.container_files import container_files
from tfapp.engines.yarn.hadoop_client import find_yarn
from tfapp.engines.yarn.layout import YarnRunFolder
from tfapp.engines.yarn.live_logs import COORDINATOR_LOG, MASTER_LOG
from tfapp.engines.yarn.web import Web
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

GATHER_LIMIT = 30.0  # seconds for YARN to gather the logs
COMMAND_LIMIT = 120.0  # seconds for `yarn logs`
LOOK_EVERY = 0.5
_PIECE = 1 << 20  # bytes of a copy that are compared at a time

# YARN's words (LogAggregationStatus) while it gathers, and where it has given up on a node.
_UNFINISHED = ("NOT_START", "RUNNING", "RUNNING_WITH_FAILURE")
_INCOMPLETE = ("TIME_OUT", "FAILED")
UNKNOWN = "unknown"
_HEAD = re.compile(
    rb"LogType:(?P<file>[^\n]*)\nLogLastModifiedTime:[^\n]*\n"
    rb"LogLength:(?P<length>\d+)\nLogContents:\n"
)


@frozen
class Gathered:
    """The aggregated logs of an application: the containers with logs, by YARN's ids. `state`:
    YARN's state of the aggregation while logs are missing, else ""."""

    containers: frozenset[str] = frozenset()
    state: str = ""


def fetch(
    run: YarnRunFolder,
    application: str,
    tracking_url: str,
    environ: Mapping[str, str],
    web: Web,
    limit: float = GATHER_LIMIT,
) -> Gathered:
    """Copies all logs below `run`, once. Waits at most `limit` seconds for the aggregation.
    UnavailableError if YARN has no logs."""
    if run.logs_complete.exists():
        return Gathered()
    state = _wait_until_gathered(application, tracking_url, web, limit)
    containers = set()
    with writing(run.logs), tempfile.TemporaryDirectory(dir=make_private(run.path)) as scratch:
        _ask_yarn(application, Path(scratch), environ)
        for answer in Path(scratch).rglob("container_*"):
            containers.add(answer.name)
            with _mapped(answer) as content:
                for file, data in split(content):
                    folder = make_private(run.logs / answer.name)
                    with data:
                        _complete(folder / file, data)
        if not state:
            run.logs_complete.touch(0o600)
    return Gathered(frozenset(containers), state)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """The content of a file, which may be larger than memory."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # which cannot be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _complete(path: Path, data: memoryview) -> None:
    """Appends the rest to a copy, so that a process that reads it continues."""
    if not _begins_with(data, path):
        write_atomically(path, data)
        return
    with path.open("ab") as copy:
        copy.write(data[copy.tell() :])


def _begins_with(data: memoryview, path: Path) -> bool:
    """Whether the file is a beginning of it, or is not there."""
    at = 0
    with contextlib.suppress(FileNotFoundError), path.open("rb") as copy:
        while piece := copy.read(_PIECE):
            if data[at : at + len(piece)] != piece:
                return False
            at += len(piece)
    return True


def split(answer: mmap.mmap | bytes) -> Iterator[tuple[str, memoryview]]:
    """(name, content) of every log in the output of `yarn logs` for one container. The contents
    are views of it."""
    position = 0
    while head := _HEAD.search(answer, position):
        first, end = head.end(), head.end() + int(head["length"])
        name = head["file"].decode(errors="replace")
        del head  # it holds the map open
        if "/" not in name and name not in ("", ".", ".."):
            with memoryview(answer) as whole:
                yield name, whole[first:end]
        position = end


def log_files(run: YarnRunFolder) -> Iterator[LogFile]:
    folders = _folders(run)
    yield from container_files(folders)
    for folder in folders:
        for instance, file in (("coordinator", COORDINATOR_LOG), ("master", MASTER_LOG)):
            if (folder / file).exists():
                yield LogFile(instance, folder / file)


def returned_files(run: YarnRunFolder) -> Iterator[LogFile]:
    """The copies below `run` of records of return values."""
    return container_files(_folders(run), RETURNED_FILE)


def _folders(run: YarnRunFolder) -> list[Path]:
    return sorted(run.logs.glob("container_*"))


def _wait_until_gathered(application: str, tracking_url: str, web: Web, limit: float) -> str:
    """YARN's last state of the aggregation: "" when it is complete, UNKNOWN if it is not available
    over HTTP."""
    deadline = time.monotonic() + limit
    while True:
        try:
            state = web.application(tracking_url, application).get("logAggregationStatus", "")
        except OSError:
            return UNKNOWN
        if state not in _UNFINISHED:
            return state if state in _INCOMPLETE else ""
        if time.monotonic() > deadline:
            return state
        time.sleep(LOOK_EVERY)


def _ask_yarn(application: str, folder: Path, environ: Mapping[str, str]) -> None:
    command = [find_yarn(environ), "logs", "-applicationId", application, "-out", str(folder)]
    try:
        done = tools.run(command, environ, COMMAND_LIMIT)
    except tools.ToolError as error:
        words = f"`yarn logs -applicationId {application}` failed: {error.reason}"
        raise UnavailableError(words) from error
    if not any(folder.iterdir()):
        raise UnavailableError(
            f"YARN has no logs of {application}: {done.reason}",
            "Is yarn.log-aggregation-enable on? Old logs are deleted by the cluster.",
        )
