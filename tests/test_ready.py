import os
import resource
import socket

import pytest

from tfapp.ready import ready


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_what_can_be_read_and_written(pair):
    one, other = pair
    assert ready([one, other], seconds=0) == ([], [])
    assert ready([one], [one], seconds=0) == ([], [one])
    other.send(b"x")
    assert ready([one], [one]) == ([one], [one])
    assert ready([one, other]) == ([one], [])
    other.close()
    assert ready([one.fileno()]) == ([one.fileno()], [])


def test_a_closed_file_is_an_error(pair):
    pair[0].close()
    with pytest.raises(ValueError):
        ready([pair[0]], seconds=0)


def test_beside_a_thousand_open_files(pair):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    high = 2000
    os.dup2(pair[0].fileno(), high)
    try:
        pair[1].send(b"x")
        assert ready([high]) == ([high], [])
    finally:
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
