"""The parent of the masters of a run. It outlives each of them, and with it all that must not end
with one: the first processes of containers, which it starts by order of the master, their exit
codes until a master has written them down, and open files, such as the locks of GPUs.

A master is its child, with a socket between the two. Each message is a line of JSON:

    to the parent    {"start": ID, "argv", "folder", "env", "output", "note"}
                     {"noted": ID}     its end is written down, or nobody asks for it
                     {"hold": NAME}    with a descriptor, which stays open
    {"testify": NAME, "containers", "secret"}
                      what is held is a socket of the witness; see tfapp.master.witness
                     {"alive": 1}      each second, from when the parent has to watch over it
    to the master    {"started": ID, "pid", "since"}, {"failed": ID, "errno", "text"}
                     {"ended": ID, "code"}

A master that gives no sign of life for `SILENCE` seconds hangs, and is killed. The next one begins
after the end of the one before: two of them never act.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfapp.frozen import frozen, replace
from tfapp.master.witness import Witness
from tfapp.processes import adopt_orphans, stat

SILENCE = 10.0  # seconds between two signs of life after which a master is killed
START_LIMIT = 60.0  # seconds until the first one, of a master that takes the place of another
BEAT = 1.0  # seconds between two signs of life
AGAIN = 600.0  # seconds that a master has to last, for the losses before it to count no more
LOST = os.EX_TEMPFAIL  # exit code of a master after which another one has to go on
NO_MORE = os.EX_UNAVAILABLE  # and of one that has found that there were enough of them
MAX_LINE = 8 << 20  # bytes of a message; Linux takes less for a program's environment
_TICK = 1.0  # seconds; a parent that was stopped itself has not seen its master being silent
_READ = 1 << 16


@frozen
class Turn:
    """What a master knows when it begins: its number, `killed`: whether the one before it was, else
    it has ended what it had started, its end of the line to the parent, and how many were lost of
    late."""

    attempt: int
    killed: bool
    line: socket.socket
    lost: int = 0


@frozen
class Child:
    """A container's first process. `since`: see Process.started. `code`: its exit code, or minus
    the number of the signal that has killed it; None while it runs. `note`: the master's own."""

    id: str
    pid: int
    since: int
    note: str
    code: int | None = None


