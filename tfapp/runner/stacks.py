"""The stacks of a program's threads, without a restart and without a line in its output.

A thread of the program answers a signal: the start-up hook of tfapp (tfapp.storage.startup) has
registered faulthandler for it, which writes the thread's own stack into a file of memory. The
threads are asked one after the other: faulthandler can write the stacks of all at once, but ends
programs whose others run meanwhile. The signal is sent only where the process catches it and has
that file open: to any other process it would be the end. py-spy
needs nothing of the program, but leave to trace it, and seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tfapp import processes, threads
from tfapp.contract.stacks import (
    LIMIT,
    MEMORY_FILE,
    SIGNAL,
    Frame,
    InstanceStacks,
    ProcessStacks,
    ThreadStack,
)

_MOST_PROCESSES = 16  # of a program, that are looked at
_MOST_BYTES = 256 * 1024  # of what a process writes
_LONGEST_NAME = 200  # characters
_LOOK_LIMIT = 1.0  # seconds for a look at folders
_FULL = 1 << 20  # bytes of a disk with less is nothing left
_FEW_FILES = 2  # file descriptors
_PAUSE = 0.0005  # seconds between two looks at a thread that answers
_MOST_THREADS = 512  # of a process
_THREAD_LIMIT = 0.3  # seconds in which a thread answers; one in state D does not
_OTHER_LIMIT = 0.03  # seconds in which a thread that is not the main one comes to rest
_ONE_LIMIT = 1.5  # seconds in which a process answers the signal
_HANDLER, _PY_SPY = "handler", "py-spy"
_IN_FRAME = re.compile(r'  File "(.*)", line (\d+|\?+) in (.*)')
_GENERATED = "/__autograph_generated_file"  # TensorFlow's, of other functions
_INSTALLED = re.compile(
    r".*/(?:site-packages|dist-packages|installed_wheels/[^/]*|\.deps/[^/]*"
    r"|lib(?:64)?/python\d[\d.]*|tfapp-runtime|tfapp-storage|tfapp-call(?=/(?:tfapp/|main\.py)))/"
)


class Taker:
    """Takes the stacks of a program. `roots`: folders whose files are told by their paths below
    them. `path`: that of the program, where py-spy is looked for. `hide` strikes secrets out."""

    def __init__(
        self,
        roots: Iterable[Path],
        path: str,
        hide: Callable[[str], str],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._roots = tuple(f"{root}/" for root in roots)
        self._py_spy = shutil.which("py-spy", path=path)
        self._hide, self._clock = hide, clock

    def take(
        self, pids: Sequence[int], quickly: bool, ends: bool = False, limit: float = LIMIT
    ) -> tuple[tuple[ProcessStacks, ...], str]:
        """The stacks of those of the processes that are Pythons, and why there are none. With
        `quickly` py-spy is asked only where no handler answers. `ends`: threads that run are asked,
        too. `limit`: seconds for all."""
        end = self._clock() + limit
        taken, others = [], []
        for pid in pids[:_MOST_PROCESSES]:
            process, found = processes.identify(pid), processes.stat(pid)
            if process is None or found is None:
                continue
            path = _memory_file(pid)
            name = os.path.basename(processes.executable(pid))
            if path is None and not name.startswith(("python", "pypy")) and found.state != "D":
                others.append(name or "a process of another user")
                continue
            taken.append(self._process(process, found.state, path, quickly, ends, end))
        if taken:
            return tuple(taken), ""
        return (), f"it runs no Python, but {', '.join(dict.fromkeys(others)) or 'nothing'}"

    def _process(
        self,
        process: processes.Process,
        state: str,
        path: Path | None,
        quickly: bool,
        ends: bool,
        end: float,
    ) -> ProcessStacks:
        known: dict[str, Any] = {
            "pid": process.pid,
            "command": self._hide(self._shortly(" ".join(processes.command(process.pid)[:8]))),
            "state": _state(process.pid, state),
        }
        if known["state"]:
            return ProcessStacks(**known, why="it does not run, and answers nobody")
        held = _held(process.pid, processes.tasks(process.pid)[:_MOST_THREADS])
        reasons = []
        for by in (_HANDLER, _PY_SPY) if quickly else (_PY_SPY, _HANDLER):
            try:
                if by == _HANDLER:
                    by_then = min(end, self._clock() + _ONE_LIMIT)
                    found = _answer(process, path, ends, self._clock, by_then)
                else:
                    found = self._spy(process.pid, end)
            except _NoStacksError as error:
                reasons.append(f"{by}: {error}")
                continue
            if by == _HANDLER and found[0].name:
                known["state"] = "its main thread never rests"
            # Those that were held up before the others were asked, and still are.
            held = _held(process.pid, held)
            if held:
                who = "a thread is" if len(held) == 1 else f"{len(held)} threads are"
                words = f"{who} in {next(iter(held.values()))}"
                known["state"] = ", ".join(filter(None, (known["state"], words)))
            return ProcessStacks(**known, by=by, why="; ".join(reasons), threads=self._told(found))
        return ProcessStacks(**known, why=self._hide("; ".join(reasons)))

    def _spy(self, pid: int, end: float) -> list[ThreadStack]:
        """The main thread comes first."""
        if self._py_spy is None:
            raise _NoStacksError("it is not installed where the program is")
        command = [self._py_spy, "dump", "--json", "--pid", str(pid)]
        left = max(end - self._clock(), 0.1)
        try:
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=left
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _NoStacksError(str(error)) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").split("\n")
            raise _NoStacksError(said[0] or f"exit code {done.returncode}")
        return spied(done.stdout)

    def _told(self, found: Sequence[ThreadStack]) -> tuple[ThreadStack, ...]:
        """With short paths, the first thread first, then those in the user's code."""
        told = [
            ThreadStack(tuple(map(self._frame, one.frames)), self._hide(one.name))
            for one in dict.fromkeys(found)
        ]
        return (*told[:1], *sorted(told[1:], key=lambda one: not one.place))

    def _shortly(self, text: str) -> str:
        for root in self._roots:
            text = text.replace(root, "")
        return text

    def _frame(self, frame: Frame) -> Frame:
        installed = _INSTALLED.match(frame.file)
        generated = frame.file.startswith("<frozen ") or _GENERATED in frame.file
        own = installed is None and not generated
        file = frame.file[installed.end() :] if installed else frame.file
        file = self._shortly(file) if own else file
        function, file = (self._hide(text)[-_LONGEST_NAME:] for text in (frame.function, file))
        return Frame(function, file, frame.line, own)


