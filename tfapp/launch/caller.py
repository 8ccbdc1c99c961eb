"""The caller of tfapp: streams, environment, folders. No module below reads the environment or the
working directory by itself."""

from __future__ import annotations

import codecs
import contextlib
import functools
import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

if TYPE_CHECKING:
    from tfapp.engines.base import Engine
    from tfapp.launch.defaults import Defaults


class OutputClosedError(Exception):
    """The reader of the output has gone, as in `tfapp logs -f app | head`."""


class OutputFullError(OutputClosedError):
    """The output cannot be written, such as on a full disk; that has been noted."""


@frozen
class Caller:
    """The streams, environment and folders of the process that calls tfapp. `out` and `err` are
    text streams of any kind. `home` is TFAPP_HOME, which need not exist yet; `python` is the
    interpreter of programs that name no other."""

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    cwd: Path
    home: Path
    user: str
    python: str

    def write(self, data: bytes) -> None:
        """Writes a program's output unchanged to `out`, at once. Where `out` accepts only text, as
        in a notebook, the output is decoded as UTF-8. OutputClosedError when the reader of `out`
        has gone, or cannot be written."""
        try:
            self.out.flush()
            if hasattr(self.out, "buffer"):
                self.out.buffer.write(data)
                self.out.buffer.flush()
            else:
                self.out.write(self._decoder.decode(data))
                self.out.flush()
        except BrokenPipeError as error:
            self.reader_has_gone(self.out)
            raise OutputClosedError from error
        except OSError as error:
            self.reader_has_gone(self.out)
            self.note(f"standard output cannot be written, its rest is lost: {error.strerror}")
            raise OutputFullError from error
        self._last[0] = data[-1:] or self._last[0]

    def note(self, text: str) -> None:
        """Writes a line of tfapp's own to `err`, after everything that was written to `out`
        before. Where both go to one place, it ends a line of `out` that is unfinished."""
        if self._last[0] != b"\n" and _is_one_place(self.out, self.err):
            self._last[0] = b"\n"
            text = f"\n{text}"
        with contextlib.suppress(OSError):  # said when `out` is written to again
            self.out.flush()
        try:
            print(text, file=self.err, flush=True)
        except BrokenPipeError:
            self.reader_has_gone(self.err)

    @functools.cached_property
    def _last(self) -> list[bytes]:
        """The last byte of what `write` has written."""
        return [b"\n"]

    @functools.cached_property
    def _decoder(self) -> codecs.IncrementalDecoder:
        return codecs.getincrementaldecoder("utf-8")("replace")

    def reader_has_gone(self, stream: TextIO) -> None:
        """Called when the reader of `stream` has gone. Does nothing here; the command line
        overrides it."""

    @functools.cached_property
    def defaults(self) -> Defaults:
        """The user's defaults. UsageError and InvalidPackageError when they are wrong."""
        from tfapp.launch.defaults import read_defaults

        return read_defaults(self.home, self.environ)

    def engine(self, name: str | None = None, places: Mapping[str, str] | None = None) -> Engine:
        """Opens the engine `name`, by default the user's. `places`: namespace, context and the
        like, in place of the user's defaults; see tfapp.engines.EngineOption. UsageError when there
        is no such engine."""
        from tfapp.engines import check_engine, engine_options, open_engine

        name = name or self.defaults.engine
        check_engine(name)
        mine = self.defaults.of(name)
        known = {option.name for option in engine_options(name) if option.place}
        given = {key: value for key, value in {**mine, **(places or {})}.items() if key in known}
        return open_engine(name, self.home, self.defaults.environ(self.environ), given)


def _is_one_place(out: TextIO, err: TextIO) -> bool:
    """Whether two streams lead to one terminal or one file, as after `2>&1`."""
    try:
        return out is err or os.path.samestat(os.fstat(out.fileno()), os.fstat(err.fileno()))
    except (OSError, ValueError, AttributeError):  # a stream without a file
        return False


def shown(path: Path, cwd: Path) -> str:
    """A path for a message: relative where it is below the working folder `cwd`."""
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


CallerT = TypeVar("CallerT", bound=Caller)


def require_posix(system: str) -> None:
    """UnavailableError when `system`, a value of sys.platform, is Windows. It is called before any
    module is imported that Windows lacks."""
    if system in ("win32", "cygwin"):
        raise UnavailableError(
            "tfapp does not run on Windows",
            "Call it in WSL (`wsl --install`), in a Linux container, or on a Linux host that "
            "reaches the cluster.",
        )


def calling_process(kind: type[CallerT]) -> CallerT:
    """The streams, the environment and the folders of this process. UnavailableError on
    Windows."""
    require_posix(sys.platform)
    cwd, environ = _working_folder(), dict(os.environ)
    # Before gRPC loads: with its fork handlers, one start of a process in twenty fails on Python
    # 3.9, which forks where later ones vfork.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    return kind(
        out=sys.stdout,
        err=sys.stderr,
        environ=environ,
        cwd=cwd,
        home=_home(cwd),
        user=_user(),
        python=sys.executable,
    )


def _home(cwd: Path) -> Path:
    """TFAPP_HOME, by default ~/.tfapp. A user without a home folder, as in many images, has that of
    the root folder, where a command that needs one says that it cannot be written."""
    given = os.environ.get("TFAPP_HOME")
    try:
        return cwd / given if given else Path.home() / ".tfapp"
    except (KeyError, RuntimeError):  # the first of Python 3.9
        return Path("/.tfapp")


def _working_folder() -> Path:
    """The working folder; where that has been deleted, the path it had."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD", "/"))


def require_working_folder() -> None:
    """UnavailableError when the folder in which tfapp was called has been deleted."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise UnavailableError(
            "the folder in which tfapp was called does not exist any more", "Change to another one."
        ) from error


def _user() -> str:
    try:
        name = getpass.getuser()
        name.encode()
    except (KeyError, OSError, UnicodeEncodeError):  # no passwd entry, as in many images
        return str(os.getuid())
    return name
