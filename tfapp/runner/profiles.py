"""Traces of a program by TensorFlow's profiler, without a change in the program and without a port.

The start-up hook of tfapp (tfapp.storage.startup) has a thread in each Python that imports
TensorFlow. It waits at a pipe for a request, traces, writes the trace where TensorBoard finds it,
and answers in a file of memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfapp import processes
from tfapp.contract.profiles import FOLDER, MEMORY_FILE, SUFFIX, WRITE_LIMIT
from tfapp.frozen import frozen

_MOST_PROCESSES = 16  # of a program, that are asked
_MOST_BYTES = 64 * 1024  # of an answer
_LONGEST = 400  # characters of a reason
_PAUSE = 0.05  # seconds between two looks at the answers


@frozen
class _Traced:
    """A process that was asked. `memory`: its file of memory."""

    process: processes.Process
    memory: Path
    file: str


def take(
    pids: Sequence[int],
    id: str,
    seconds: float,
    folder: str,
    name: str,
    clock: Callable[[], float] = time.monotonic,
    write_limit: float = WRITE_LIMIT,
) -> tuple[tuple[str, ...], int, str]:
    """Lets all those of the processes that have imported TensorFlow trace the same `seconds`
    seconds. Returns the files below `folder`, a path or a URL, their bytes, and why there are none,
    or fewer. `name`: begins the name of a file. Takes `seconds` and `write_limit` at most."""
    asked: list[_Traced] = []
    pipes: set[str] = set()
    end = clock() + seconds + write_limit
    for pid in pids[:_MOST_PROCESSES]:
        process = processes.identify(pid)
        memory = processes.memory_file(pid, MEMORY_FILE)
        told = _read(memory) if memory is not None else {}
        pipe = str(told.get("pipe", ""))
        # A child made by fork has its parent's pipe, and does not read from it.
        if process is None or memory is None or not pipe or pipe in pipes:
            continue
        pipes.add(pipe)
        file = f"{folder.rstrip('/')}/{name}{f'-{pid}' if asked else ''}{SUFFIX}"
        until = time.time() + write_limit
        trace = {"file": file, "seconds": seconds}
        line = json.dumps({"id": id, "until": until, "trace": trace}) + "\n"
        if _write(pid, pipe, line.encode()):
            asked.append(_Traced(process, memory, file))
    if not asked:
        return (), 0, "it runs no Python that has imported TensorFlow and answers"
    files, size, reasons = [], 0, []
    for one in asked:
        answer = _answer(one, id, end, clock)
        if "bytes" in answer:
            files.append(one.file)
            size += int(answer["bytes"])
        else:
            reasons.append(str(answer.get("error", "it has not answered"))[:_LONGEST])
    return tuple(files), size, "; ".join(dict.fromkeys(reasons))


def run_folder(folder: str, run: str) -> str:
    """Where the traces of a run are below the folder that TensorBoard shows, a path or a URL."""
    return f"{folder.rstrip('/')}/{FOLDER}/{run}"


def _read(memory: Path) -> dict[str, Any]:
    """What stands in the file of memory; nothing while it is being written."""
    with contextlib.suppress(OSError, ValueError), open(memory, "rb") as file:
        found = json.loads(file.read(_MOST_BYTES))
        return found if isinstance(found, dict) else {}
    return {}


def _write(pid: int, pipe: str, line: bytes) -> bool:
    """Writes to the pipe of a process, whole or not at all: it is shorter than PIPE_BUF."""
    path = processes.descriptor(pid, pipe)
    if path is None:
        return False
    with contextlib.suppress(OSError):
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(opened, line) == len(line)
        finally:
            os.close(opened)
    return False


def _answer(asked: _Traced, id: str, end: float, clock: Callable[[], float]) -> dict[str, Any]:
    while True:
        over = clock() >= end or not processes.is_alive(asked.process)
        told = _read(asked.memory)
        if told.get("id") == id:
            return told
        if over:
            return {} if clock() >= end else {"error": "its process has ended"}
        time.sleep(_PAUSE)
