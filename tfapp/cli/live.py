"""Follows an application that a command launched: to its end, until it runs, or not at all. On a
terminal states change in place; Ctrl-C stops the application."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable

from tfapp.cli.console import Row, Show, is_terminal, live_rows, state_style, style
from tfapp.cli.json_output import application as as_json
from tfapp.cli.shell import Shell
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.base import Application, Engine
from tfapp.errors import ExitCode, UsageError
from tfapp.interrupts import ctrl_c_asks
from tfapp.launch import on_end
from tfapp.launch.display import (
    PlainDisplay,
    component_states,
    last_lines,
    measured_component,
    pages,
    preparations,
)
from tfapp.launch.follow import (
    States,
    Stopper,
    follow,
    has_ended,
    is_running,
    not_running_in_time,
    told_that_it_goes_on,
    wait_until,
)
from tfapp.launch.sources import package_of
from tfapp.page.document import advice_in_words, outputs_in_words


def launch_and_stay(
    name: str,
    start: Callable[[], Application],
    engine: Engine,
    args: argparse.Namespace,
    shell: Shell,
) -> int:
    """Launches the application `name` by `start`, then does what `--detach`, `--wait` and
    `--format` say. Returns the exit code."""
    if args.format == "json" and not args.detach:
        raise UsageError(
            "--format json: standard output has what the program writes",
            "Give --detach as well, or call `tfapp status NAME --format json` afterwards.",
        )
    if args.detach and engine.stays:
        raise UsageError(
            f"--detach: on the engine {engine.name} the command is the driver, and the application "
            "ends with it",
            "Leave it out; `nohup tfapp ... &` runs the command itself in the background.",
        )
    if not args.detach:
        # A Ctrl-C while it is launched stops it once it is.
        stopper = stopper_for(shell, engine, name)
        with ctrl_c_asks(stopper.ask):
            return follow_to_verdict(shell, engine, start(), stopper, args.wait)
    application = start()
    _tell_links(application, shell)
    if args.wait is not None:
        return _wait_for_running(application, engine, args, shell)
    if args.format == "json":
        shell.print(as_json(application, package_of(shell, engine, application)))
    shell.note(f"{application.name}: submitted; `tfapp logs -f {application.name}` follows it")
    return ExitCode.SUCCESS


def _wait_for_running(
    application: Application, engine: Engine, args: argparse.Namespace, shell: Shell
) -> int:
    states = States(engine, application.name, application.run)
    reached = wait_until(states, is_running, timeout=args.wait)
    if reached is None:
        raise not_running_in_time(application.name, args.wait)
    if args.format == "json":
        shell.print(as_json(reached, package_of(shell, engine, reached)))
    if has_ended(reached):
        print_verdict(shell, reached.status)
        return verdict_code(reached.status)
    shell.note(f"{application.name}: RUNNING")
    return ExitCode.SUCCESS


def stopper_for(shell: Shell, engine: Engine, name: str) -> Stopper:
    """The Stopper of the application `name`, with the messages of the command line."""
    return Stopper(shell, engine, name, "stopped by Ctrl-C", "(Ctrl-C once more: at once)")


def follow_to_verdict(
    shell: Shell,
    engine: Engine,
    application: Application,
    stopper: Stopper,
    wait: float | None = None,
) -> int:
    """Follows a run to its verdict and returns its exit code; 130 when it was asked to stop,
    whatever the verdict. `wait`: TimedOutError when it is not RUNNING after so many seconds."""
    _tell_links(application, shell)
    display = LiveDisplay(shell, engine, application, stopper)
    with told_that_it_goes_on(engine, application.name), display:
        ended = follow(engine, application, display, stopper, wait)
        display.close()
    print_verdict(shell, ended.status, shown=display.shown_instance)
    on_end.run_command(shell, engine, ended)
    if ended.status.verdict is not None and ended.status.verdict.exit_code == ExitCode.FAILED:
        from tfapp.launch.sources import missed_file

        if hint := missed_file(shell, engine.name, ended):
            shell.note(hint)
    return ExitCode.INTERRUPTED if stopper.asked else verdict_code(ended.status)


def _tell_links(application: Application, shell: Shell) -> None:
    for link in application.links:
        shell.note(f"{application.name}: {link.address}")


class LiveDisplay(PlainDisplay):
    """On a terminal, rows that change in place until the programs run, and their output only then:
    it must not be written between rows. Elsewhere plain lines."""

    def __init__(self, shell: Shell, engine: Engine, application: Application, stopper: Stopper):
        super().__init__(shell, engine, application)
        self._shell, self._stopper = shell, stopper
        self._rows = contextlib.ExitStack()
        self._show_rows: Show | None = None

    def __enter__(self) -> LiveDisplay:
        if is_terminal(self._shell.err, self._shell.environ):
            self._show_rows = self._rows.enter_context(live_rows(self._shell.err))
        return self

    def __exit__(self, *_: object) -> None:
        self._end_rows()

    def show(self, application: Application) -> None:
        """Shows its state as rows, or the changes as lines."""
        if self._show_rows is None:
            super().show(application)
            return
        self.application = application
        status = application.status
        self._show_rows(component_rows(status, application.waits))
        self._states.skip(status, application.waits)
        if is_running(application) or has_ended(application):
            self._end_rows()
            self._states.tell_turns(status)  # there is no room for them between rows
            self._states.tell_metrics(status)
            for subject, address in pages(status):
                self._shell.note(f"{subject}: {address}")

    def show_output(self) -> None:
        """Once there are no rows."""
        if self._show_rows is None:
            super().show_output()
        if self._stopper.asked:
            self._end_rows()  # they would be drawn over what is said now

    def close(self) -> None:
        """Ends the rows, then shows the last output."""
        self._end_rows()
        super().close()

    def _end_rows(self) -> None:
        """From now on there are plain lines, in a terminal too."""
        self._show_rows = None
        self._rows.close()


def component_rows(status: ApplicationStatus, waits: str = "") -> list[Row]:
    """One row for the application, with what it `waits` for, and one for each component, with
    what it prepares or reports: "worker", "2 RUNNING: step 1200, 35.1 steps/s, loss 0.31"."""
    rows = [(status.name, f"{status.state}: {waits}" if waits else status.state)]
    prepared = preparations(status)
    measured = measured_component(status)
    for component, states in component_states(status).items():
        words = ", ".join(f"{n} {state}" for state, n in states.items())
        if component in prepared:
            words += f": {prepared[component][1]}"
        elif component in measured:
            words += f": {measured[component]}"
        rows.append((component, words))
    return rows


def print_verdict(shell: Shell, status: ApplicationStatus, shown: str = "") -> None:
    """The verdict on standard error, after the last lines of the program that decided it, unless
    its output (that of instance `shown`) has been printed anyway."""
    verdict = status.verdict
    if verdict is None:
        shell.note(f"{status.name}: {status.state}")
        return
    for line in last_lines(verdict, shown):
        shell.note(line)
    summary = style(verdict.summary, state_style(verdict.state), shell.err, shell.environ)
    shell.note(f"{status.name}: {summary}")
    for line in (*outputs_in_words(status), *advice_in_words(status)):
        shell.note(line)


def verdict_code(status: ApplicationStatus) -> int:
    """The exit code of a command whose result is the application's end."""
    return status.verdict.exit_code if status.verdict else ExitCode.FAILED
