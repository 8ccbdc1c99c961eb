"""All exceptions that tfapp raises on purpose, and all exit codes."""

from __future__ import annotations

import enum
from typing import Any


class ExitCode(enum.IntEnum):
    """Exit codes of the `tfapp` command. The numbers are those of Apache Slider where it had
    them."""

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


EXIT_CODE_MEANINGS: dict[ExitCode, str] = {
    ExitCode.SUCCESS: "success; for `create`, `start`, `run` and `wait`: the application succeeded",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.NOT_FOUND: "a file, export group or instance that was asked for does not exist",
    ExitCode.UNREACHABLE: "the application's master does not answer",
    ExitCode.INTERNAL_ERROR: "a bug in tfapp; the message says where the report is",
    ExitCode.UNAVAILABLE: "this machine or cluster cannot run it: disk full, folder not writable, "
    "a library missing, too few GPUs",
    ExitCode.FAILED: "the application failed",
    ExitCode.KILLED: "the application was stopped before it succeeded",
    ExitCode.TIMED_OUT: "a time limit ran out",
    ExitCode.UNKNOWN_APPLICATION: "there is no application of this name",
    ExitCode.BAD_STATE: "the application is not in a state in which this can be done",
    ExitCode.IN_USE: "the application is running",
    ExitCode.EXISTS: "an application, or a file or folder, of this name exists already",
    ExitCode.BAD_CONFIGURATION: "the package, its configuration or its resources are wrong",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.FALSE: "`exists --live`: the application exists and is not running",
}


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

    def __init__(self, problems: tuple):
        self.problems = tuple(problems)
        count = sum(1 for problem in self.problems if problem.severity == "error")
        super().__init__(f"{count} error{'s' if count != 1 else ''} in {self.what}")


class ApplicationFailedError(TfappError):
    """The application has ended without success. `result`: its `tfapp.Result`."""

    def __init__(self, result: Any):
        self.result = result
        lines = [result.summary]
        if result.last_lines:
            lines += [f"last lines of {result.cause.instance}:"]
            lines += [f"  {line}" for line in result.last_lines.splitlines()]
        super().__init__("\n".join(lines), exit_code=ExitCode(result.exit_code))


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
