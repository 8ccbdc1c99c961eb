"""The process of a session, and a client that keeps to nothing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.test_channel import frame
from tests.waiting import wait
from tfapp import processes
from tfapp.contract.channel import MAX_FRAME
from tfapp.contract.encoding import encode
from tfapp.contract.sessions import Command, Welcome
from tfapp.engines.credentials import new_credentials

LIMIT = 60.0  # seconds
ROOT = Path(__file__).parents[2]
SHORT = """
import sys, tfapp.runner.session as session
session.OFFER_LIMIT = float(sys.argv[1])
session.LEAVE_LIMIT = 0.5
sys.exit(session.main())
"""


class Client:
    """A session in a process, and a connection of the owner's to it."""

    def __init__(self, folder: Path, offer: float):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHORT, str(offer)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        certificate, key = new_credentials(time.time())
        owner, own_key = new_credentials(time.time())
        self.owner = folder / "owner.pem"
        self.owner.write_bytes(own_key + owner)
        env = {"PATH": os.environ["PATH"], "GREETING": "hello"}
        texts = (text.decode() for text in (certificate, key, owner))
        welcome = Welcome(*texts, "127.0.0.1", "", env, str(folder))
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(encode(welcome) + b"\n")
        self.process.stdin.flush()
        self.port = json.loads(self.process.stdout.readline())["port"]

    def connect(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(self.owner)
        plain = socket.create_connection(("127.0.0.1", self.port), LIMIT)
        self.connection = context.wrap_socket(plain)
        assert next(self.frames()) == (b"r", b"")

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """Until it has gone."""
        file = self.connection.makefile("rb")
        with contextlib.suppress(OSError):
            while head := file.read(5):
                kind, length = struct.unpack("!cI", head)
                yield kind, file.read(length)

    def says(self, *frames: bytes) -> None:
        self.connection.sendall(b"".join(frames))

    def ended(self) -> tuple[int, bytes]:
        """The exit code of the process, and its standard error."""
        _, errors = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, errors


@pytest.fixture
def begin(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(offer: float = 20.0, connects: bool = True) -> Client:
            client = Client(tmp_path, offer)
            stack.enter_context(client.process)
            stack.callback(client.process.kill)
            if connects:
                client.connect()
                stack.enter_context(client.connection)
            return client

        yield start


def start(*argv: str, **more: object) -> bytes:
    return frame(b"s", Command(argv, **more).encoded())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "first",
    [
        frame(b"i", b"input"),
        frame(b"x", b"\0"),
        frame(b"s", b"no JSON"),
        frame(b"s", b"[]"),
        frame(b"s", b'{"argv": "touch made"}'),
        frame(b"s", b'{"argv": ["touch", "made"], "rows": "24"}'),
        frame(b"s", b"[" * (MAX_FRAME - 1)),
        frame(b"s", length=MAX_FRAME + 1),
    ],
    ids=range(8),  # pytest puts them into the environment, in which the longest has no room
)
def test_whoever_does_not_begin_with_a_command_has_none(begin, first, tmp_path):
    client = begin()
    client.says(first, start("touch", "made"))
    assert list(client.frames()) == []
    assert client.ended() == (0, b"")
    assert not (tmp_path / "made").exists()


def test_who_comes_and_says_nothing_goes(begin):
    assert begin(offer=2.0).ended() == (0, b"")


def test_a_guest_that_says_nothing_does_not_keep_the_owner_out(begin):
    client = begin(connects=False)
    with socket.create_connection(("127.0.0.1", client.port), LIMIT):
        client.connect()
        with client.connection:
            client.says(start("sh", "-c", "echo $GREETING"))
            assert list(read_all(client)) == [(b"o", b"hello\n"), (b"x", b"\0")]


def read_all(client: Client) -> Iterator[tuple[bytes, bytes]]:
    for kind, data in client.frames():
        yield kind, data
        if kind == b"x":
            return


def test_what_makes_no_sense_to_a_command_does_nothing(begin):
    client = begin()
    nonsense = (
        *(frame(kind, b"more") for kind in (b"o", b"e", b"x", b"r", b"?")),
        *(frame(b"w", data) for data in (b"", b"abc", b"12345678")),
        *(frame(b"k", data) for data in (b"", b"\x09", b"\x13", b"\xff")),
        start("false"),
    )
    ends = (frame(b"i", b"some"), frame(b"i"), frame(b"i", b"too late"), frame(b"i"))
    client.says(start("cat"), *nonsense, *ends)
    assert list(read_all(client)) == [(b"o", b"some"), (b"x", b"\0")]
    client.connection.close()
    assert client.ended() == (0, b"")


def test_words_of_a_command_are_any_bytes(begin):
    client = begin()
    client.says(start("printf", "%s", os.fsdecode(b"\xff\xc3\xa4")))
    assert list(read_all(client)) == [(b"o", b"\xff\xc3\xa4"), (b"x", b"\0")]


def test_a_command_ends_by_a_signal(begin):
    client = begin()
    client.says(start("sh", "-c", "echo up; exec sleep 600"))
    frames = read_all(client)
    assert next(frames) == (b"o", b"up\n")
    client.says(frame(b"k", b"\x0f"))
    assert list(frames) == [(b"x", bytes((128 + 15,)))]


@pytest.mark.parametrize("argv", [("no\0thing",), ("/nothing",), ("",)])
def test_a_command_that_cannot_be_started_is_told(begin, argv):
    client = begin()
    client.says(start(*argv))
    (kind, text), end = read_all(client)
    assert (kind, text[:7], end) == (b"e", b"tfapp: ", (b"x", b"\x7f"))


@pytest.mark.parametrize(
    "last", [frame(b"i", length=MAX_FRAME + 1), frame(b"i", b"ha", length=4), b""]
)
def test_a_client_that_breaks_off_leaves_nothing(begin, last):
    client = begin()
    client.says(start("sh", "-c", "(setsid sleep 600 &); echo up; exec sleep 600"))
    assert next(client.frames()) == (b"o", b"up\n")
    wait(lambda: len(processes.descendants(client.process.pid)) == 2, "two sleep", LIMIT)
    left = processes.descendants(client.process.pid)
    client.says(last)
    client.connection.close()
    assert client.ended() == (0, b"")
    assert [one for one in left if processes.is_alive(one)] == []


def test_a_client_that_has_all_and_stays_is_left(begin):
    client = begin()
    client.says(start("echo", "hello"))
    assert client.process.wait(LIMIT) == 0
    assert list(client.frames()) == [(b"o", b"hello\n"), (b"x", b"\0")]


def test_it_ends_with_its_runner(begin):
    client = begin()
    client.says(start("sleep", "600"))
    wait(lambda: processes.descendants(client.process.pid), "it sleeps", LIMIT)
    left = processes.descendants(client.process.pid)
    client.process.stdin.close()
    assert client.process.wait(LIMIT) == 0
    assert [one for one in left if processes.is_alive(one)] == []
