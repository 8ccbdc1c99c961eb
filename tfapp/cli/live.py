"""Following an application to its end: its state and tfapp's own lines on standard error, the
chief's output on standard output, Ctrl-C in between."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tfapp.cli.console import Row, Show, is_terminal, live_rows
from tfapp.cli.following import Feed, has_ended, is_running
from tfapp.cli.log_printer import LogPrinter
from tfapp.cli.outputs import primary_instance
from tfapp.cli.shell import Shell
from tfapp.cli.stopper import Stopper
from tfapp.cli.verdicts import not_running_in_time, print_verdict, verdict_code
from tfapp.contract.pages import exported_pages
from tfapp.contract.states import FORMING, RUNNING
from tfapp.contract.status import ApplicationStatus, InstanceStatus, Moment
from tfapp.engines.base import Application, Engine
from tfapp.errors import ExitCode, UnavailableError

# Seconds between two looks at a growing log. What changes in between is shown together.
LOOK_EVERY = 0.05
PREPARING_EVERY = 30.0  # seconds between two plain lines on what a component prepares


def follow(
    shell: Shell,
    engine: Engine,
    application: Application,
    wait: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    stopper: Stopper | None = None,
) -> int:
    """Follows a run to its verdict and returns its exit code.

    `wait`: TimedOutError when it is not RUNNING after so many seconds; it goes on.
    The first Ctrl-C stops the application, the second one without grace; then the exit code is
    130, whatever the verdict. `stopper`: one that is entered already.
    """
    deadline = None if wait is None else clock() + wait
    with contextlib.ExitStack() as stack:
        stopper = stopper or stack.enter_context(Stopper(shell, engine, application.name))
        for link in application.links:
            shell.note(f"{application.name}: {link.address}")
        view = _View(shell, engine, application, stack)
        feed = Feed(engine, application.name, application.run)
        with contextlib.suppress(EOFError):
            while True:
                view.step(feed)
                if stopper.asked:
                    view.end_rows()  # they would be drawn over what is said now
                stopper.act()
                if deadline is not None and not view.was_running and clock() >= deadline:
                    raise not_running_in_time(application.name, wait or 0)
        view.finish()
    print_verdict(shell, view.application.status, shown=view.shown_instance)
    return ExitCode.INTERRUPTED if stopper.asked else verdict_code(view.application.status)


class _View:
    """What of the application has been shown so far. A terminal gets rows that change in place
    until the programs run, and their output only then: it must not be written between rows."""

    def __init__(
        self, shell: Shell, engine: Engine, application: Application, stack: contextlib.ExitStack
    ):
        self.application = application
        self.shown_instance = ""
        self.was_running = False
        self._shell, self._engine = shell, engine
        self._printer: LogPrinter | None = None
        self._without_output = False  # the engine cannot give it, for this reason:
        self._reason = ""
        self._states = StateLines(shell)
        self._rows = stack.enter_context(contextlib.ExitStack())
        self._show: Show | None = None
        if is_terminal(shell.err, shell.environ):
            self._show = self._rows.enter_context(live_rows(shell.err))

    def step(self, feed: Feed) -> None:
        """Waits a moment for a change of state, and shows it and all output."""
        application = feed.next(LOOK_EVERY)
        if application is not None:
            self.application = application
            self.was_running = self.was_running or is_running(application)
            self._show_states(application)
        if self._show is None:
            self._show_output()

    def _show_states(self, application: Application) -> None:
        if self._show is None:
            self._states.update(application.status, application.waits, self.shown_instance)
            return
        self._show(component_rows(application.status, application.waits))
        self._states.skip(application.status, application.waits)
        if self.was_running or has_ended(application):
            self.end_rows()
            for subject, address in _pages(application.status):
                self._shell.note(f"{subject}: {address}")

    def end_rows(self) -> None:
        """From now on there are plain lines, in a terminal too."""
        self._show = None
        self._rows.close()

    def _show_output(self, final: bool = False) -> None:
        primary = primary_instance(self.application.status)
        if primary is None or self._without_output:
            return
        if self._printer is None:
            self._printer = LogPrinter(
                self._shell, self._engine, self.application, primary.instance, parted=True
            )
        try:
            self._printer.print_new(final)
        except BrokenPipeError:  # as behind `| head`; the verdict is wanted all the same
            self._shell.drop_output()
        except UnavailableError as error:  # and here
            self._without_output = True
            if primary.container and error.message != self._reason:
                self._shell.note(f"{primary.instance}: {error.message}")
                self._reason = error.message
        if self._printer.found:
            self.shown_instance = primary.instance

    def finish(self) -> None:
        """Shows what was written up to the end, also where it could not be had before."""
        self.end_rows()
        self._without_output = False
        self._show_output(final=True)
        if self._printer is not None:
            self._printer.close()


class StateLines:
    """Plain lines for a pipe: one for what makes the application start again, one when its state
    changes, one when all instances of a component have come to the same state, one for each
    instance that ends badly, and now and then one for a component that takes long to prepare."""

    def __init__(self, shell: Shell):
        self._shell = shell
        self._said: dict[str, str] = {}
        self._told = 0.0  # seconds since 1970: what of the timeline is behind
        self._prepared: dict[str, float] = {}  # when it was told last what a component prepares

    def update(self, status: ApplicationStatus, waits: str = "", shown: str = "") -> None:
        """Prints what is new in `status`, and what the application waits for. The log of the
        instance `shown` is printed as well: what that prepares is in it."""
        for moment in _turns(status):
            if moment.time > self._told:
                self._shell.note(f"{status.name}: {moment.text}")
        for subject, text in _state_words(status, waits):
            if self._said.get(subject) != text:
                self._shell.note(f"{subject}: {text}")
        for component, (instance, text) in preparations(status).items():
            due = self._prepared.get(component, -math.inf) + PREPARING_EVERY
            if instance != shown and status.updated >= due:
                self._prepared[component] = status.updated
                self._shell.note(f"{instance}: {text}")
        self.skip(status, waits)

    def skip(self, status: ApplicationStatus, waits: str = "") -> None:
        """Takes note of `status` as of one that was shown otherwise."""
        self._told = max((moment.time for moment in status.timeline), default=self._told)
        self._said.update(_state_words(status, waits))


def _turns(status: ApplicationStatus) -> Iterator[Moment]:
    """What has happened to an application that goes on, but for what its states tell."""
    if status.state in (FORMING, RUNNING):
        for moment in status.timeline:
            if not moment.text.startswith("generation "):
                yield moment


def _state_words(status: ApplicationStatus, waits: str = "") -> Iterator[tuple[str, str]]:
    yield status.name, status.state
    if waits:
        yield f"{status.name} waits", waits
    for component, states in component_states(status).items():
        if len(states) == 1:
            state, count = next(iter(states.items()))
            yield component, f"{count} {state}"
    for instance in status.instances:
        if instance.state in ("FAILED", "LOST"):
            text = instance.exit.text if instance.exit else ""
            yield instance.instance, ": ".join(filter(None, (instance.state, text)))
    yield from _pages(status)


def _pages(status: ApplicationStatus) -> Iterator[tuple[str, str]]:
    """What a browser can be pointed at, as soon as the programs run that show it."""
    if status.state != "RUNNING":
        return
    for instance in status.instances:
        for address in exported_pages(instance.exports):
            yield f"{instance.instance} shows", address


def component_states(status: ApplicationStatus) -> dict[str, Counter[str]]:
    """How many instances of each component are in which state, in job order."""
    found: dict[str, Counter[str]] = {}
    for instance in status.instances:
        found.setdefault(instance.component, Counter())[instance.state] += 1
    return found


def preparations(status: ApplicationStatus) -> dict[str, tuple[str, str]]:
    """What components prepare before their instances are there, by the first instance that does:
    "worker": ("worker/0", "pulling image mine:1: 1 of 2 layers, 30 of 120 MiB (and 1 more)")."""
    found: dict[str, list[InstanceStatus]] = {}
    for instance in status.instances:
        if instance.preparing:
            found.setdefault(instance.component, []).append(instance)
    return {
        component: (first.instance, first.preparing + (f" (and {len(more)} more)" if more else ""))
        for component, (first, *more) in found.items()
    }


def component_rows(status: ApplicationStatus, waits: str = "") -> list[Row]:
    """One row for the application, with what it `waits` for, and one for each component, with
    what it prepares: "worker", "1 WAITING, 1 RUNNING"."""
    rows = [(status.name, f"{status.state}: {waits}" if waits else status.state)]
    prepared = preparations(status)
    for component, states in component_states(status).items():
        words = ", ".join(f"{n} {state}" for state, n in states.items())
        if component in prepared:
            words += f": {prepared[component][1]}"
        rows.append((component, words))
    return rows
