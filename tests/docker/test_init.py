"""What tini says, in the pieces in which it may come."""

from __future__ import annotations

import pytest

from tfapp.runner.docker.init import InitWords

SPAWNED = b"[INFO  tini (1)] Spawned child process 'bash' with pid '7'\n"
CODE = b"[INFO  tini (1)] Main child exited normally (with status '137')\n"
SIGNAL = b"[INFO  tini (1)] Main child exited with signal (with signal 'Killed')\n"


@pytest.mark.parametrize(
    ("written", "shown", "by_itself"),
    [
        (b"one\ntwo\n" + SPAWNED + CODE, b"one\ntwo\n", True),
        (b"one\ntwo" + SPAWNED + SIGNAL, b"one\ntwo", False),
        (SPAWNED + b"one\n" + CODE + b"[INFO", b"one\n[INFO", True),
        (b"[INFO] [INFO  tini (7)] Main child exited normally\n", None, False),
        (b"no end [INFO  tini (1)] Main", None, False),
        (b"", b"", False),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_its_lines_are_taken_out_and_understood(written, shown, by_itself, size):
    words = InitWords()
    pieces = [words.feed(written[i : i + size]) for i in range(0, len(written), size)]
    assert b"".join([*pieces, words.finish()]) == (written if shown is None else shown)
    assert words.by_itself == by_itself
