"""The two ends of a connection of the feed."""

import contextlib
import socket
import threading
import time

import pytest

from tfapp.engines.credentials import new_credentials
from tfapp.feed.wire import Credentials, Line


@pytest.fixture
def ends():
    """Both ends of one connection."""
    credentials = Credentials(*new_credentials(time.time()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    accepted: list[Line] = []

    def accept() -> None:
        accepted.append(Line(credentials.tls(True).wrap_socket(theirs, server_side=True)))

    accepting = threading.Thread(target=accept)
    accepting.start()
    line = Line(credentials.tls(False).wrap_socket(ours))
    accepting.join()
    yield line, accepted[0]
    line.close()
    accepted[0].close()


@pytest.mark.parametrize("read_before", [False, True])
def test_what_arrives_before_the_end_is_never_taken_as_it_is(ends, read_before):
    """Another thread ends the connection while one is about to read: what is encrypted is no
    message of the other side."""
    line, other = ends
    said = {"said": "x" * 50_000}  # what is encrypted has newlines then
    other.say(said)
    if read_before:
        assert line.hear() == said
        other.say(said)
    line.end()
    with contextlib.suppress(OSError):
        assert line.hear() == said
