"""Processes of this machine, from Linux's /proc: which are alive, their descendants, and those that
a program has left behind. No other module reads /proc.

The kernel reuses pids, so a `Process` has its start time too. This module is shipped to containers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tfapp import threads
from tfapp.contract.names import ENV_GUARD
from tfapp.frozen import frozen

PROC = Path("/proc")
KILL_LIMIT = 30.0  # seconds that SIGKILL may take to work

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_TGKILL = {"x86_64": 234, "aarch64": 131}  # asm/unistd.h
_PAGE = os.sysconf("SC_PAGESIZE")
_POLL = 0.01  # seconds between two checks of processes that were sent SIGKILL
# Programs that run others and pass no signal on; Alpine's are all busybox.
_SHELLS = frozenset(("ash", "bash", "busybox", "dash", "fish", "ksh", "ksh93", "mksh", "sh", "zsh"))
_STOPPED = "T"  # by SIGSTOP; "t" is stopped by a debugger, which somebody wants


@frozen
class Process:
    """One process. `started`: clock ticks since boot. `boot`: the kernel's id of that boot, "" for
    the present one."""

    pid: int
    started: int
    boot: str = ""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that tfapp reads. `state`: one letter, as in ps(1)."""

    pid: int
    state: str
    parent: int
    session: int
    terminal: int = 0
    started: int = 0

    @property
    def dead(self) -> bool:
        """Whether the process has ended and only its exit status is left."""
        return self.state in "ZX"


# ---- One process ------------------------------------------------------------------------------


