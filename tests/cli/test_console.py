import dataclasses

import pytest

from tests.cli.played_engine import Output, status
from tfapp.cli.console import (
    clock_ahead,
    columns,
    duration,
    fact_lines,
    live_rows,
    style,
    terminal_width,
    when,
)
from tfapp.contract.names import RUNNING, SUCCEEDED
from tfapp.contract.status import how_long
from tfapp.engines.base import DAMAGED, Application

NOW = 1_800_000_000.0


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


def test_a_table_that_is_too_wide_is_a_block_for_each_row():
    rows = [("worker/0", "RUNNING", "-", "host"), ("worker/1", "FAILED", "exited with 1", "-")]
    header = ("INSTANCE", "STATE", "EXIT", "HOST")
    assert columns(header, rows, 43) == (
        "INSTANCE  STATE    EXIT           HOST\n"
        "worker/0  RUNNING  -              host\n"
        "worker/1  FAILED   exited with 1  -"
    )
    assert columns(header, rows, 30) == (
        "worker/0\n  state  RUNNING\n  host   host\n"
        "worker/1\n  state  FAILED\n  exit   exited with 1"
    )
    assert columns(header, rows, 35, spare="HOST").splitlines() == [
        "INSTANCE  STATE    EXIT",
        "worker/0  RUNNING  -",
        "worker/1  FAILED   exited with 1",
    ]


def test_long_values_go_on_below_their_beginning_and_paths_stay_whole():
    path = "/a/folder/with-a-long-name/checkpoints"
    pairs = [("verdict", "chief/0 exited with 1: no such file"), ("saves to", path)]
    assert fact_lines(pairs, 32) == (
        f"verdict   chief/0 exited with 1:\n          no such file\nsaves to  {path}"
    )
    assert fact_lines(pairs) == f"verdict   {pairs[0][1]}\nsaves to  {path}"


def test_values_keep_their_lines_and_may_be_empty():
    pairs = [("log", "a first line\n  a second and long one"), ("tag", "")]
    assert fact_lines(pairs) == "log  a first line\n       a second and long one\ntag"
    assert fact_lines(pairs, 25).splitlines() == [
        "log  a first line",
        "       a second and long",
        "     one",
        "tag",
    ]


@pytest.mark.parametrize(
    ("terminal", "environ", "width"),
    [
        (True, {"COLUMNS": "50"}, 50),
        (True, {"COLUMNS": "wide"}, None),  # nor does this one say how wide it is
        (True, {"COLUMNS": "0"}, None),
        (True, {"COLUMNS": "-5"}, None),
        (False, {"COLUMNS": "50"}, None),
    ],
)
def test_the_width_is_that_of_a_terminal(terminal, environ, width):
    assert terminal_width(Output(terminal), environ) == width


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


@pytest.mark.parametrize(
    ("state", "started", "updated", "expected", "told"),
    [
        (RUNNING, -90.0, -5.0, "1m30s", ""),
        (RUNNING, -90.0, 3.0, "1m33s", ""),
        (RUNNING, 7200.0, 7260.0, "1m00s", " (by a clock that is 2h01m ahead of this one)"),
        (RUNNING, 7200.0 - 90.0, 7190.0, "1m20s", " (by a clock that is 1h59m ahead of this one)"),
        (SUCCEEDED, -90.0, -30.0, "1m00s", ""),
        (SUCCEEDED, 7200.0, 7260.0, "1m00s", " (by a clock that is 2h01m ahead of this one)"),
        (DAMAGED, -90.0, -30.0, "-", ""),
    ],
)
def test_a_clock_elsewhere(monkeypatch, state, started, updated, expected, told):
    monkeypatch.setattr("time.time", lambda: NOW)
    times = {"started": NOW + started, "updated": NOW + updated}
    found = dataclasses.replace(status(state), **times)
    application = Application("app", "kubernetes", "id", 1, state == RUNNING, found)
    assert (duration(application), clock_ahead(found)) == (expected, told)
