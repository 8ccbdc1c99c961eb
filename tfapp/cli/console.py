"""What a terminal gets and a pipe does not: colour, and lines that change in place. The only
importer of rich, and only once something changes in place: `tfapp --help` must stay quick."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

_ANSI = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
_STATE_STYLES = {"RUNNING": "green", "SUCCEEDED": "green", "FAILED": "red", "LOST": "red"}

Row = tuple[str, str]  # a component, and its instances' states in words
Show = Callable[[Sequence[Row]], None]


def is_terminal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a person looks at `stream` through something that can move its cursor."""
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb"


def style(text: str, name: str, stream: TextIO, environ: Mapping[str, str]) -> str:
    """`text` in a colour, where `stream` shows colours (https://no-color.org)."""
    if environ.get("NO_COLOR") or not is_terminal(stream, environ):
        return text
    return f"\x1b[{_ANSI[name]}m{text}\x1b[0m"


def state_style(state: str) -> str:
    """The colour of an instance's or application's state."""
    return _STATE_STYLES.get(state, "yellow")


@contextlib.contextmanager
def live_rows(stream: TextIO) -> Iterator[Show]:
    """Gives a function that shows rows on the terminal `stream`, over the ones before. The
    last ones stay when the block ends."""
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
