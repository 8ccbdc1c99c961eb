"""Run as a program: one session (tfapp.contract.sessions), in a process of its own, so that what is
sent through it takes no time from the runner, and all that the command starts is found again.

    python -m tfapp.runner.session

Standard input is a pipe from the runner with one line, see `Welcome`; its end is that of the
runner. Standard output takes a line with the port, or with why there is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import pty
import queue
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import termios
import time
from collections.abc import Iterable

from tfapp import processes
from tfapp.contract.channel import ERRORS, EXIT, OUTPUT, READY, START, Channel, GoneError, size
from tfapp.contract.exit import SHELL_SIGNAL
from tfapp.contract.sessions import OFFER_LIMIT, Command, Welcome
from tfapp.listener import Admit, Listener
from tfapp.runner import ports
from tfapp.runner.beside import GRACE, Passing, Started
from tfapp.runner.program import StartError, launch

LEAVE_LIMIT = 10.0  # seconds for a client to go that has all
_SHELLS = ("bash", "sh")


def main() -> int:
    """Serves one session. An exit code."""
    welcome = Welcome.from_dict(json.loads(sys.stdin.buffer.readline()))
    # It ends with the runner. A signal that is ignored would be so in the command, too.
    signal.signal(signal.SIGTERM, lambda *_: None)
    processes.adopt_orphans()
    try:
        listening = _listen(welcome)
    except (OSError, ports.NoPortError) as error:
        _tell(why=str(error))
        return 1
    _tell(port=listening.getsockname()[1])
    connection = _owner(listening, welcome)
    if connection is not None:
        with connection, contextlib.suppress(GoneError):
            _serve(Channel(connection), welcome)
    return 0


def _tell(**said: object) -> None:
    print(json.dumps(said), flush=True)
    processes.redirect(os.O_WRONLY, os.devnull, 1)


def _listen(welcome: Welcome) -> socket.socket:
    address = welcome.host if welcome.host.startswith("127.") else ""
    held = ports.hold(welcome.ports)
    try:
        return socket.create_server((address, held.number), reuse_port=True)
    finally:
        held.close()


def _owner(listening: socket.socket, welcome: Welcome) -> ssl.SSLSocket | None:
    """The connection of the first who has the owner's key; None if nobody comes in time, or the
    runner ends."""
    found: queue.SimpleQueue[ssl.SSLSocket] = queue.SimpleQueue()
    arrived, tells = socket.socketpair()
    tls, owner = _tls(welcome), ssl.PEM_cert_to_DER_cert(welcome.owner)

    def serve(plain: socket.socket, _: object, admit: Admit) -> None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection = tls.wrap_socket(plain, server_side=True)
        # Not one that the owner's certificate has signed: that one itself.
        if connection.getpeercert(binary_form=True) != owner:
            connection.close()
            return
        admit()
        found.put(connection)
        tells.send(b"1")

    listener = Listener("tfapp-session", listening, serve)
    poll = select.poll()
    for number in (arrived.fileno(), 0):
        poll.register(number, select.POLLIN)
    ready = dict(poll.poll(OFFER_LIMIT * 1000))
    listener.close()
    return found.get() if arrived.fileno() in ready else None


def _tls(welcome: Welcome) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0
    context.load_verify_locations(cadata=welcome.owner)
    # Python's ssl module loads key pairs from files only; this one is in memory alone.
    memory = os.memfd_create("tfapp-session")
    with open(memory, "wb") as file:
        file.write(f"{welcome.key}\n{welcome.certificate}".encode())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    return context


def _serve(channel: Channel, welcome: Welcome) -> None:
    """From the first frame to the end of the command, or of the client, or of the runner."""
    channel.put(READY)
    command: Command | None = None
    frames: list[tuple[bytes, bytes]] = []
    end = time.monotonic() + OFFER_LIMIT
    while command is None:
        left = end - time.monotonic()
        if left <= 0 or 0 in channel.wait({0: select.POLLIN}, left):
            return
        frames += channel.take()
        if frames:
            kind, data = frames.pop(0)
            with contextlib.suppress(ValueError, RecursionError):
                command = Command.from_dict(json.loads(data)) if kind == START else None
            if command is None:
                return
    try:
        started = _start(command, welcome)
    except (OSError, ValueError, StartError) as error:  # ValueError: there is a NUL in it
        channel.put(ERRORS, f"tfapp: {error}\n".encode())
        _end(channel, 127)
        return
    try:
        code = Passing(started, channel).run(frames)
    finally:
        started.end()
    _end(channel, code)


def _start(command: Command, welcome: Welcome) -> Started:
    if not welcome.container:
        return _Process(command, welcome)
    from tfapp.runner.docker.command import DockerCommand

    return DockerCommand(command, welcome.container, welcome.env)


def _end(channel: Channel, code: int) -> None:
    """Tells the exit code, and waits until the client has all and goes. One whose connection stays
    when all is sent, as that of a forwarder may, is not waited for."""
    channel.put(EXIT, bytes((code & 0xFF,)))
    end = math.inf
    while time.monotonic() < end:
        left = None if end == math.inf else end - time.monotonic()
        if 0 in channel.wait({0: select.POLLIN}, left):
            return
        for _ in channel.take():
            pass
        if end == math.inf and not channel.waiting:
            end = time.monotonic() + LEAVE_LIMIT


class _Process:
    """A command as a child of this process (tfapp.runner.beside.Started). StartError or OSError if
    it cannot be started."""

    def __init__(self, command: Command, welcome: Welcome):
        env = dict(welcome.env)
        path = env.get("PATH", os.defpath)
        shells = (shutil.which(name, path=path) for name in _SHELLS)
        argv = list(command.argv) or [next(filter(None, shells), "/bin/sh")]
        self.terminal = bool(command.term)
        if self.terminal:
            env["TERM"] = command.term
            own, its = pty.openpty()
            fcntl.ioctl(own, termios.TIOCSWINSZ, size(command.rows, command.columns))
            theirs = (its, its, its)
            self.to = own
            self._kinds = {own: OUTPUT}
        else:
            (reads, self.to), (out, writes), (errors, fails) = (os.pipe() for _ in range(3))
            theirs = (reads, writes, fails)
            self._kinds = {out: OUTPUT, errors: ERRORS}
        self.sources = set(self._kinds)
        for number in (self.to, *self.sources):
            os.set_blocking(number, False)
        self.wakes, wakes = socket.socketpair()  # readable when a child has ended
        wakes.setblocking(False)
        self._waker = wakes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        try:
            self._process = launch(argv, env, welcome.folder, theirs)
        finally:
            for number in set(theirs):
                os.close(number)

    def frames(self, source: int, data: bytes) -> Iterable[tuple[bytes, bytes]]:
        return [(self._kinds[source], data)] if data else ()

    def end_input(self) -> None:
        os.close(self.to)
        self.to = -1

    def resize(self, data: bytes) -> None:
        fcntl.ioctl(self.to, termios.TIOCSWINSZ, data)

    def signal(self, number: int) -> None:
        if self._process.poll() is None:  # its number is nobody else's
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    def ended(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else SHELL_SIGNAL - code

    def kill_rest(self) -> None:
        processes.kill_left_behind(processes.KILL_LIMIT)

    def end(self) -> None:
        for number in {self.to, *self._kinds} - {-1}:
            os.close(number)  # of a terminal, the kernel tells whoever is in the foreground
        self.signal(signal.SIGHUP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        spare = self._process.pid if self._process.returncode is None else 0
        processes.kill_left_behind(processes.KILL_LIMIT, spare)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)


if __name__ == "__main__":
    sys.exit(main())
