"""Whole lines of a stream that comes in pieces. No engine is needed."""

import pytest

from tfapp.runner.docker.program import WholeLines


@pytest.mark.parametrize(
    ("pieces", "shown", "rest"),
    [
        # Python without buffers writes a line in pieces.
        ([b"one", b" 1", b"\n"], [b"", b"", b"one 1\n"], b""),
        ([b"one\ntwo\nth", b"ree\n"], [b"one\ntwo\n", b"three\n"], b""),
        ([b"\r10 %", b"\r20 %"], [b"\r", b"10 %\r"], b"20 %"),
        ([b"1 %\r", b"2 %\r"], [b"1 %\r", b"2 %\r"], b""),
        ([b"x" * 40_000, b"x" * 40_000, b"y"], [b"", b"x" * 80_000, b""], b"y"),
        ([b"", b"no end"], [b"", b""], b"no end"),
    ],
)
def test_lines_are_whole_and_nothing_is_lost(pieces, shown, rest):
    lines = WholeLines()
    assert [lines.feed(piece) for piece in pieces] == shown
    assert (lines.finish(), lines.finish()) == (rest, b"")
