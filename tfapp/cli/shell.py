"""The streams, the environment and the folders of this process, for a command."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from tfapp.launch.caller import Caller, calling_process


class Shell(Caller):
    """The streams and the environment of a command."""

    def print(self, text: str, end: str = "\n") -> None:
        """Prints a result to standard output. When the reader has gone, the command goes on, and
        its exit code still says how it ended."""
        try:
            print(text, end=end, file=self.out)
        except BrokenPipeError:
            self.reader_has_gone(self.out)

    @property
    def width(self) -> int | None:
        """The columns of the terminal that results are printed to; None where it is none."""
        from tfapp.cli.console import terminal_width

        return terminal_width(self.out, self.environ)

    def flush(self) -> None:
        """Writes all results to standard output, if it still has a reader."""
        try:
            self.out.flush()
        except BrokenPipeError:
            self.reader_has_gone(self.out)

    def reader_has_gone(self, stream: TextIO) -> None:
        """Discards everything that is written to `stream` from now on. Without this, Python would
        report an error when it flushes the standard streams at exit."""
        if stream in (sys.stdout, sys.stderr):
            _into_the_void(stream)


def current_shell() -> Shell:
    _open_closed_streams()
    return calling_process(Shell)


def _into_the_void(stream: TextIO) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _open_closed_streams() -> None:
    """Opens /dev/null in place of standard streams that are closed, as after `>&-`. Otherwise the
    next file that is opened would get the stream's number, and would be taken for it."""
    opened = os.open(os.devnull, os.O_RDWR)
    while opened <= 2:
        os.set_inheritable(opened, True)
        opened = os.open(os.devnull, os.O_RDWR)
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
