"""A command beside a program, in the process of a session (tfapp.runner.session): passes on what it
and its client say to each other."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from tfapp.contract.channel import (
    AHEAD,
    CHUNK,
    INPUT,
    RESIZE,
    SIGNAL,
    Channel,
    GoneError,
    size,
)

GRACE = 2.0  # seconds between SIGHUP and SIGKILL for a command whose client has gone
DRAIN_LIMIT = (
    10.0  # seconds of silence after which nothing more comes from a command that has ended
)
_SIGNALS = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP))


class Started(Protocol):
    """A command that has started. `to`: the file descriptor that takes its input, -1 once that is
    closed. `sources`: those that still bring its output. `wakes`: readable when it may have
    ended."""

    terminal: bool
    to: int
    sources: set[int]
    wakes: socket.socket

    def frames(self, source: int, data: bytes) -> Iterable[tuple[bytes, bytes]]:
        """The frames for the client of what has come from a source by now: b"" at the beginning and
        at the end."""

    def end_input(self) -> None:
        """Nothing more is written to `to`, which is no terminal."""

    def resize(self, data: bytes) -> None:
        """Gives the terminal a size (tfapp.contract.channel.size)."""

    def signal(self, number: int) -> None:
        """Sends a signal to the command and its process group, if it lives."""

    def ended(self) -> int | None:
        """The exit code, once it has ended."""

    def kill_rest(self) -> None:
        """Ends all that it has started, once it has ended."""

    def end(self) -> None:
        """Ends the command, if it lives, and all that it has started."""


class Passing:
    """What is on its way between a command and its client."""

    def __init__(self, command: Started, channel: Channel):
        self._command = command
        self._channel = channel
        self._input = bytearray()  # for the command, which it does not take yet
        self._input_ends = False

    def run(self, frames: list[tuple[bytes, bytes]]) -> int:
        """The exit code. `frames`: those that have come already. GoneError when the client has
        gone, or the runner."""
        command, channel, wakes = self._command, self._channel, self._command.wakes.fileno()
        for source in command.sources:
            self._tell(source, b"")
        while True:
            for kind, data in frames:
                self._obey(kind, data)
            code = command.ended()
            if code is not None:
                break
            reads = len(self._input) < AHEAD
            ready = self._wait({wakes: select.POLLIN}, reads=reads)
            if wakes in ready:
                command.wakes.recv(CHUNK)
            self._pass_on(ready)
            frames = list(channel.take()) if reads else []
        command.kill_rest()
        end = time.monotonic() + DRAIN_LIMIT
        while command.sources and time.monotonic() < end:
            sends = bool(channel.waiting)
            ready = self._wait({}, DRAIN_LIMIT)
            for _ in channel.take():
                pass
            self._pass_on(ready)
            if ready or sends:  # while it is full, nothing is read
                end = time.monotonic() + DRAIN_LIMIT
        return code

    def _wait(
        self, files: dict[int, int], timeout: float | None = None, reads: bool = True
    ) -> dict[int, int]:
        ready = self._channel.wait({0: select.POLLIN, **files, **self._files()}, timeout, reads)
        if 0 in ready:
            raise GoneError
        return ready

    def _files(self) -> dict[int, int]:
        command = self._command
        files = {} if self._channel.full else dict.fromkeys(command.sources, select.POLLIN)
        if self._input and command.to >= 0:
            files[command.to] = files.get(command.to, 0) | select.POLLOUT
        return files

    def _pass_on(self, ready: Mapping[int, int]) -> None:
        command = self._command
        writable = ready.get(command.to, 0) & (select.POLLOUT | select.POLLERR)
        for number in [number for number in ready if number in command.sources]:
            if not ready[number] & ~select.POLLOUT:
                continue
            try:
                data = os.read(number, CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # nobody has the terminal open any more
                data = b""
            self._tell(number, data)
            if not data:
                command.sources.remove(number)
        if writable and self._input:
            try:
                del self._input[: os.write(command.to, self._input[:CHUNK])]
            except BlockingIOError:
                pass
            except OSError:  # it reads no more
                self._input.clear()
                self._input_ends = True
        self._end_input()

    def _tell(self, source: int, data: bytes) -> None:
        for kind, piece in self._command.frames(source, data):
            self._channel.put(kind, piece)

    def _end_input(self) -> None:
        command = self._command
        if self._input_ends and not self._input and not command.terminal and command.to >= 0:
            command.end_input()

    def _obey(self, kind: bytes, data: bytes) -> None:
        command = self._command
        if kind == INPUT and data:
            if not self._input_ends:
                self._input += data
        elif kind == INPUT and command.terminal:
            self._input += b"\x04"  # as a user would type it
        elif kind == INPUT:
            self._input_ends = True
            self._end_input()
        elif kind == RESIZE and command.terminal and len(data) == len(size(0, 0)):
            command.resize(data)
        elif kind == SIGNAL and data and data[0] in _SIGNALS:
            command.signal(data[0])
