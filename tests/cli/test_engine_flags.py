from __future__ import annotations

import argparse

import pytest

from tfapp.cli.engine_flags import seconds


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1.5", 1.5)])
def test_seconds(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", ""])
def test_what_are_no_seconds(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is not a number of seconds"):
        seconds(text)
