"""Processes, waits and locks: what the other parts are built of."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

STOP_LIMIT = 60.0  # seconds


class ClusterError(Exception):
    """The cluster cannot be made, started or found; the message says why."""


class UnavailableError(ClusterError):
    """This machine cannot have the cluster; the message says what is missing."""


@dataclasses.dataclass(frozen=True)
class Process:
    """A process, told from a later one of the same id by its start time (clock ticks)."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """ProcessLookupError when there is no such process, or it has ended."""
        state, _, started = _stat(pid)
        if state in "ZX" and not _has_threads(pid):
            raise ProcessLookupError(pid)
        return cls(pid, started)

    def alive(self) -> bool:
        """Whether this very process still runs (or is stopped by a signal)."""
        try:
            return Process.of(self.pid) == self
        except ProcessLookupError:
            return False

    def send(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def children(self) -> list[Process]:
        """The processes that it has started and that still run."""
        found = []
        for pid in all_pids():
            with contextlib.suppress(ProcessLookupError):
                if _stat(pid)[1] == self.pid:
                    found.append(Process.of(pid))
        return found if self.alive() else []  # else they are another's, of the same id

    def memory(self) -> int:
        """Resident memory in bytes, 0 once it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


def _stat(pid: int) -> tuple[str, int, int]:
    """State, parent's id and start time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        raise ProcessLookupError(pid) from None
    return fields[0], int(fields[1]), int(fields[19])


def _has_threads(pid: int) -> bool:
    """Whether a process has other threads than its first. One whose first thread has ended still
    has its ports and files until the others have ended too."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def all_pids() -> list[int]:
    """The ids of this machine's processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def marked(variable: str, value: str) -> list[Process]:
    """The processes that have this variable in their environment, but for this one."""
    mark = os.fsencode(f"{variable}={value}")
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(Process.of(pid))
    return [process for process in found if process.pid != os.getpid()]


def kill_all(find: Callable[[], list[Process]], what: str) -> None:
    """SIGKILL for all that `find` finds, until it finds nothing and what it found has ended."""
    seen: set[Process] = set()

    def none_left() -> bool:
        found = find()
        for process in found:
            process.send(signal.SIGKILL)
        # What is about to end has no environment any more, and may still hold a namespace.
        seen.update(found)
        return not found and not any(process.alive() for process in seen)

    wait(none_left, f"end of {what}", STOP_LIMIT)


def wait(ready: Callable[[], object], what: str, limit: float) -> None:
    """Waits until `ready`. ClusterError after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not ready():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {limit:.0f} s for {what}")
        time.sleep(0.05)


def run(
    command: Sequence[str | Path],
    limit: float,
    what: str,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """What a command prints. ClusterError with its last words when it fails or takes longer than
    `limit` seconds. `what` says what it does, as "fetching X"."""
    # A Ctrl-C while it is being started would leave it behind: nobody knows it yet.
    interrupts = _Interrupts()
    try:
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except BaseException as error:
        interrupts.release()
        if isinstance(error, OSError):
            raise ClusterError(f"{what} failed: {error}") from None
        raise
    with process:
        try:
            interrupts.release()
            output, _ = process.communicate(timeout=limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
            if isinstance(error, subprocess.TimeoutExpired):
                raise ClusterError(f"{what} took longer than {limit:.0f} s") from None
            raise
    if process.returncode:
        words = "\n".join(output.rstrip().splitlines()[-8:])
        raise ClusterError(f"{what} failed:\n{words}")
    return output


class _Interrupts:
    """Holds SIGINT and SIGTERM back, whose handlers raise, until `release`. Nothing happens in a
    thread other than the main one, where none raises."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._hold)

    def _hold(self, number: int, frame: object) -> None:
        self._came.append(number)

    def release(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number in self._came:
            signal.raise_signal(number)


@contextlib.contextmanager
def locked(folder: Path, limit: float) -> Iterator[None]:
    """No other process is in here for `folder`, which is made where it is missing. ClusterError
    when another one stays for longer than `limit` seconds."""
    deadline = time.monotonic() + limit
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Another one may have deleted the folder, and yet another made it again.
            if _take(lock) and _same(lock, folder):
                yield
                return
        finally:
            os.close(lock)
        if time.monotonic() > deadline:
            raise ClusterError(f"another process works in {folder}, since {limit:.0f} s or more")
        time.sleep(0.1)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same(lock: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.stat(folder))
    except OSError:
        return False


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