class Parent:
    """`children`: the containers whose end is not written down yet. `held`: the names of what stays
    open. `passes_on`: whether SIGTERM is for the master, after which no other one follows.
    `question`: a file by which others ask whether this process lives: it deletes that at once."""

    def __init__(self, passes_on: bool = False, question: Path | None = None) -> None:
        self.children: dict[str, Child] = {}
        self._running: dict[int, str] = {}  # pid -> id
        self._files: dict[str, int] = {}
        self._witness = Witness()
        self._passes_on = passes_on
        self._question = question
        self._asked = self._passed = False  # to end: this process, the present master
        adopt_orphans()
        self._woken, waker = os.pipe()
        for end in (self._woken, waker):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if passes_on:
            signal.signal(signal.SIGTERM, self._ask)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._files)

    def keep(
        self, serve: Callable[[Turn], int], begun: Callable[[int], None] = lambda pid: None
    ) -> int:
        """Has masters `serve`, in a process each, until the end. Returns an exit code: that of the
        last one, or 128 and the signal that has killed it; and that of `serve`, in each of these
        processes. `begun` is called with the pid of the first one."""
        attempt, code, lost = 1, 0, 0
        while True:
            line, end = socket.socketpair()
            master = self._fork()
            if not master:
                line.close()
                return serve(Turn(attempt, code < 0, end, lost))
            end.close()
            if attempt == 1:
                begun(master)
            before, limit = code, math.inf if attempt == 1 else START_LIMIT
            began = time.monotonic()
            code = self.look_after(master, line, limit)
            if code == NO_MORE and before < 0:
                code = before
            elif code == LOST or (code < 0 and not self._asked):
                attempt += 1
                lost = 1 if time.monotonic() - began >= AGAIN else lost + 1
                continue
            return code if code >= 0 else 128 - code

    def _fork(self) -> int:
        """Forks a master, in which it returns 0. That one hears each SIGTERM that is for it."""
        self._passed = False
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        master = os.fork()
        if not master:
            self.become_master()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return master

    def become_master(self) -> None:
        """In a new master: it is no parent any more."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if self._passes_on:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
        self._witness.close()
        for file in self._files.values():
            os.close(file)

    def _ask(self, *_: object) -> None:
        self._asked = True

    def look_after(self, master: int, line: socket.socket, limit: float) -> int:
        """Serves the master with this pid until it has ended. Returns its exit code, or minus the
        number of the signal that has killed it. `limit`: seconds until its first sign of life."""
        served = _Served(line, self._obey)
        silent = 0.0
        while True:
            before = time.monotonic()
            served.wait(self._woken, *self._witness.files)
            self._witness.serve()
            self._answer()
            if not served.talk():  # such as words that are no message
                _kill(master)
            silent += min(time.monotonic() - before, _TICK)
            if served.alive:
                silent, limit = 0.0, SILENCE
            if silent >= limit:
                _kill(master)
            if self._asked and not self._passed:
                self._passed = True
                os.kill(master, signal.SIGTERM)
            code = self._reap(master, served)
            if code is not None:
                self._witness.present = False
                served.close()
                return code

    def _answer(self) -> None:
        if self._question is not None:
            with contextlib.suppress(OSError):
                self._question.unlink()

    def _reap(self, master: int, served: _Served) -> int | None:
        """Waits for all children that have ended. Returns the code of the master if it has."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, _READ):
                pass
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                code = os.waitstatus_to_exitcode(status)
                if pid == master:
                    found = code
                elif pid in self._running:  # else it is an orphan
                    child = self.children.get(self._running.pop(pid))
                    if child is not None:
                        self.children[child.id] = replace(child, code=code)
                        served.say({"ended": child.id, "code": code})
        return found

    def _obey(self, order: dict[str, Any], files: list[int], served: _Served) -> None:
        """Carries out one order. KeyError, TypeError or ValueError if it is none."""
        if "start" in order:
            self._start(order, served)
        elif "noted" in order:
            self.children.pop(order["noted"], None)
        elif "hold" in order:
            self._hold(str(order["hold"]), files.pop(0))
        elif "testify" in order:
            file, secret = self._files[order["testify"]], bytes.fromhex(order["secret"])
            self._witness.testify(file, str(order["containers"]), secret)
        else:
            served.alive = bool(order["alive"])
            self._witness.present |= served.alive

    def _hold(self, name: str, file: int) -> None:
        if name in self._files:
            os.close(self._files[name])
        self._files[name] = file

    def _start(self, order: dict[str, Any], served: _Served) -> None:
        id, env = str(order["start"]), order["env"]
        if id in self.children:  # started once is enough
            return
        try:
            with open(
                os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            ) as out:
                process = subprocess.Popen(
                    [str(word) for word in order["argv"]],
                    cwd=order["folder"],
                    env={str(name): str(value) for name, value in env.items()},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            number, text = getattr(error, "errno", 0), getattr(error, "strerror", "")
            served.say({"failed": id, "errno": number or 0, "text": text or str(error)})
            return
        process.returncode = 0  # this one waits for it, not that object
        found = stat(process.pid)
        since = 0 if found is None else found.started
        self.children[id] = Child(id, process.pid, since, str(order["note"]))
        self._running[process.pid] = id
        served.say({"started": id, "pid": process.pid, "since": since})


class _Served:
    """The line to one master, of which neither words nor silence make the parent wait. `alive`:
    whether it gave a sign of life since the last `wait`."""

    def __init__(
        self, line: socket.socket, obey: Callable[[dict[str, Any], list[int], _Served], None]
    ):
        self.alive = False
        self._line = line
        self._obey = obey
        self._heard = b""
        self._files: list[int] = []
        self._unsaid = b""
        self._open = True
        line.setblocking(False)

    def wait(self, *others: int) -> None:
        """Waits for a word, for room, or until one of `others` is readable; for a moment at
        most."""
        self.alive = False
        poller = select.poll()
        for file in others:
            poller.register(file, select.POLLIN)
        if self._open:
            wanted = select.POLLIN | (select.POLLOUT if self._unsaid else 0)
            poller.register(self._line, wanted)
        poller.poll(_TICK * 1000)

    def close(self) -> None:
        self._line.close()
        for file in self._files:
            os.close(file)

    def say(self, message: dict[str, Any]) -> None:
        self._unsaid += json.dumps(message).encode() + b"\n"

    def talk(self) -> bool:
        """Hears and says what it can. Returns False if the master says what is no message."""
        if not self._open:
            return True
        try:
            with contextlib.suppress(BlockingIOError):
                self._hear()
            with contextlib.suppress(BlockingIOError):
                while self._unsaid:
                    self._unsaid = self._unsaid[self._line.send(self._unsaid) :]
        except OSError:  # it has ended
            self._open = False
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            self._open = False
            return False
        return True

    def _hear(self) -> None:
        data, files, _, _ = socket.recv_fds(self._line, _READ, 16)
        self._files += files
        self._open = bool(data)
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line), self._files, self)
        if len(self._heard) > MAX_LINE:
            raise ValueError("too long")


def _kill(master: int) -> None:
    os.kill(master, signal.SIGKILL)  # not waited for yet: it is no other process
