"""What a command knows of the world outside: streams, environment, folders. All of it comes in
here, so that nothing below reads the environment or the working directory by itself."""

from __future__ import annotations

import dataclasses
import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tfapp.engines.base import Engine


@dataclasses.dataclass(frozen=True)
class Shell:
    """Where a command was called. `home` is TFAPP_HOME, which need not exist yet."""

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    cwd: Path
    home: Path
    user: str
    python: str

    def print(self, text: str) -> None:
        """A result, on standard output."""
        print(text, file=self.out)

    def write(self, data: bytes) -> None:
        """Part of a result as it is, on standard output, at once."""
        self.out.flush()
        self.out.buffer.write(data)
        self.out.buffer.flush()

    def note(self, text: str) -> None:
        """Anything that is not a result, on standard error. If nobody reads that any more, the
        exit code still says how it ended."""
        try:
            print(text, file=self.err, flush=True)
        except BrokenPipeError:
            _into_the_void(self.err)

    def drop_output(self) -> None:
        """From now on what is written to standard output goes nowhere: its reader has gone, or
        its disk is full. Python flushes it once more at exit and complains when it cannot."""
        if self.out is sys.stdout:
            _into_the_void(self.out)

    def engine(self, name: str) -> Engine:
        """The engine `name` with this shell's home. UsageError when there is none of it."""
        from tfapp.engines import open_engine

        return open_engine(name, self.home, self.environ)


def current_shell() -> Shell:
    """The shell of this process."""
    _open_closed_streams()
    home = os.environ.get("TFAPP_HOME")
    return Shell(
        out=sys.stdout,
        err=sys.stderr,
        environ=dict(os.environ),
        cwd=Path.cwd(),
        home=Path(home).absolute() if home else Path.home() / ".tfapp",
        user=_user(),
        python=sys.executable,
    )


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


def _user() -> str:
    try:
        name = getpass.getuser()
        name.encode()
    except (KeyError, OSError, UnicodeEncodeError):  # no passwd entry, as in many images
        return str(os.getuid())
    return name
