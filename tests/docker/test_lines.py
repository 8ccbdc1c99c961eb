"""Lines of two streams in one log. No engine is needed."""

from __future__ import annotations

import threading

import pytest

from tfapp.runner.docker.lines import ERR, OUT, OneLog, merged


@pytest.mark.parametrize(
    "pieces, log",
    [
        ([(OUT, b"one\n"), (ERR, b"two\n")], b"one\ntwo\n"),
        # Python without buffers writes a line in pieces.
        ([(OUT, b"one"), (ERR, b"tw"), (OUT, b" 1\n"), (ERR, b"o\n")], b"one 1\ntwo\n"),
        ([(OUT, b"one"), (ERR, b"two\n"), (ERR, b"three\n"), (OUT, b"\n")], b"one\ntwo\nthree\n"),
        (
            [(ERR, b"two"), (OUT, b"one"), (ERR, b"\n"), (ERR, b"x\n"), (OUT, b"\n")],
            b"two\none\nx\n",
        ),
        ([(OUT, b""), (ERR, b"two\n"), (OUT, b"")], b"two\n"),
        # Nothing is lost of what has no end.
        ([(OUT, b"one"), (ERR, b"two")], b"one\ntwo"),
        ([(OUT, b"one"), (ERR, b"two\n")], b"one\ntwo\n"),
    ],
)
def test_no_line_has_parts_of_both(pieces, log):
    joined = OneLog()
    shown = [joined.feed(stream, piece) for stream, piece in pieces]
    assert b"".join((*shown, joined.release())) == log
    assert b"".join(merged(pieces)) == log


@pytest.mark.parametrize("busy", [False, True])
def test_a_line_without_end_does_not_silence_the_other_stream(busy):
    """A progress bar ends none of its lines."""
    over = threading.Event()

    def pieces():
        yield ERR, b"\r10 %"
        yield OUT, b"loss 1\n"
        while not over.wait(0.01 if busy else None):
            yield ERR, b"\r20 %"

    shown = b""
    for chunk in merged(pieces()):
        shown += chunk
        if b"loss 1\n" in shown:
            over.set()
    assert shown.startswith(b"\r10 %")
    assert shown.count(b"\nloss 1\n") == 1
