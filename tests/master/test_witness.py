"""What a runner hears that cannot reach its master, of that one's parent."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.waiting import wait
from tfapp import threads
from tfapp.master.witness import MOST
from tfapp.runner.witness import PROOF, ReplacedError, witness_of
from tfapp.standalone import bootstrap
from tfapp.standalone.bootstrap import NONCE, ask_witness

LIMIT = 60.0
KEY = b"a private key"
ID = "container_1_0001_01_000002"

# Each master says its number, and gives signs of life once it is told to. The third one does not
# know the containers of those before.
MASTERS = """
import os, sys, threading, time
from tfapp.master.children import ParentLine
from tfapp.master.parent import Parent

def serve(turn):
    line = ParentLine.of(turn, parent)
    port = line.reserve("witness", "127.0.0.1")
    line.testify(port, f"container_1_0001_{1 + turn.attempt // 3:02d}", b"a private key")
    print(os.getpid(), port, flush=True)
    while not os.path.exists(f"{sys.argv[1]}/{turn.attempt}"):
        time.sleep(0.01)
    while True:
        line.order({"alive": 1})
        time.sleep(0.1)

parent = Parent()
sys.exit(parent.keep(serve))
"""


class Masters:
    """A parent and its masters, of which one lives at a time. `pid`: the present one's."""

    def __init__(self, folder):
        self.folder = folder
        words = [sys.executable, "-c", MASTERS, str(folder)]
        self.parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.number = 0
        self.next()

    def next(self):
        self.number += 1
        self.pid, self.port = map(int, self.parent.stdout.readline().split())
        self.environ = {bootstrap.ENV_WITNESS: f"300 127.0.0.1:{self.port}"}

    def live(self):
        (self.folder / str(self.number)).touch()
        wait(lambda: len({self.version(), self.version(), None}) == 3, "no life", LIMIT, every=0.01)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.next()

    def ask(self):
        return ask_witness(ID, self.environ, KEY)

    def version(self):
        """None before it is told what to testify."""
        return (self.ask() or {}).get("version")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), LIMIT)


@pytest.fixture
def masters(tmp_path):
    made = Masters(tmp_path)
    with made.parent:
        try:
            made.live()
            yield made
        finally:
            made.parent.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(made.pid, signal.SIGKILL)


def test_a_master_is_lost_until_the_next_one_gives_a_sign_of_life(masters):
    clock, moved = [100.0], []
    environ = {**masters.environ, "CONTAINER_ID": ID}
    witness = witness_of(environ, KEY, moved.append, lambda: clock[0])

    def says():
        """What it says, after all the time that it may need."""
        witness.speaks()
        clock[0] += PROOF
        return witness.speaks()

    assert says() is None, "the master lives: the runner is cut off from it"
    os.kill(masters.pid, signal.SIGSTOP)
    assert says() is None, "nobody has its place"
    masters.kill()
    assert says() is True
    masters.live()
    assert says() is None
    masters.kill()
    with pytest.raises(ReplacedError):
        says()
    masters.parent.kill()
    os.kill(masters.pid, signal.SIGKILL)
    masters.parent.wait(LIMIT)
    assert says() is False
    assert moved == []


def test_no_peer_harms_the_parent(masters):
    with contextlib.ExitStack() as held:
        silent = [held.enter_context(masters.connect()) for _ in range(MOST + 20)]
        assert silent[0].recv(1) == b"", "the oldest ends"
        for words in (b"", b"x", b"x" * (NONCE - 1), b"x" * (4 << 20)):
            with contextlib.suppress(ConnectionError), masters.connect() as connection:
                connection.sendall(words)
        assert masters.ask() is not None
    files = f"/proc/{masters.parent.pid}/fd"
    wait(lambda: len(os.listdir(files)) < 20, lambda: os.listdir(files), LIMIT)
    assert masters.ask() is not None
    assert masters.parent.poll() is None


def test_a_question_in_pieces(masters):
    with masters.connect() as connection:
        for _ in range(NONCE):
            connection.sendall(b"x")
            time.sleep(0.001)
        assert len(connection.recv(1000)) > 64


@pytest.fixture
def answers():
    """A server that gives one answer to all, once it has it, on and on until they have gone."""
    answer = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = threading.Event()

        def serve():
            while not ends.is_set():
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(NONCE)
                    for piece in answer:
                        connection.sendall(piece)

        thread = threads.start_surely("peer", serve)
        yield server.getsockname()[1], answer
        ends.set()
        with contextlib.suppress(OSError), socket.create_connection(server.getsockname()):
            pass
        thread.join(LIMIT)


def test_nobody_else_speaks_for_it(masters, answers, monkeypatch):
    port, answer = answers
    environ = {bootstrap.ENV_WITNESS: f"300 127.0.0.1:{port}"}
    with masters.connect() as connection:
        connection.sendall(b"x" * NONCE)
        heard = connection.makefile("rb").read()
    monkeypatch.setattr(bootstrap, "MAX_ANSWER", 1000)
    for said in ([heard], [b""], [b"\n{}"], [b"\xff" * 500], [b"x" * 100] * 11):
        answer[:] = said
        assert ask_witness(ID, environ, KEY) is None, said
    assert ask_witness(ID, masters.environ, b"another key") is None
    assert masters.ask() is not None
