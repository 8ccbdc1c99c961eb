"""A program's end of the feed, and a driver that goes."""

import contextlib
import socket
import subprocess
import sys
import time

import pytest

from tfapp.engines.credentials import new_credentials
from tfapp.errors import FeedError
from tfapp.feed.program.context import Feed
from tfapp.feed.wire import Credentials, connect

# It ends while a thread is in Arrow's code. Before it is over, it waits for a line.
ENDS = """
import atexit, sys, threading, time
from pathlib import Path

def wait():
    print("ends", flush=True)
    sys.stdin.readline()

atexit.register(wait)
from tfapp.feed.program import receiver
from tfapp.feed.program.context import Feed

folder, address, credentials = sys.argv[1:]
entered = threading.Event()

def slow(body):
    entered.set()
    time.sleep(1)
    Path(folder, "read").touch()

receiver.arrays_of = slow
Feed(address, credentials, Path(folder))._open()
print("listens", flush=True)
entered.wait(60)
"""
HELLO = {"role": "ledger", "feed": 1, "generation": 1, "worker": 0, "seed": 2, "instance": "w/0"}


@contextlib.contextmanager
def held_port():
    """host:port, held as the runner holds it."""
    with socket.socket() as port:
        port.bind(("", 0))
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield f"127.0.0.1:{port.getsockname()[1]}"


def test_a_program_does_not_end_in_the_middle_of_a_piece(tmp_path):
    """Python would abort it, in the end of its own, with SIGABRT. Tasks do not hear of the end
    before the driver does."""
    piece = {"part": [0, 0], "attempt": 1, "first": 0, "rows": 1, "digest": 1}
    credentials = Credentials(*new_credentials(time.time()))
    with held_port() as address:
        words = [sys.executable, "-c", ENDS, tmp_path, address, credentials.packed()]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(words, text=True, **pipes) as process:
            assert process.stdout.readline() == "listens\n"
            lines = [connect(address, credentials.tls(False), {"role": "rows"}) for _ in range(2)]
            lines[0].send(piece, [b"x"])
            assert process.stdout.readline() == "ends\n"
            lines[1].send(piece, [b"x"])
            assert lines[1].is_quiet(0.5)
            process.communicate("\n", timeout=60)
            assert process.returncode == 0
            for line in lines:
                line.close()
    assert (tmp_path / "read").exists()


def test_a_program_waits_for_a_driver_that_has_gone_no_longer_than_it_needs(tmp_path, monkeypatch):
    credentials = Credentials(*new_credentials(time.time()))
    held = contextlib.ExitStack()

    def begin():
        address = held.enter_context(held_port())
        return address, Feed(address, credentials.packed(), tmp_path)

    def driver(address, feed):
        feed._open()  # listens from now on
        return connect(address, credentials.tls(server=False), HELLO)

    address, feed = begin()
    line = driver(address, feed)
    assert feed.state() == (1, 1, 0)
    assert list(tmp_path.iterdir()) == []
    line.close()
    with pytest.raises(FeedError, match="the driver of the feed has gone$"):
        next(feed.batches(64))
    # In the next generation it has come back, and goes again.
    address, feed = begin()
    line = driver(address, feed)
    assert feed.state() == (1, 1, 0)
    assert list(tmp_path.iterdir()) == []
    line.close()
    with pytest.raises(FeedError, match="the driver of the feed has gone$"):
        next(feed.batches(64))
    # In the one after that it has not.
    monkeypatch.setattr("tfapp.feed.program.receiver.RETURN_LIMIT", 0.1)
    _, feed = begin()
    with pytest.raises(FeedError, match="has gone, and none has come back in 0.1 s"):
        next(feed.batches(64))
    held.close()