def stat(pid: int) -> Stat | None:
    """The state of a process; None if there is no process with this pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    # The second field, the name in parentheses, may contain anything.
    fields = data[data.rindex(b")") + 2 :].split()
    parent, session, terminal, started = (int(fields[i]) for i in (1, 3, 4, 19))
    return Stat(pid, fields[0].decode(), parent, session, terminal, started)


class Used(NamedTuple):
    """What a process has used. `ticks`: of the processor (SC_CLK_TCK a second), also by its
    children that have ended. `memory`: bytes that it shares with no file. `read`, `written`: bytes
    by its calls, 0 where nobody may look."""

    started: int
    ticks: int
    memory: int
    read: int
    written: int


def used(pid: int) -> Used | None:
    """What a process has used up to now; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident, shared = file.read().split()[1:3]
    except OSError:
        return None
    fields = data[data.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX":
        return None
    moved = {b"rchar:": 0, b"wchar:": 0}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/io", "rb") as file:
        moved.update((name, int(count)) for name, count in map(bytes.split, file))
    return Used(
        int(fields[19]),
        sum(map(int, fields[11:15])),
        (int(resident) - int(shared)) * _PAGE,
        moved[b"rchar:"],
        moved[b"wchar:"],
    )


def boot_id() -> str:
    """An id that changes with each boot of this machine; "" if the kernel does not give it."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def session(pid: int) -> int:
    """The session of a process; 0 if the process is gone."""
    found = stat(pid)
    return 0 if found is None else found.session


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None if there is none, or it is dead."""
    found = stat(pid)
    return None if found is None or found.dead else Process(pid, found.started, boot_id())


def is_alive(process: Process) -> bool:
    """Whether the process is still running. A zombie counts as dead."""
    if process.boot and process.boot != boot_id():
        return False
    found = stat(process.pid)
    return found is not None and found.started == process.started and not found.dead


def wait_for_exit(process: Process, timeout: float) -> bool:
    """Waits up to `timeout` seconds for the end of the process. Returns whether it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return _poll_for_exit(process, timeout)
    try:
        if is_alive(process):  # the number may have been reused before the descriptor was opened
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            poller.poll(max(timeout, 0.0) * 1000)
    finally:
        os.close(descriptor)
    return not is_alive(process)


def _poll_for_exit(process: Process, timeout: float) -> bool:
    """`wait_for_exit` on kernels before 5.3, and for a process that is gone."""
    end = time.monotonic() + timeout
    while is_alive(process):
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True


def send(process: Process, number: int) -> None:
    """Sends the signal `number` if the process is still alive."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


# ---- Requests to end --------------------------------------------------------------------------


def ask(process: Process, number: int) -> None:
    """Sends the signal `number` to a program alone: its helpers are its own affair.

    A shell passes nothing on, so its process group gets the signal. It would end before the program
    for which it waits, and a container with it: a shell that does not catch the signal is stopped,
    and gets the signal when the others have ended. Returns at once."""
    if not is_shell(process.pid):
        send(process, number)
    elif catches(process.pid, number):
        for each in (process, *_others_of_group(process.pid)):
            send(each, number)
    else:
        send(process, signal.SIGSTOP)  # so that it does not run its next command
        threads.start_surely("tfapp-ask", _ask_group, process, number)


def _ask_group(shell: Process, number: int) -> None:
    asked: set[Process] = set()
    while is_alive(shell) and (others := _others_of_group(shell.pid)):
        for process in set(others) - asked:
            send(process, number)
        asked.update(others)
        wait_for_exit(others[0], 0.5)
    send(shell, number)
    send(shell, signal.SIGCONT)


def _others_of_group(pid: int) -> list[Process]:
    """The living processes of the process group of `pid`, without itself."""
    found = []
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        for process in _others():
            with contextlib.suppress(OSError):  # it has ended, or may not be looked at
                if process.pid != pid and os.getpgid(process.pid) == group:
                    found.append(Process(process.pid, process.started))
    return found


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for the signal `number`."""
    return _in_mask(PROC / str(pid), "SigCgt", number)


def tasks(pid: int) -> tuple[int, ...]:
    """The threads of a process, the main thread first; () if there is no such process."""
    with contextlib.suppress(OSError):
        found = {int(name) for name in os.listdir(PROC / str(pid) / "task")}
        return (pid, *sorted(found - {pid}))
    return ()


def task_name(pid: int, task: int) -> str:
    """What the kernel calls a thread; "" if it has ended."""
    try:
        return (PROC / str(pid) / "task" / str(task) / "comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def rests(pid: int, task: int) -> bool:
    """Whether a thread waits for something now, and runs no code."""
    return _task_state(pid, task) == b"S"


def _task_state(pid: int, task: int) -> bytes:
    """One letter, as in ps(1); b"" if the thread has ended."""
    with contextlib.suppress(OSError, ValueError):
        data = (PROC / str(pid) / "task" / str(task) / "stat").read_bytes()
        return data[data.rindex(b")") + 2 :][:1]
    return b""


def blocks(pid: int, task: int, number: int) -> bool:
    """Whether a thread takes no signal `number` now, as while it is in the handler of it."""
    return _in_mask(PROC / str(pid) / "task" / str(task), "SigBlk", number)


def send_to_task(pid: int, task: int, number: int) -> bool:
    """Sends the signal `number` to one thread of a process. Returns whether it could be sent."""
    call = _TGKILL.get(os.uname().machine)
    return call is not None and ctypes.CDLL(None).syscall(call, pid, task, number) == 0


def busy_with(pid: int, task: int, number: int) -> bool:
    """Whether a thread has not taken the signal `number` that it was sent yet, or is in the handler
    of it."""
    folder = PROC / str(pid) / "task" / str(task)
    return _in_mask(folder, "SigPnd", number) or _in_mask(folder, "SigBlk", number)


def _in_mask(folder: Path, mask: str, number: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "status").read_text(errors="replace").splitlines():
            if line.startswith(f"{mask}:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def descriptor(pid: int, target: str) -> Path | None:
    """The path by which others open what a process has open, such as "pipe:[4711]", if they may."""
    with contextlib.suppress(OSError):
        for entry in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(entry) == target:
                    return entry
    return None


def memory_file(pid: int, name: str) -> Path | None:
    """The path by which others open a file of memory (memfd_create) that a process has open."""
    return descriptor(pid, f"/memfd:{name} (deleted)")


def command(pid: int) -> tuple[str, ...]:
    """The command line of a process; () if it cannot be read."""
    try:
        data = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in data.rstrip(b"\0").split(b"\0")) if data else ()


def executable(pid: int) -> str:
    """The path of the file that a process runs; "" if it cannot be read."""
    try:
        return os.readlink(PROC / str(pid) / "exe")
    except OSError:
        return ""


def open_files(pid: int) -> tuple[int, int]:
    """How many file descriptors a process has, and how many it may have; (0, 0) if neither can be
    read."""
    with contextlib.suppress(OSError, ValueError):
        count = sum(1 for _ in (PROC / str(pid) / "fd").iterdir())
        for line in (PROC / str(pid) / "limits").read_text().splitlines():
            if line.startswith("Max open files"):
                return count, int(line.split()[3])  # "unlimited" there is not
    return 0, 0


def uninterruptible(pid: int, task: int) -> str:
    """Words on a thread that no signal reaches, with the kernel's function in which it waits where
    the kernel tells that; "" of others."""
    if _task_state(pid, task) != b"D":
        return ""
    where = ""
    with contextlib.suppress(OSError):
        where = (PROC / str(pid) / "task" / str(task) / "wchan").read_text()
    return f"state D: it waits for a disk or a file server{f' ({where})' if where > '0' else ''}"


def file_at(pid: int, address: int) -> str:
    """The path of the file whose code a process has at `address`; "" if it has none there."""
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "maps").read_text(errors="replace").splitlines():
            span, _, rest = line.partition(" ")
            first, last = (int(end, 16) for end in span.split("-"))
            if first <= address < last:
                return (rest.split(None, 4)[4:] or [""])[0]
    return ""


def is_shell(pid: int) -> bool:
    """Whether a process is a shell now."""
    return Path(executable(pid)).name in _SHELLS


# ---- Families ---------------------------------------------------------------------------------


def all_processes() -> Iterator[Stat]:
    """All processes that are visible in /proc."""
    pids = (int(name) for name in os.listdir(PROC) if name.isdigit())
    return filter(None, map(stat, pids))


def tree(root: int, apart: Collection[int] = ()) -> tuple[Stat, ...]:
    """The process `root` and its descendants, including zombies; () if there is no such process.
    `apart`: those that are left out with theirs."""
    families: dict[int, list[Stat]] = {}
    unvisited = []
    for process in all_processes():
        if process.pid not in apart:
            families.setdefault(process.parent, []).append(process)
        if process.pid == root:
            unvisited.append(process)
    found = []
    while unvisited:
        process = unvisited.pop()
        found.append(process)
        unvisited += families.get(process.pid, ())
    return tuple(found)


def descendants(root: int) -> list[Process]:
    """The living descendants of `root`, without itself."""
    return [Process(p.pid, p.started) for p in tree(root) if p.pid != root and not p.dead]


def children(parent: int) -> set[int]:
    """The pids of a process's children, including zombies."""
    listed = _listed_children(parent)
    if listed is not None:
        return listed
    return {process.pid for process in all_processes() if process.parent == parent}


def _listed_children(parent: int) -> set[int] | None:
    """The children that the kernel lists; None without CONFIG_PROC_CHILDREN."""
    texts = []
    for path in PROC.glob(f"{parent}/task/*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            texts.append(path.read_text())
    return {int(pid) for text in texts for pid in text.split()} if texts else None


# ---- Orphans: processes that a program has started and left behind ----------------------------
#
# A subreaper becomes the parent of all orphans among its descendants, including daemons that forked
# twice. Programs and containers are started in a session of their own. So their remaining processes
# are the descendants of the subreaper that are not in the subreaper's own session.


def adopt_orphans() -> None:
    """Makes this process a subreaper, the new parent of orphans among its descendants. OSError if
    the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def redirect(flags: int, path: str, *descriptors: int) -> None:
    """Lets `descriptors` of this process lead to a file, which is opened with `flags`."""
    opened = os.open(path, flags)
    for descriptor in descriptors:
        os.dup2(opened, descriptor)
    os.close(opened)


def left_behind(parent: int = 0, apart: Collection[int] = ()) -> tuple[Stat, ...]:
    """Descendants of this process, or of `parent`, in other sessions than its own, including
    zombies. `apart`: see `tree`.

    /proc is read process by process, and a process that forks and ends meanwhile hides its child.
    Only a second empty result is certain."""
    session = os.getsid(parent)
    found = tree(parent or os.getpid(), apart)
    return tuple(process for process in found if process.session != session)


def stopped(processes: Iterable[Stat]) -> tuple[str, ...]:
    """Sentences on the `processes` that were stopped by SIGSTOP, for `Running.stopped`."""
    return tuple(
        f"process {process.pid} was stopped (SIGSTOP)"
        for process in processes
        if process.state == _STOPPED
    )


def remains(pids: Iterable[int]) -> str:
    """What is to be said, after its end, of the processes of a program that live on."""
    told = [", ".join(filter(None, (f"process {pid}", uninterruptible(pid, pid)))) for pid in pids]
    return f"; still there after SIGKILL: {'; '.join(told)}" if told else ""


def reap(spare: int = 0) -> None:
    """Waits for dead orphans, which removes the zombies. `spare`: the pid of a child for which
    other code waits."""
    me = os.getpid()
    for process in left_behind():
        if process.state == "Z" and process.parent == me and process.pid != spare:
            with contextlib.suppress(ChildProcessError):  # other code has waited for it
                os.waitpid(process.pid, os.WNOHANG)


def _alive_left_behind() -> list[int]:
    return [process.pid for process in left_behind() if not process.dead]


def kill_left_behind(
    limit: float, spare: int = 0, clock: Callable[[], float] = time.monotonic
) -> tuple[int, ...]:
    """Kills all processes that are left behind, and those that they fork meanwhile. Waits up to
    `limit` seconds for their end; with 0 it does not wait. Returns the pids that are still alive,
    normally none: a process in uninterruptible sleep ends only after its I/O, and one of another
    user, such as a daemon that sudo started, may not be killed and is not waited for. `spare`: the
    pid of a child that is killed but not reaped, as for `reap`."""
    end = clock() + limit
    while True:
        reap(spare)
        alive = _alive_left_behind() or _alive_left_behind()
        ending = [pid for pid in alive if _kill(pid)]
        if not ending or clock() >= end:
            reap(spare)
            return tuple(alive)
        time.sleep(_POLL)


def _kill(pid: int) -> bool:
    """Sends SIGKILL. Returns whether this process may do that."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended meanwhile
        return True
    except PermissionError:
        return False
    return True


# ---- Processes by environment and working directory -------------------------------------------


def with_environment(matches: Callable[[dict[bytes, bytes]], bool]) -> list[Process]:
    """The living processes of this user for whose environment at their start `matches` is true."""
    return [Process(p.pid, p.started) for p in _others() if matches(environment(p.pid))]


def working_under(folder: str) -> list[Process]:
    """The living processes of this user whose working directory is `folder` or below it, except
    those with a terminal, such as a user's shell."""
    found = []
    for process in _others():
        with contextlib.suppress(OSError):  # ended, or another user's
            place = Path(os.readlink(PROC / str(process.pid) / "cwd"))
            if not process.terminal and place.is_relative_to(folder):
                found.append(Process(process.pid, process.started))
    return found


def environment(pid: int) -> dict[bytes, bytes]:
    """The environment of a process at its start; {} if it cannot be read."""
    try:
        data = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in data.split(b"\0") if item)
    return {name: value for name, _, value in pairs}


def is_guard(process: Process) -> bool:
    """Whether the process is a runner's guard, which clears up after it and ends by itself."""
    return os.fsencode(ENV_GUARD) in environment(process.pid)


def kill_all(find: Callable[[], Iterable[Process]], timeout: float) -> list[Process]:
    """Sends SIGKILL to the processes that `find` returns, until it returns none. They must not be
    children of this process. Returns those that are still alive after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        found = list(find()) or list(find())  # see left_behind
        if not found or time.monotonic() >= end:
            return found
        for process in found:
            send(process, signal.SIGKILL)
        for process in found:
            wait_for_exit(process, end - time.monotonic())


def _others() -> Iterator[Stat]:
    me = os.getpid()
    return (process for process in all_processes() if process.pid != me and not process.dead)
