"""A command of a session in a program's Docker container (tfapp.runner.beside.Started)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from functools import partial

from tfapp import processes, threads
from tfapp.contract.channel import CHUNK, ERRORS, OUTPUT, size
from tfapp.contract.exit import SHELL_SIGNAL
from tfapp.contract.sessions import Command
from tfapp.runner.beside import GRACE
from tfapp.runner.docker import ownership
from tfapp.runner.docker.engine import DockerEngine, EngineError
from tfapp.runner.sessions import kill_marked

_SHELL = ("/bin/sh", "-c", "command -v bash > /dev/null 2>&1 && exec bash; exec sh")
_START_LIMIT = 60.0  # seconds for an engine to start a command
_END_LIMIT = 10.0  # seconds in which an engine knows of its end
_LOOK_EVERY = 0.02  # seconds between looks
_SIZE = struct.Struct("HHHH")  # of a terminal: tfapp.contract.channel.size
_HEAD = struct.Struct("!B3xI")  # of what an engine sends: the stream, bytes
_ERRORS = 2  # standard error


class DockerCommand:
    """Docker has no call that ends a command: its processes are found by `env`, which the program
    does not have, and by their session."""

    def __init__(self, command: Command, container: str, env: Mapping[str, str]):
        """OSError if it cannot be started."""
        self.terminal = bool(command.term)
        self._container, self._env = container, env
        self._streams = Demultiplexer()
        self.wakes, self._waker = socket.socketpair()
        given = {**env, "TERM": command.term} if self.terminal else env
        try:
            self._engine = DockerEngine(os.environ)
            argv = command.argv or _SHELL
            self._id = self._engine.prepare_command(container, argv, given, self.terminal)
            self._connection, self._early = self._engine.start_command(self._id, self.terminal)
            self.to = self._connection.fileno()
            self.sources = {self.to}
            self._pid = self._begun(argv[0])
        except EngineError as error:
            raise OSError(str(error)) from error
        self._process = ownership.of_container(self._pid, container)  # None: it has ended
        if self.terminal:
            self.resize(size(command.rows, command.columns))
        threads.start_surely("tfapp-command", self._wait)

    def _begun(self, name: str) -> int:
        """The pid that the command has, or had. OSError, EngineError."""
        end = time.monotonic() + _START_LIMIT
        while time.monotonic() < end:
            state = self._engine.command_state(self._id)
            if state["Pid"]:
                return int(state["Pid"])
            if state["ExitCode"] is not None:
                raise OSError(f"{name} cannot be run{self._why(name)}")
            time.sleep(_LOOK_EVERY)
        raise OSError(f"the Docker engine has not run {name} within {_START_LIMIT:g} s")

    def _why(self, name: str) -> str:
        """What the engine has said in place of a command that cannot be run."""
        said = self._early
        with contextlib.suppress(OSError):
            self._connection.settimeout(_END_LIMIT)
            while data := self._connection.recv(CHUNK):
                said += data
        _, found, why = said.decode(errors="replace").rpartition(f'exec: "{name}": ')
        return f": {why.strip().removesuffix(': unknown')}" if found else ""

    def _wait(self) -> None:
        process = self._process
        while process is not None and not processes.wait_for_exit(process, 3600.0):
            pass
        with contextlib.suppress(OSError):
            self._waker.send(b"1")

    def frames(self, source: int, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        data, self._early = self._early + data, b""
        if not self.terminal:
            yield from self._streams.feed(data)
        elif data:
            yield OUTPUT, data

    def end_input(self) -> None:
        self.to = -1
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_WR)

    def resize(self, data: bytes) -> None:
        rows, columns, *_ = _SIZE.unpack(data)
        with contextlib.suppress(EngineError):  # it has ended
            self._engine.resize_command(self._id, rows, columns)

    def signal(self, number: int) -> None:
        process = self._process
        if process is not None and processes.is_alive(process):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)

    def ended(self) -> int | None:
        if self._process is not None and processes.is_alive(self._process):
            return None
        end = time.monotonic() + _END_LIMIT
        with contextlib.suppress(EngineError):  # its container has ended with it
            while time.monotonic() < end:
                state = self._engine.command_state(self._id)
                if not state["Running"]:
                    return int(state["ExitCode"])
                time.sleep(_LOOK_EVERY)
        return SHELL_SIGNAL + signal.SIGKILL

    def kill_rest(self) -> None:
        kill_marked(
            self._env, partial(ownership.of_container, container=self._container), self._pid
        )

    def end(self) -> None:
        self._connection.close()
        self.signal(signal.SIGHUP)
        if self._process is not None:
            processes.wait_for_exit(self._process, GRACE)
        self.kill_rest()


class Demultiplexer:
    """Takes what an engine sends of a command without a terminal: pieces of both of its outputs,
    each after a head."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._kind, self._left = OUTPUT, 0  # of the present piece

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames for the client."""
        self._held += data
        while len(self._held) >= (1 if self._left else _HEAD.size):
            if not self._left:
                stream, self._left = _HEAD.unpack_from(self._held)
                self._kind = ERRORS if stream == _ERRORS else OUTPUT
                del self._held[: _HEAD.size]
            piece = bytes(self._held[: self._left])
            del self._held[: len(piece)]
            self._left -= len(piece)
            if piece:
                yield self._kind, piece
