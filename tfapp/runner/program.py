"""The user's program as a process: starts it, watches it, and ends it with all processes that it
started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from tfapp import processes, threads
from tfapp.contract.exit import Exit
from tfapp.contract.names import ENV_OWN_CGROUP, MAX_LAST_LINES
from tfapp.runner import catcher, cgroup, exits
from tfapp.runner.output import LastLines, Redactor, pump

_ENDINGS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
_TRACED = 0.01  # seconds; how long a program is traced, about
_LAUNCH = str(Path(__file__).with_name("launch.py"))


class StartError(Exception):
    """The program cannot be started; the text is a sentence for the user."""


class RunningProgram:
    """A started program (tfapp.runner.run_mode.Running). Its output goes to this process's standard
    output. Start it from a thread that lives as long as the process: the kernel kills the
    program when that *thread* ends."""

    container = ""  # none of Docker's

    def __init__(
        self,
        argv: Iterable[str],
        env: Mapping[str, str],
        cwd: Path,
        redact: Iterable[str] = (),
        sink: int = 1,
        clock: Callable[[], float] = time.monotonic,
        apart: Callable[[], Collection[int]] = tuple,
    ):
        """StartError when the program cannot be started. `apart`: processes that are not of it,
        with those that they start (tfapp.runner.sessions)."""
        self._clock = clock
        self._apart = apart
        self._limit = env.get(ENV_OWN_CGROUP, "")
        alone = ENV_OWN_CGROUP in env
        self._memory_kills = exits.MemoryKills(env.get("CONTAINER_ID", ""), alone)
        self.group = cgroup.Group() if alone else None
        self._last = LastLines(MAX_LAST_LINES)
        self._signals = threading.Lock()  # between a signal and the reaping of its target
        argv = tuple(argv)
        source, output = os.pipe()
        try:
            self._process = launch(argv, env, cwd, (subprocess.DEVNULL, output, output))
        except (OSError, ValueError) as error:
            os.close(source)
            reason = getattr(error, "strerror", None) or error
            raise StartError(f"{argv[0]} cannot be started in {cwd}: {reason}") from error
        except StartError:
            os.close(source)
            raise
        finally:
            os.close(output)
        self._pids: tuple[int, ...] = (self.pid,)
        self.started = clock()
        self.seconds = 0.0  # how long it ran, once it has ended
        self.exit: Exit | None = None  # once it has ended
        self.remains = ""
        self._over = threading.Event()  # it has ended, or cannot be killed
        self._call_off: Callable[[], None] | None = None  # the second of them
        redactor = Redactor(redact)
        pumped = (source, sink, redactor, self._last)
        self._pump = threads.start_surely("tfapp-output", _pump_and_close, *pumped)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self.running()

    def running(self) -> bool:
        with self._signals:
            return self._is_child() and not self._ended(os.WNOHANG)

    def stopped(self) -> tuple[str, ...]:
        found = processes.left_behind(apart=self._apart())
        self._pids = tuple(process.pid for process in found if not process.dead)
        return processes.stopped(found)

    def pids(self) -> tuple[int, ...]:
        return self._pids

    def signal(self, number: int) -> str:
        with self._signals:
            process = processes.identify(self.pid) if self._is_child() else None
            return catcher.send(process, number) if process is not None else ""

    def catches(self, number: int) -> bool:
        with self._signals:
            return self._is_child() and processes.catches(self.pid, number)

    def kill(self) -> None:
        processes.kill_left_behind(0, spare=self.pid)
        if self._call_off is None:
            limit = processes.KILL_LIMIT
            self._call_off = threads.after(limit, "tfapp-alarm", self._over.set)

    def wait(self) -> Exit:
        """See Running.wait."""
        threads.start_surely("tfapp-end", self._await_end)
        self._over.wait()
        if self._call_off is not None:
            self._call_off()
        self.seconds = self._clock() - self.started
        if self.running():
            survivors = processes.kill_left_behind(0, spare=self.pid)
            decoded = exits.decode(-signal.SIGKILL)
        else:
            with self._signals:
                returncode = self._process.wait()
            survivors = processes.kill_left_behind(processes.KILL_LIMIT, clock=self._clock)
            decoded = exits.decode(returncode, self._memory_kills.happened(), self._limit)
        if not survivors:
            self._pump.join(processes.KILL_LIMIT)
        self.remains = processes.remains(survivors)
        self.exit = decoded
        return decoded

    def _await_end(self) -> None:
        # Not reaped yet, so that its number is nobody else's while signals are sent.
        try:
            while not self._ended():
                time.sleep(_TRACED)
        except ChildProcessError:  # it could not be killed, has ended at last, and was reaped
            pass
        finally:
            self._over.set()

    def _is_child(self) -> bool:
        """Whether nobody has waited for it yet."""
        return self._process.returncode is None and self.exit is None

    def _ended(self, option: int = 0) -> bool:
        """Whether the program has ended. Without WNOHANG waits until it has, or is traced (see
        catcher): the kernel tells a tracer of that in every wait."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | option)
        return found is not None and found.si_code in _ENDINGS

    @property
    def written(self) -> int:
        return self._last.total

    def last_lines(self) -> str:
        return self._last.text()


def launch(
    argv: Iterable[str], env: Mapping[str, str], cwd: str | Path, streams: tuple[int, int, int]
) -> subprocess.Popen[bytes]:
    """A process of `argv` in a session of its own, which ends with this process. `streams`: its
    standard ones. StartError with why there is no such program; OSError or ValueError if nothing
    can be started at all."""
    errors, error_end = os.pipe()
    with open(errors, "rb") as file:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCH, str(os.getpid()), str(error_end), *argv],
                env=dict(env),
                cwd=cwd,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=(error_end,),
                start_new_session=True,
            )
        finally:
            os.close(error_end)
        message = file.read()  # ends when the program has taken over
    if message:
        process.wait()
        raise StartError(message.decode(errors="replace"))
    return process


def _pump_and_close(source: int, sink: int, redactor: Redactor, last: LastLines) -> None:
    try:
        pump(source, sink, redactor, last)
    finally:
        # After an error too: a program whose output nobody reads would wait, or be killed.
        while os.read(source, 1 << 16):
            pass
        os.close(source)
