"""A run in plain lines: its states and tfapp's own lines on one stream, its chief's output on the
other."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator

from tfapp.contract.names import FORMING, REQUESTED, RUNNING, exported_pages
from tfapp.contract.status import (
    ApplicationStatus,
    InstanceStatus,
    Moment,
    Verdict,
    how_long,
)
from tfapp.engines.base import Application, Engine
from tfapp.errors import UnavailableError
from tfapp.launch.caller import Caller, OutputClosedError
from tfapp.launch.logs import LogPrinter, primary_instance

PREPARING_EVERY = 30.0  # seconds between two lines on what a component prepares
METRICS_EVERY = 30.0  # seconds between two lines on what a program reports

_FEW = 3  # metrics in a line


class PlainDisplay:
    """Shows an application by lines alone. It has to be closed: that shows the last output."""

    def __init__(self, caller: Caller, engine: Engine, application: Application):
        self.application = application
        self.shown_instance = ""  # whose output is shown
        self._caller, self._engine = caller, engine
        self._printer: LogPrinter | None = None
        self._printed = ""  # the instance whose output it prints
        self._without_output = False  # the engine cannot give it, for this reason:
        self._reason = ""
        self._closed_output = False
        self._states = StateLines(caller)

    def show(self, application: Application) -> None:
        self.application = application
        self._states.update(application.status, application.waits, self.shown_instance)

    def show_output(self) -> None:
        """Shows the new output of its chief, or first worker."""
        self._print_new()

    def _print_new(self, final: bool = False) -> None:
        primary = primary_instance(self.application.status)
        if primary is None or self._without_output or self._closed_output:
            return
        if self._printer is not None and self._printed != primary.instance:
            self._printer.close()
            self._printer = None  # another one is the first that takes part
        if self._printer is None:
            self._printed = primary.instance
            self._printer = LogPrinter(
                self._caller, self._engine, self.application, primary.instance, parted=True
            )
        try:
            self._printer.print_new(final)
        except OutputClosedError:  # the verdict is wanted all the same
            self._closed_output = True
        except UnavailableError as error:  # and here
            self._without_output = True
            if primary.container and error.message != self._reason:
                self._caller.note(f"{primary.instance}: {error.message}")
                self._reason = error.message
        if self._printer.found:
            self.shown_instance = primary.instance

    def close(self) -> None:
        """Shows what was written up to the end, also where it could not be had before."""
        self._without_output = False
        self._print_new(final=True)
        if self._printer is not None:
            with contextlib.suppress(OutputClosedError):
                self._printer.close()


class StateLines:
    """Prints what changes: a line for each restart of the application and its cause, for each
    change of its state, for a component when all its instances have reached the same state, and for
    each instance that ends badly. Now and then also a line for a component that takes long to
    prepare, and one for the metrics of the chief or first worker."""

    def __init__(self, caller: Caller):
        self._caller = caller
        self._said: dict[str, str] = {}
        self._told = 0.0  # seconds since 1970: what of the timeline is behind
        self._prepared: dict[str, float] = {}  # when it was told last what a component prepares
        self._measured = ""  # the last line of metrics
        self._measured_at = -math.inf

    def update(self, status: ApplicationStatus, waits: str = "", shown: str = "") -> None:
        """Prints what is new in `status`, and what the application waits for. `shown`: the instance
        whose log is printed too; its preparations stand in that log, so they get no line of their
        own."""
        self.tell_turns(status)
        self.tell_metrics(status)
        for subject, text in _state_words(status, waits):
            if self._said.get(subject) != text:
                self._caller.note(f"{subject}: {text}")
        for component, (instance, text) in preparations(status).items():
            due = self._prepared.get(component, -math.inf) + PREPARING_EVERY
            if instance != shown and status.updated >= due:
                self._prepared[component] = status.updated
                self._caller.note(f"{instance}: {text}")
        self.skip(status, waits)

    def tell_turns(self, status: ApplicationStatus) -> None:
        """Prints why it has been restarted, and the like, as far as that is new."""
        for moment in _turns(status):
            if moment.time > self._told:
                self._caller.note(f"{status.name}: {moment.text}")
        self._told = max((moment.time for moment in status.timeline), default=self._told)

    def tell_metrics(self, status: ApplicationStatus) -> None:
        """Prints the metrics of the chief, else of the first worker: every METRICS_EVERY seconds if
        they have changed, and at the end."""
        primary = primary_instance(status)
        text = measures(primary) if primary is not None else ""
        due = status.updated >= self._measured_at + METRICS_EVERY or status.verdict is not None
        if primary is not None and text and due and text != self._measured:
            self._measured, self._measured_at = text, status.updated
            self._caller.note(f"{primary.instance}: {text}")

    def skip(self, status: ApplicationStatus, waits: str = "") -> None:
        """Remembers the states in `status`, which have been shown already, by other means."""
        self._said.update(_state_words(status, waits))


def _turns(status: ApplicationStatus) -> Iterator[Moment]:
    """The events of a running application that are worth a line and that its states do not show."""
    if status.state in (FORMING, RUNNING):
        for moment in status.timeline:
            if not moment.text.startswith("generation "):
                yield moment


def _state_words(status: ApplicationStatus, waits: str = "") -> Iterator[tuple[str, str]]:
    yield status.name, status.state
    if waits:
        yield f"{status.name} waits", waits
    late_of = Counter(instance.component for instance in status.absent)
    for component, states in component_states(status, present=True).items():
        if len(states) == 1:
            state, count = next(iter(states.items()))
            late = late_of[component]
            yield component, f"{count} of {count + late} {state}" if late else f"{count} {state}"
    for instance in status.instances:
        if instance.state in ("FAILED", "LOST"):
            text = instance.exit.text if instance.exit else ""
            yield instance.instance, ": ".join(filter(None, (instance.state, text)))
    yield from pages(status)


def pages(status: ApplicationStatus) -> Iterator[tuple[str, str]]:
    """The web pages that instances export, once their programs run."""
    if status.state != RUNNING:
        return
    for instance in status.instances:
        for address in exported_pages(instance.exports):
            yield f"{instance.instance} shows", address


def component_states(status: ApplicationStatus, present: bool = False) -> dict[str, Counter[str]]:
    """The number of instances in each state, by component, in job order. `present`: of those that
    take part."""
    absent = {instance.instance for instance in status.absent} if present else ()
    found: dict[str, Counter[str]] = {}
    for instance in status.instances:
        if instance.instance in absent:
            continue
        found.setdefault(instance.component, Counter())[instance.state] += 1
    return found


def steps(instance: InstanceStatus) -> str:
    """How far a program is: "step 1200 of 5000 (24 %)", "step 1200" or "epoch 3"; "" if unknown."""
    if instance.step is None:
        return "" if instance.epoch is None else f"epoch {instance.epoch}"
    share = instance.share
    done = "" if share is None else f" of {instance.total} ({math.floor(100 * share)} %)"
    return f"step {instance.step}{done}"


def measures(instance: InstanceStatus, most: int = _FEW) -> str:
    """The metrics of a program in a line: "step 1200 of 5000 (24 %), 35.1 steps/s, 1m48s left,
    loss 0.31". Of more than `most` metrics, losses come first, then accuracies. "" when there are
    none."""
    words = [counted] if (counted := steps(instance)) else []
    if instance.steps_per_second is not None:
        words.append(f"{instance.steps_per_second:.3g} steps/s")
    if instance.left:
        words.append(f"{how_long(instance.left)} left")
    names = sorted(instance.metrics, key=lambda name: (_rank(name), name))[:most]
    return ", ".join(words + [f"{name} {float(instance.metrics[name]):.4g}" for name in names])


def _rank(name: str) -> int:
    last = name.rpartition("/")[2]
    return 0 if last.endswith("loss") else 1 if last.endswith(("accuracy", "acc")) else 2


def measured_component(status: ApplicationStatus) -> dict[str, str]:
    """The metrics of the chief, else of the first worker, by its component. {} when there are
    none."""
    primary = primary_instance(status)
    text = measures(primary) if primary is not None else ""
    return {primary.component: text} if primary is not None and text else {}


def preparations(status: ApplicationStatus) -> dict[str, tuple[str, str]]:
    """What each component is preparing, according to its first instance that does so:
    "worker": ("worker/0", "pulling image mine:1: 1 of 2 layers, 30 of 120 MiB (and 1 more)").
    Nothing of those that others run without, while they have no container."""
    found: dict[str, list[InstanceStatus]] = {}
    absent = {i.instance for i in status.absent if i.state == REQUESTED}
    for instance in status.instances:
        if instance.preparing and instance.instance not in absent:
            found.setdefault(instance.component, []).append(instance)
    return {
        component: (first.instance, first.preparing + (f" (and {len(more)} more)" if more else ""))
        for component, (first, *more) in found.items()
    }


def last_lines(verdict: Verdict, shown: str = "") -> list[str]:
    """The last lines of the program that decided `verdict`, under a heading. None when its output
    was shown already, because it is the instance `shown`."""
    cause = verdict.cause
    if cause is None or not cause.last_lines or cause.instance == shown:
        return []
    heading = f"last lines of {cause.instance}:"
    return [heading, *(f"  {line}" for line in cause.last_lines.splitlines())]
