from __future__ import annotations

import pytest

from tests.cli.played_engine import Output
from tfapp.cli.console import live_rows, style


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
