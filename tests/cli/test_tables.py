from __future__ import annotations

from tfapp.cli.tables import columns, when


def test_columns_are_as_wide_as_their_widest_cell():
    assert columns(("A", "B"), [("long", "1"), ("x", "")]) == "A     B\nlong  1\nx"


def test_no_rows():
    assert columns(("A", "B"), []) == "A  B"


def test_never():
    assert when(0) == "-"
