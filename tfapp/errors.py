"""All exceptions that tfapp raises on purpose, and all exit codes."""

from __future__ import annotations

import builtins
import contextlib
import enum
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, cast


class ExitCode(enum.IntEnum):
    """Exit codes of the `tfapp` command (docs/commands.md): Apache Slider's where it had them."""

    SUCCESS = 0
    USAGE = 2
    NOT_FOUND = 44
    UNREACHABLE = 48
    INTERNAL_ERROR = 50
    UNAVAILABLE = 53
    FAILED = 65
    KILLED = 66
    TIMED_OUT = 67
    UNKNOWN_APPLICATION = 69
    BAD_STATE = 70
    IN_USE = 73
    EXISTS = 75
    BAD_CONFIGURATION = 77
    INTERRUPTED = 130
    FALSE = 255


_SCREEN = 40  # lines of an error in a notebook


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, and what is below it: what it was raised from, and what libraries quote in it."""
    unseen: list[Any] = [error]
    seen: set[int] = set()
    while unseen:
        found = unseen.pop()
        if isinstance(found, BaseException) and id(found) not in seen:
            seen.add(id(found))
            yield found
            quoted = (*found.args, getattr(found, "reason", None))
            unseen += [*quoted, found.__cause__, found.__context__]


class TfappError(Exception):
    """The base class of tfapp's errors. `message`: one sentence. `hint`: what to do about it.
    `exit_code`: the exit code of a command that fails with it.

    Errors in a user's files are reported as `Problem`s (tfapp.problems), not as exceptions.
    """

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, message: str, hint: str = "", exit_code: ExitCode | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        # Python's own way is to call the class with `args`, which other arguments have made.
        return _unpickled, (type(self), self.args, self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: one screen, from the cell to the call of tfapp."""
        import traceback

        told = traceback.TracebackException.from_exception(self)
        told.stack[:] = _cells(told.stack)
        lines = "".join(told.format()).splitlines()
        return lines if len(lines) <= _SCREEN else ["...", *lines[-_SCREEN:]]


def _cells(stack: Iterable[Any]) -> Iterator[Any]:
    """The frames between IPython, which runs a cell, and tfapp. A cell's file is called In[3]."""
    ipython: Any = sys.modules.get("IPython")
    for frame in stack:
        if frame.filename.startswith(os.path.dirname(__file__)):
            return
        if not frame.filename.startswith(os.path.dirname(ipython.__file__)):
            frame.filename = cell_name(frame.filename)
            yield frame


def cell_name(file: str) -> str:
    """ "In[3]" for the file of a cell of a notebook; any other name as it is."""
    notebook: Any = sys.modules.get("IPython")
    try:
        found = notebook.get_ipython().compile.format_code_name(file)
    except AttributeError:  # no notebook, or one of long ago
        return file
    return str(found[1]) if found else file


def _unpickled(kind: type[TfappError], args: tuple[Any, ...], state: dict[str, Any]) -> TfappError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(TfappError):
    """The arguments of a command or a function are wrong."""

    exit_code = ExitCode.USAGE


class UnavailableError(TfappError):
    """This machine or the cluster lacks something that is needed."""

    exit_code = ExitCode.UNAVAILABLE


class ForbiddenError(UnavailableError):
    """The cluster does not allow the user to do this."""


class UnreachableError(TfappError, ConnectionError):
    """The application's master does not answer."""

    exit_code = ExitCode.UNREACHABLE


class SilentError(UnreachableError):
    """A call to the application's master has no answer."""


class RefusedError(TfappError, ValueError):
    """The application's master refused a call. The message is the master's."""

    exit_code = ExitCode.BAD_STATE


class NotFoundError(TfappError, LookupError):
    """A file, export, instance or other object that was named does not exist."""

    exit_code = ExitCode.NOT_FOUND


class UnknownApplicationError(TfappError, LookupError):
    """There is no application of this name."""

    exit_code = ExitCode.UNKNOWN_APPLICATION


class BadStateError(TfappError):
    """The application is in a state in which this cannot be done."""

    exit_code = ExitCode.BAD_STATE


class InUseError(TfappError):
    """The application is running, and must not be for this."""

    exit_code = ExitCode.IN_USE


class ExistsError(TfappError):
    """An application, a file or a folder of this name exists already."""

    exit_code = ExitCode.EXISTS


class TimedOutError(TfappError, TimeoutError):
    """A time limit ran out."""

    exit_code = ExitCode.TIMED_OUT


class InvalidPackageError(TfappError):
    """The package has errors. `problems`: all findings, each with its position."""

    exit_code = ExitCode.BAD_CONFIGURATION
    what = "the package"

    def __init__(self, problems: tuple[Any, ...]):
        self.problems = tuple(problems)
        count = sum(1 for problem in self.problems if problem.severity == "error")
        super().__init__(f"{count} error{'s' if count != 1 else ''} in {self.what}")


class ApplicationFailedError(TfappError):
    """The application has ended without success. `result`: its `tfapp.Result`. `__cause__`: the
    exception of the program that failed, as a `RemoteError`, if its last lines have one."""

    def __init__(self, result: Any):
        self.result = result
        self.__cause__ = result.raised
        lines = [result.summary]
        if result.last_lines and self.__cause__ is None:
            lines += [f"last lines of {result.cause.instance}:"]
            lines += [f"  {line}" for line in result.last_lines.splitlines()]
        super().__init__("\n".join(lines), exit_code=ExitCode(result.exit_code))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


class RemoteError(Exception):
    """An exception that has ended a program. It is of the class of that exception as well if Python
    has it built in, but without its attributes. `instance`: "worker/0". `traceback`: as text."""

    def __init__(self, instance: str, traceback: str):
        super().__init__(instance, traceback)
        self.instance = instance
        self.traceback = traceback

    def __str__(self) -> str:
        return f"in {self.instance}:\n{self.traceback}"

    def __reduce__(self) -> tuple[Any, ...]:
        return remote_error, (type(self).__name__, self.instance, self.traceback)


def remote_error(kind: str, instance: str, traceback: str) -> RemoteError:
    """A RemoteError for an exception whose class is called `kind`."""
    built_in = getattr(builtins, kind, None)
    if isinstance(built_in, type) and issubclass(built_in, Exception):
        # SyntaxError and a few others need attributes of their own.
        with contextlib.suppress(TypeError, ValueError):
            both = type(kind, (RemoteError, built_in), {"__module__": built_in.__module__})
            return cast(RemoteError, both(instance, traceback))
    return RemoteError(instance, traceback)


class FeedError(TfappError):
    """Data from Spark cannot be fed, or a program returned wrong results for it. Programs raise it
    too, if the feed has failed."""

    exit_code = ExitCode.FAILED


class ProgramError(TfappError):
    """A program cannot be sent to containers, because it cannot be pickled or is not a program; or
    it calls tfapp in a wrong way."""

    exit_code = ExitCode.BAD_CONFIGURATION


class ReturnedError(TfappError, ValueError):
    """The value that a program returned is not available: it is too large, or not plain data."""