def troubles(pids: Sequence[int], folders: Iterable[Path]) -> tuple[str, ...]:
    """What else may hold a program up: a full disk, or a file server that does not answer, of its
    `folders`, and processes that have no file descriptor left. Takes _LOOK_LIMIT at most for all
    folders."""
    found: dict[str, str] = {}
    looking = {}
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):  # no thread: it is not looked at
            looking[folder] = threads.start("tfapp-disk", _look, folder, found)
    end = time.monotonic() + _LOOK_LIMIT
    for folder, thread in looking.items():
        thread.join(max(end - time.monotonic(), 0))
        if thread.is_alive():
            found[str(folder)] = f"{folder} does not answer"
    told = [text for text in found.values() if text]
    for pid in pids[:_MOST_PROCESSES]:
        count, limit = processes.open_files(pid)
        if limit and count >= limit - _FEW_FILES:
            told.append(f"process {pid} has {count} of {limit} file descriptors")
    return tuple(dict.fromkeys(told))


def _look(folder: Path, found: dict[str, str]) -> None:
    try:
        disk = os.statvfs(folder)
    except OSError:  # it is not there
        return
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < _FULL:
        found[str(folder)] = f"the disk of {folder} is full"
    elif disk.f_files and not disk.f_favail:
        found[str(folder)] = f"the disk of {folder} has no inode left"


