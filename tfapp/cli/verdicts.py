"""How an application ended, said to a person and as an exit code."""

from __future__ import annotations

from tfapp.cli.console import state_style, style
from tfapp.cli.shell import Shell
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import ExitCode, TimedOutError


def print_verdict(shell: Shell, status: ApplicationStatus, shown: str = "") -> None:
    """The verdict on standard error, after the last lines of the program that decided it, unless
    its output (that of instance `shown`) has been printed anyway."""
    verdict = status.verdict
    if verdict is None:
        shell.note(f"{status.name}: {status.state}")
        return
    cause = verdict.cause
    if cause is not None and cause.last_lines and cause.instance != shown:
        shell.note(f"last lines of {cause.instance}:")
        shell.note("\n".join(f"  {line}" for line in cause.last_lines.splitlines()))
    summary = style(verdict.summary, state_style(verdict.state), shell.err, shell.environ)
    shell.note(f"{status.name}: {summary}")


def verdict_code(status: ApplicationStatus) -> int:
    """The exit code of a command whose result is the application's end."""
    return status.verdict.exit_code if status.verdict else ExitCode.FAILED


def not_running_in_time(name: str, seconds: float) -> TimedOutError:
    """The error of `--wait`."""
    return TimedOutError(
        f"{name} is not running after {seconds:g} s; it goes on",
        f"`tfapp status {name}` says what it waits for, `tfapp stop {name}` ends it.",
    )
