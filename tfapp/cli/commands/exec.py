"""Runs COMMAND in the container of an instance, beside its program: with the program's environment,
in its working folder. Without COMMAND it is a shell. Its exit code is that of the command.

Where both standard input and output are a terminal, the command has one too. Else its output comes
as it is, byte by byte, and Ctrl-C is sent to it. All that it has started ends with it, with this
command, and with the program.

Only who has created the application may do this: by a key in TFAPP_HOME. Each use stands in the
timeline. It is on with the local engine; with others, site.global.exec: true switches it on.

  tfapp exec mnist worker/0
  tfapp exec mnist worker/0 -- nvidia-smi
  tfapp exec mnist worker/0 -- tar c logs | tar x
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfapp.cli.flags import add_name, engine_of
from tfapp.cli.shell import Shell
from tfapp.errors import ExitCode
from tfapp.ready import ready

if TYPE_CHECKING:
    from tfapp.contract.channel import Channel

_IN, _OUT, _ERR = 0, 1, 2
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("instance", metavar="INSTANCE", help="the instance, such as worker/0")
    parser.set_defaults(passed=[])
    parser.usage = "tfapp exec NAME INSTANCE [options] [-- COMMAND [ARGUMENT ...]]"


def run(args: argparse.Namespace, shell: Shell) -> int:
    from tfapp.contract.channel import START
    from tfapp.contract.sessions import Command
    from tfapp.engines.control import session

    terminal = os.isatty(_IN) and os.isatty(_OUT)
    engine = engine_of(args, shell)
    with session(engine, args.name, args.instance, shell.home) as channel:
        columns, rows = os.get_terminal_size(_OUT) if terminal else (80, 24)
        term = shell.environ.get("TERM", "") or "dumb"
        command = Command(tuple(args.passed), term if terminal else "", rows, columns)
        channel.put(START, command.encoded())
        try:
            with _raw(terminal):
                return _Passing(channel, terminal).run()
        except BrokenPipeError:  # nobody reads the output any more
            shell.reader_has_gone(shell.out)
            return 128 + signal.SIGPIPE


class _EndedError(BaseException):
    """This process is asked to end by a signal."""


@contextlib.contextmanager
def _raw(terminal: bool) -> Iterator[None]:
    """In the `with` block each key goes to the command as it is, Ctrl-C too."""
    if not terminal:
        yield
        return
    import termios
    import tty

    def end(number: int, _: object) -> None:
        raise _EndedError(number)

    before = termios.tcgetattr(_IN)
    earlier = {number: signal.signal(number, end) for number in _ENDING}
    ended = 0
    try:
        tty.setraw(_IN, termios.TCSADRAIN)  # what was typed meanwhile stays
        yield
    except _EndedError as error:
        ended = error.args[0]
    finally:
        termios.tcsetattr(_IN, termios.TCSADRAIN, before)
        for number, handler in earlier.items():
            signal.signal(number, handler)
    if ended:
        os.kill(os.getpid(), ended)


class _Passing:
    """Passes on what both sides say."""

    def __init__(self, channel: Channel, terminal: bool):
        self._channel = channel
        self._terminal = terminal
        self._asked: list[int] = []  # signals that have come
        self._wakes, self._waker = socket.socketpair()  # readable when one has

    def run(self) -> int:
        """Until the command has ended. Its exit code."""
        number = signal.SIGWINCH if self._terminal else signal.SIGINT
        before = signal.getsignal(number)
        self._waker.setblocking(False)
        with self._wakes, self._waker:
            if before is not signal.SIG_IGN:
                signal.signal(number, self._note)
            try:
                return self._pass_on()
            finally:
                signal.signal(number, before)

    def _note(self, number: int, _: object) -> None:
        if self._asked.count(signal.SIGINT) > 1:
            raise KeyboardInterrupt
        self._asked.append(number)
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"1")

    def _pass_on(self) -> int:
        from tfapp.contract.channel import CHUNK, ERRORS, EXIT, INPUT, OUTPUT, RESIZE, SIGNAL, size

        channel, open_input = self._channel, True
        outputs = {OUTPUT: _OUT, ERRORS: _ERR}
        while True:
            files = {self._wakes.fileno(): select.POLLIN}
            if open_input and not channel.full:
                files[_IN] = select.POLLIN
            awake = channel.wait(files)
            if self._wakes.fileno() in awake:
                self._wakes.recv(CHUNK)
                if self._terminal:
                    columns, rows = os.get_terminal_size(_OUT)
                    channel.put(RESIZE, size(rows, columns))
                else:
                    channel.put(SIGNAL, bytes((signal.SIGINT,)))
            if _IN in awake:
                try:
                    data = os.read(_IN, CHUNK)
                except OSError:  # the terminal is gone
                    data = b""
                open_input = bool(data)
                channel.put(INPUT, data)
            for kind, data in channel.take():
                if kind in outputs:
                    _write(outputs[kind], data)
                elif kind == EXIT:
                    return data[0] if data else ExitCode.INTERNAL_ERROR


def _write(number: int, data: bytes) -> None:
    """Also where somebody else has made it non-blocking, as a shell may."""
    while data:
        try:
            data = data[os.write(number, data) :]
        except BlockingIOError:
            ready(writes=[number])
