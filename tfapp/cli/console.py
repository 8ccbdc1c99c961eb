"""The form of results: columns, JSON, and on a terminal colours and lines that change in place.
Only this module imports rich, and only when lines change in place."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from tfapp.contract.names import FINAL_STATES
from tfapp.contract.status import ApplicationStatus, how_long
from tfapp.engines.base import DAMAGED, Application

if TYPE_CHECKING:
    from tfapp.contract.metrics import Measure

_ANSI = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
_STATE_STYLES = {
    **dict.fromkeys(("RUNNING", "SUCCEEDED", "STOPPED"), "green"),
    **dict.fromkeys(("FAILED", "LOST"), "red"),
}

MUCH = 60.0  # seconds by which a clock is ahead that is told
_LEAST_ROOM = 20  # characters, for a value beside its name

Row = tuple[str, str]  # a component, and its instances' states in words
Show = Callable[[Sequence[Row]], None]


def is_terminal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether `stream` is a terminal that can move its cursor."""
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb"


def style(text: str, name: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """`text` in a colour, if `stream` shows colours (https://no-color.org)."""
    if environ.get("NO_COLOR") or not is_terminal(stream, environ):
        return text
    return f"\x1b[{_ANSI[name]}m{text}\x1b[0m"


def state_style(state: str) -> str:
    """The colour of an instance's or application's state."""
    return _STATE_STYLES.get(state, "yellow")


@contextlib.contextmanager
def live_rows(stream: TextIO) -> Iterator[Show]:
    """Yields a function that shows rows on the terminal `stream`, in place of those before. The
    last ones stay at the end of the block."""
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    with Live(console=Console(file=stream), refresh_per_second=8, redirect_stdout=False) as live:

        def show(rows: Sequence[Row]) -> None:
            table = Table.grid(padding=(0, 2))
            for name, words in rows:
                colour = state_style(words.rpartition(" ")[2])
                table.add_row(Text(name, style="bold"), Text(words, style=colour))
            live.update(table, refresh=True)

        yield show


def terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int | None:
    """The columns of the terminal `stream`: the variable COLUMNS, or what the terminal says. None
    for a stream that is no terminal, or one that does not say."""
    if not stream.isatty():
        return None
    with contextlib.suppress(ValueError):
        if (told := int(environ.get("COLUMNS", ""))) > 0:
            return told
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or None
    return None


def columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    spare: str = "",
) -> str:
    """`rows` below `header`, each column as wide as its widest cell, two spaces between.

    Where that is wider than `width`, the column `spare` is left out. Where it still is, there is a
    block for each row: its first cell, and below it a line for each other cell that is not "-".
    """
    kept = [index for index, name in enumerate(header) if name != spare]
    whole = [header, *rows]
    for table in (whole, [[row[index] for index in kept] for row in whole]):
        widths = [max(map(len, column)) for column in zip(*table)]
        padded = ("  ".join(cell.ljust(most) for cell, most in zip(row, widths)) for row in table)
        lines = [line.rstrip() for line in padded]
        if not rows or width is None or max(map(len, lines)) <= width:
            return "\n".join(lines)
    return "\n".join(_block(header, row, width) for row in rows)


def _block(header: Sequence[str], row: Sequence[str], width: int | None) -> str:
    longest = max(map(len, header[1:]))
    named = zip((name.lower().ljust(longest) for name in header[1:]), row[1:])
    cells = [(name, cell) for name, cell in named if cell != "-"]
    indented = (f"  {line}" for line in fact_lines(cells, width and width - 2).splitlines())
    return "\n".join((row[0], *indented))


def fact_lines(pairs: Sequence[tuple[str, str]], width: int | None = None) -> str:
    """A line for each name and its value. Lines of values that are wider than `width` go on in
    further lines, below their beginning; a word, such as a path, is never divided."""
    column = max((len(name) for name, _ in pairs), default=0) + 2
    lines: list[str] = []
    for name, value in pairs:
        parts: list[str] = []
        for line in value.split("\n"):
            if width is None or column + len(line) <= width:
                parts.append(line)
                continue
            room = max(width - column, _LEAST_ROOM)
            parts += textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)
        lines += [f"{name if not i else '':{column}}{part}" for i, part in enumerate(parts or [""])]
    return "\n".join(line.rstrip() for line in lines)


def number(value: Measure | None) -> str:
    """A metric in a table; "-" for none."""
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def to_json(value: Any) -> str:
    """`value` as JSON for a program or a person to read."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def when(seconds: float) -> str:
    """Seconds since 1970 as a local date and time; "-" for 0, which is never."""
    if not seconds:
        return "-"
    return datetime.datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def ended(application: Application) -> float | None:
    """The time of its end in seconds since 1970. None while it runs, and when the time is not
    known."""
    status = application.status
    return status.updated if not application.live and status.state in FINAL_STATES else None


def duration(application: Application) -> str:
    """How long its run took, or has taken up to now; "-" where that is not known. Its times are
    those of its master's clock, which may be ahead of this machine's."""
    status = application.status
    end = ended(application) or max(time.time(), status.updated)
    return how_long(end - status.started) if status.started and status.state != DAMAGED else "-"


def clock_ahead(status: ApplicationStatus) -> str:
    """What is said beside times of a clock that is ahead of this machine's."""
    ahead = status.updated - time.time()
    return f" (by a clock that is {how_long(ahead)} ahead of this one)" if ahead > MUCH else ""
