"""Reading a log from its end while it grows."""

from __future__ import annotations

import pytest

from tfapp.engines.yarn.live_logs import ATTEMPTS, MARGIN, new_bytes
from tfapp.engines.yarn.web import Piece


class Log:
    """A log that is `growth` bytes longer at each look, and remembers what was asked."""

    def __init__(self, length: int, growth: int = 0):
        self.length, self.growth = length, growth
        self.asked: list[int] = []

    def whole(self) -> bytes:
        return bytes(i % 251 for i in range(self.length))

    def read(self, last: int) -> Piece:
        self.asked.append(last)
        piece = Piece(self.whole()[-last:], self.length)
        self.length += self.growth
        return piece


@pytest.mark.parametrize(
    ("length", "have"),
    [(0, 0), (10, 0), (10, 4), (10, 10), (3 * MARGIN, 0), (3 * MARGIN, MARGIN)],
)
def test_exactly_what_is_new_is_read(length, have):
    log = Log(length)
    assert new_bytes(have, log.read) == log.whole()[have:]


def test_nothing_is_left_out_of_a_log_that_grows_meanwhile():
    log = Log(3 * MARGIN, growth=MARGIN // 2)
    assert new_bytes(7, log.read) == log.whole()[7 : 3 * MARGIN + MARGIN // 2]
    assert len(log.asked) == 2


def test_a_log_that_is_shorter_than_the_copy_adds_nothing():
    assert new_bytes(20, Log(10).read) == b""


def test_a_log_that_grows_too_fast_is_left_for_the_next_time():
    lengths = iter(range(0, 10**9, 10**8))

    def read(last: int) -> Piece:
        return Piece(b"x", next(lengths) + 10**6)

    assert new_bytes(0, read) == b""
    assert next(lengths) == (ATTEMPTS + 1) * 10**8
