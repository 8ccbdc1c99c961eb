"""The server and a connection to it."""

import pytest

from tests.protocol.server import Server


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.end()


@pytest.fixture
def connection(server):
    with server.connect() as connection:
        yield connection
