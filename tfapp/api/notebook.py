"""Applications and results in a notebook: small HTML tables, with live updates."""

from __future__ import annotations

import dataclasses
import html
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tfapp import threads
from tfapp.api.errors import told_in_full
from tfapp.contract.metrics import Point, floats
from tfapp.contract.status import ApplicationStatus, how_long
from tfapp.engines.base import Application, Engine
from tfapp.errors import TfappError
from tfapp.launch.caller import Caller, calling_process
from tfapp.launch.display import PlainDisplay, pages, steps
from tfapp.launch.follow import States

MOST_ROWS = 20  # instances in a table; the others are counted
MOST_BARS = 16  # of a curve
_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def is_here() -> bool:
    """Whether this process is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def caller_here() -> Caller:
    """That of this process. A notebook shows standard error in red, as errors are: what tfapp tells
    goes to its standard output."""
    caller = calling_process(Caller)
    return dataclasses.replace(caller, err=caller.out) if is_here() else caller


def table(application: Application) -> str:
    """The status of an application as an HTML table."""
    status = application.status
    state = _state(application)
    heading = f"<b>{_text(status.name)}</b> on {_text(application.engine)}: {_text(state)}"
    failures = [f"last failure: {_text(moment.text)}" for moment in status.survived[-1:]]
    return _block([heading, *failures, *_links(application), _rows(status)])


def _state(application: Application) -> str:
    status = application.status
    if status.verdict is not None:
        return status.verdict.summary
    return f"{status.state}: {application.waits}" if application.waits else status.state


def facts_table(name: str, summary: str, facts: Iterable[tuple[str, object]]) -> str:
    """A heading, and below it the facts that are neither "" nor None, as an HTML table."""
    cells = [(_text(fact), _text(value)) for fact, value in facts if value not in ("", None)]
    return _block([f"<b>{_text(name)}</b>: {_text(summary)}", _table(cells)])


def _links(application: Application) -> Iterable[str]:
    links = [(link.instance or link.what, link.address) for link in application.links]
    for name, address in (*links, *pages(application.status)):
        target = html.escape(address, quote=True)
        yield f'{_text(name)}: <a href="{target}" target="_blank">{_text(address)}</a>'


def _rows(status: ApplicationStatus) -> str:
    instances = status.instances
    curves = {(c.instance, c.metric): f" {curve(c.points)}" for c in status.curves}
    rows = [("instance", "state", "host", "step", "metrics")]
    for one in instances[:MOST_ROWS]:
        state = f"{one.state}: {one.preparing}" if one.preparing else one.state
        if one.exit is not None and one.state in ("FAILED", "LOST"):
            state += f": {one.exit.text}"
        metrics = ", ".join(
            f"{name} {value:.4g}{curves.get((one.instance, name), '')}".rstrip()
            for name, value in floats(one.metrics).items()
        )
        step = steps(one).removeprefix("step ")
        if one.steps_per_second:
            step += f" ({one.steps_per_second:.1f}/s)"
        if one.left:
            step += f", {how_long(one.left)} left"
        rows.append((one.instance, state, one.host, step, metrics))
    if len(instances) > MOST_ROWS:
        rows.append((f"and {len(instances) - MOST_ROWS} more", "", "", "", ""))
    return _table([tuple(map(_text, row)) for row in rows]) if instances else ""


def curve(points: Sequence[Point]) -> str:
    """The points that a program has told as bars, at most MOST_BARS: "\u2588\u2585\u2582\u2581".
    A value that is not finite is a gap."""
    if len(points) > MOST_BARS:
        last = len(points) - 1
        points = [points[bar * last // (MOST_BARS - 1)] for bar in range(MOST_BARS)]
    values = [float(value) for _, _, value in points]
    finite = list(filter(math.isfinite, values))
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    # Halves, because the range of the largest floats is infinite.
    scale = (len(_BARS) - 1) / ((high / 2 - low / 2) or 1.0)
    return "".join(
        _BARS[round((v / 2 - low / 2) * scale)] if math.isfinite(v) else " " for v in values
    )


def _table(rows: Iterable[Sequence[str]]) -> str:
    cell = '<td style="text-align:left;padding:1px 8px">'
    lines = "".join(f"<tr>{''.join(f'{cell}{text}</td>' for text in row)}</tr>" for row in rows)
    return f"<table>{lines}</table>"


def _block(parts: Iterable[str]) -> str:
    return "".join(f"<div>{part}</div>" for part in parts if part)


def _text(value: object) -> str:
    return html.escape(str(value))


class _Place:
    """A part of a cell's output whose content can be replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, application: Application) -> None:
        """As a table, and as one line where HTML is not shown."""
        from IPython.display import display

        text = f"{application.name} on {application.engine}: {_state(application)}"
        shown = {"text/html": table(application), "text/plain": text}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


class NotebookDisplay(PlainDisplay):
    """Shows a live table in place of printed states, with the output of the chief below it."""

    def __init__(self, caller: Caller, engine: Engine, application: Application):
        super().__init__(caller, engine, application)
        self._place = _Place()
        self._place.show(application)

    def show(self, application: Application) -> None:
        self.application = application
        self._place.show(application)


def show_until_end(caller: Caller, engine: Engine, application: Application) -> None:
    """Shows the table of `application` in the current cell. A thread updates it until the
    application has ended."""
    place = _Place()
    place.show(application)

    def update() -> None:
        states = States(engine, application.name, application.run)
        try:
            with told_in_full():
                while True:
                    changed = states.next(3600.0)
                    if changed is not None:
                        place.show(changed)
        except EOFError:
            return
        except TfappError as error:
            caller.note(f"{application.name}: {error.message}")

    threads.start_surely(f"show-{application.name}", update)
