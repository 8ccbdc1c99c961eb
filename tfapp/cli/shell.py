"""The world of a command: the streams, the environment and the folders of this process."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from tfapp.errors import UnavailableError
from tfapp.launch.caller import Caller, calling_process


class Shell(Caller):
    """The streams and the environment of a command."""

    def print(self, text: str, end: str = "\n") -> None:
        """A result, on standard output. If nobody reads that any more, the command goes on, and
        its exit code still says how it ended."""
        try:
            print(text, end=end, file=self.out)
        except BrokenPipeError:
            self.reader_has_gone(self.out)

    def flush(self) -> None:
        """Brings all results to standard output, if anybody reads it."""
        try:
            self.out.flush()
        except BrokenPipeError:
            self.reader_has_gone(self.out)

    def reader_has_gone(self, stream: TextIO) -> None:
        """Discards everything that is written to `stream` from now on. Python flushes the standard
        streams once more at exit and complains when it cannot."""
        if stream in (sys.stdout, sys.stderr):
            _into_the_void(stream)


def current_shell() -> Shell:
    """The shell of this process."""
    _open_closed_streams()
    return calling_process(Shell)


def require_working_folder() -> None:
    """UnavailableError when the folder in which tfapp was called has been deleted."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise UnavailableError(
            "the folder in which tfapp was called does not exist any more", "Change to another one."
        ) from error


def _into_the_void(stream: TextIO) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _open_closed_streams() -> None:
    """Standard streams that are closed, as after `>&-`, become /dev/null: Python has None in
    their place, and the next file to be opened would be taken for one of them."""
    opened = os.open(os.devnull, os.O_RDWR)
    while opened <= 2:
        os.set_inheritable(opened, True)
        opened = os.open(os.devnull, os.O_RDWR)
    os.close(opened)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
