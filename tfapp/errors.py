"""Every exception that tfapp raises on purpose and every exit code, in one table."""

from __future__ import annotations

import enum
from typing import Any


class ExitCode(enum.IntEnum):
    """Exit codes of the `tfapp` command. The numbers are Apache Slider's where it had one."""

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
    """The world is not as needed: one sentence, what to do about it, and an exit code.

    A user's wrong file is not an exception but a `Problem` (tfapp.problems).
    """

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, message: str, hint: str = "", exit_code: ExitCode | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(TfappError):
    """The command line asks for something that cannot be meant."""

    exit_code = ExitCode.USAGE


class UnavailableError(TfappError):
    """The machine or the cluster lacks what is needed."""

    exit_code = ExitCode.UNAVAILABLE


class ForbiddenError(UnavailableError):
    """The cluster does not allow it to this user."""


class UnreachableError(TfappError, ConnectionError):
    """The application's master does not answer."""

    exit_code = ExitCode.UNREACHABLE


class RefusedError(TfappError, ValueError):
    """The application's master answered a call with no; the message has its words."""

    exit_code = ExitCode.BAD_STATE


class NotFoundError(TfappError, LookupError):
    """A thing that was named on the command line does not exist."""

    exit_code = ExitCode.NOT_FOUND


class UnknownApplicationError(TfappError, LookupError):
    """There is no application of this name."""

    exit_code = ExitCode.UNKNOWN_APPLICATION


class BadStateError(TfappError):
    """The application is not in a state in which this can be done."""

    exit_code = ExitCode.BAD_STATE


class InUseError(TfappError):
    """The application is running."""

    exit_code = ExitCode.IN_USE


class ExistsError(TfappError):
    """An application, or a file or folder, of this name exists already."""

    exit_code = ExitCode.EXISTS


class TimedOutError(TfappError, TimeoutError):
    """A time limit ran out."""

    exit_code = ExitCode.TIMED_OUT


class InvalidPackageError(TfappError):
    """The package cannot be used; `problems` says why, each with its place."""

    exit_code = ExitCode.BAD_CONFIGURATION
    what = "the package"

    def __init__(self, problems: tuple):
        self.problems = tuple(problems)
        count = sum(1 for problem in self.problems if problem.severity == "error")
        super().__init__(f"{count} error{'s' if count != 1 else ''} in {self.what}")


class ApplicationFailedError(TfappError):
    """An application that ended without success. `result`: its `tfapp.Result`."""

    def __init__(self, result: Any):
        self.result = result
        lines = [result.summary]
        if result.last_lines:
            lines += [f"last lines of {result.cause.instance}:"]
            lines += [f"  {line}" for line in result.last_lines.splitlines()]
        super().__init__("\n".join(lines), exit_code=ExitCode(result.exit_code))


class FeedError(TfappError):
    """What is fed from Spark cannot be fed, or was answered wrongly. Programs raise it too, when
    the feed has failed."""

    exit_code = ExitCode.FAILED


class ProgramError(TfappError):
    """A program that cannot be run elsewhere: it does not pickle, or is none."""

    exit_code = ExitCode.BAD_CONFIGURATION


class ReturnedError(TfappError, ValueError):
    """The value that a program returned cannot be had: it is too large, or no data."""
