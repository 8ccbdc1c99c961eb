from __future__ import annotations

import pytest

from tests.cli.played_engine import Output
from tfapp.cli.console import columns, how_long, live_rows, style, when


@pytest.mark.parametrize(
    ("terminal", "environ", "text"),
    [
        (True, {"TERM": "xterm"}, "\x1b[31merror:\x1b[0m"),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, "error:"),
        (True, {"TERM": "dumb"}, "error:"),
        (True, {}, "error:"),
        (False, {"TERM": "xterm"}, "error:"),
    ],
)
def test_colour_is_for_terminals_that_want_it(terminal, environ, text):
    assert style("error:", "red", Output(terminal), environ) == text


def test_the_last_rows_stay():
    stream = Output(terminal=True)
    with live_rows(stream) as show:
        show([("worker", "2 WAITING")])
        show([("worker", "2 RUNNING")])
    assert stream.text.endswith("2 RUNNING\x1b[0m\n\x1b[?25h")


def test_columns_are_as_wide_as_their_widest_cell():
    assert columns(("A", "B"), [("long", "1"), ("x", "")]) == "A     B\nlong  1\nx"


def test_no_rows():
    assert columns(("A", "B"), []) == "A  B"


def test_never():
    assert when(0) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (59.4, "59s"),
        (59.5, "1m00s"),
        (185, "3m05s"),
        (3600 * 2 + 7 * 60 + 59, "2h07m"),
        (86400 * 4 + 3600, "4d01h"),
    ],
)
def test_how_long(seconds, text):
    assert how_long(seconds) == text