def lines(stacks: InstanceStacks) -> list[str]:
    """All of the stacks, for a log."""
    found = [f"trouble: {text}" for text in stacks.troubles]
    for process in stacks.processes:
        state = f", {process.state}" if process.state else ""
        found.append(f"stacks of process {process.pid} ({process.command}){state}:")
        if not process.threads:
            found.append(f"  none: {process.why}")
        for thread, frames in process.by_thread():
            found.append(f"  {thread}, the innermost function first:")
            found += [f"    {frame}" for frame in frames]
    return found if stacks.processes else [*found, f"no stacks: {stacks.why}"]


class _NoStacksError(Exception):
    """There are no stacks; the text says why."""


def _memory_file(pid: int) -> Path | None:
    return processes.memory_file(pid, MEMORY_FILE) if processes.catches(pid, SIGNAL) else None


def _state(pid: int, state: str) -> str:
    stopped = {"T": "stopped (SIGSTOP)", "t": "stopped by a debugger"}.get(state, "")
    return stopped or processes.uninterruptible(pid, pid)


def _held(pid: int, among: Iterable[int]) -> dict[int, str]:
    """Words on the threads that no signal reaches, but for the main thread."""
    found = {task: processes.uninterruptible(pid, task) for task in among if task != pid}
    return {task: words for task, words in found.items() if words}


def _answer(
    process: processes.Process,
    path: Path | None,
    ends: bool,
    clock: Callable[[], float],
    end: float,
) -> list[ThreadStack]:
    """What each thread writes at the signal, the main thread first. One that runs no Python writes
    nothing. One that blocks the signal is left out, and unless the process `ends` anyway, one that
    never rests: faulthandler may come upon a frame that is half made."""
    if path is None:
        raise _NoStacksError("its Python is older than 3.8, or has not run tfapp's sitecustomize")
    pid, found = process.pid, []
    try:
        with open(path, "r+b", buffering=0) as file:
            for task in processes.tasks(pid)[:_MOST_THREADS]:
                file.truncate(0)
                if processes.blocks(pid, task, SIGNAL) or not processes.is_alive(process):
                    continue
                limit = _THREAD_LIMIT if task == pid else _OTHER_LIMIT
                if not ends and not _comes_to_rest(pid, task, clock, min(end, clock() + limit)):
                    continue
                if not processes.send_to_task(pid, task, SIGNAL):
                    continue
                by_then = min(end, clock() + _THREAD_LIMIT)
                while clock() < by_then and (
                    processes.busy_with(pid, task, SIGNAL)
                    # The main thread is a Python's; of others it is not known.
                    or (task == pid and not os.fstat(file.fileno()).st_size)
                ):
                    time.sleep(_PAUSE)
                file.seek(0)
                text = file.read(_MOST_BYTES).decode(errors="replace")
                name = "" if task == pid else processes.task_name(pid, task)
                if text:
                    found.append(ThreadStack(parse(text), name))
                if clock() >= end:
                    break
            file.truncate(0)
    except OSError as error:
        raise _NoStacksError(f"its stacks cannot be read: {error.strerror}") from error
    if not found:
        alive = processes.is_alive(process)
        raise _NoStacksError("no thread was at rest and answered" if alive else "it has ended")
    return found


def _comes_to_rest(pid: int, task: int, clock: Callable[[], float], end: float) -> bool:
    while not processes.rests(pid, task):
        if clock() >= end:
            return False
        time.sleep(_PAUSE)
    return True


def parse(text: str) -> tuple[Frame, ...]:
    """The frames that faulthandler writes of a thread."""
    found = map(_IN_FRAME.fullmatch, text.splitlines())
    return tuple(
        Frame(frame[3], frame[1], int(frame[2]) if frame[2].isdigit() else None, False)
        for frame in found
        if frame is not None
    )


def spied(data: bytes) -> list[ThreadStack]:
    """The threads in what `py-spy dump --json` prints, the main thread first. _NoStacksError if it
    is anything else."""
    try:
        found = [
            ThreadStack(
                tuple(Frame(f["name"], f["filename"], f["line"], False) for f in one["frames"]),
                one.get("thread_name") or "",
            )
            for one in json.loads(data)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise _NoStacksError(f"its output is not understood: {error!r}") from error
    if not found:
        raise _NoStacksError("it has found no thread")
    return sorted(found, key=lambda one: one.name != "MainThread")
