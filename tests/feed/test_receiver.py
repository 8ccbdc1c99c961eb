"""A program's end of the feed, and a driver that goes."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from tfapp.engines.credentials import new_credentials
from tfapp.errors import FeedError
from tfapp.feed.context import Feed
from tfapp.feed.wire import Credentials, connect

HELLO = {"role": "ledger", "feed": 1, "generation": 1, "worker": 0, "seed": 2}


def test_a_program_waits_for_a_driver_that_has_gone_no_longer_than_it_needs(tmp_path, monkeypatch):
    credentials = Credentials(*new_credentials(time.time()))
    held = contextlib.ExitStack()

    def begin():
        port = held.enter_context(socket.socket())
        port.bind(("", 0))
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as the runner holds it
        address = f"127.0.0.1:{port.getsockname()[1]}"
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
    monkeypatch.setattr("tfapp.feed.receiver.RETURN_LIMIT", 0.1)
    _, feed = begin()
    with pytest.raises(FeedError, match="has gone, and none has come back in 0.1 s"):
        next(feed.batches(64))
    held.close()
