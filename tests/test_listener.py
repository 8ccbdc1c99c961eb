"""Strangers at every listener: those who belong there come through all the same."""

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import ssl
import threading
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from tfapp import listener
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.credentials import new_credentials
from tfapp.engines.spark.control import Control
from tfapp.feed.driver.ledger import Ledger
from tfapp.feed.driver.state import FeedState
from tfapp.feed.driver.tasks import Tasks
from tfapp.feed.program.context import Feed
from tfapp.feed.wire import Credentials, connect
from tfapp.listener import Guests
from tfapp.master.files import FileServer
from tfapp.master.server import Endpoint, Master, ServedApplication
from tfapp.page import server as pages

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")

PATIENCE = 60.0  # seconds, for what takes a moment
CREDENTIALS = Credentials(*new_credentials(time.time()))
ENDPOINT = Endpoint("127.0.0.1", "127.0.0.1", CREDENTIALS.certificate, CREDENTIALS.key)


def client_tls() -> ssl.SSLContext:
    return CREDENTIALS.tls(server=False)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@contextlib.contextmanager
def event_loop():
    """An event loop in a thread, as a master has it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


# ---- the listeners: each yields its port, and what one with credentials does --------------------
@contextlib.contextmanager
def page(folder):
    served = pages.PageServer(lambda request: pages.data({"ok": 1}))
    with served.serving():
        yield served.server_port, lambda: urllib.request.urlopen(served.address, timeout=PATIENCE)


@contextlib.contextmanager
def files(folder):
    def ask() -> None:
        port = port_of(server.address)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=PATIENCE, context=client_tls()
        )
        connection.request("GET", "/files/none")
        assert connection.getresponse().status == 404
        connection.close()

    async def made() -> FileServer:
        return FileServer(ENDPOINT)

    with event_loop() as run, run(made()) as server:
        yield port_of(server.address), ask


@contextlib.contextmanager
def program(folder):
    with socket.socket() as held:
        held.bind(("", 0))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        address = f"127.0.0.1:{held.getsockname()[1]}"
        receiver = Feed(address, CREDENTIALS.packed(), folder)._open()
        hello = {"role": "ledger", "feed": 1, "generation": 2, "worker": 0, "seed": 2}
        hello["instance"] = "worker/0"

        def ask() -> None:
            connect(address, client_tls(), hello)
            assert receiver.state(0) == (1, 2, 0)

        yield port_of(address), ask
        receiver._listener.shutdown(socket.SHUT_RDWR)
        receiver._listener.close()


@contextlib.contextmanager
def driver(folder):
    state = FeedState("app", Ledger(1 << 20), print)
    state.error = "over"
    tasks = Tasks(state, CREDENTIALS, [0])

    def ask() -> None:
        line = connect(f"127.0.0.1:{tasks.port}", client_tls(), {"role": "asker"})
        assert line.ask({"route": 0}) == {"error": "over"}
        line.close()

    yield tasks.port, ask
    tasks.close()


@contextlib.contextmanager
def control(folder):
    heard = threading.Event()
    ear: Any = SimpleNamespace(report=lambda said: heard.set())

    def ask() -> None:
        heard.clear()
        with client_tls().wrap_socket(
            socket.create_connection(("127.0.0.1", port_of(server.address)), PATIENCE)
        ) as connection:
            for line in ({"role": "reports"}, {"ended": "w_0"}):
                connection.sendall(json.dumps(line).encode() + b"\n")
            assert heard.wait(PATIENCE)

    async def made() -> Control:
        server = Control(ENDPOINT, ear)
        await server.start()
        return server

    async def close() -> None:
        server.close()

    with event_loop() as run:
        server = run(made())
        yield port_of(server.address), ask
        run(close())


@contextlib.contextmanager
def master(folder):
    async def made():
        accepted = ApplicationStatus("a", "ACCEPTED", 1, 0.0, 0.0, ())
        application = ServedApplication("application_1_0001", "me", b"", accepted)
        nothing: Any = None
        server, port = Master(application, ENDPOINT, nothing, nothing, time.time)._make_server()
        await server.start()
        return server, port

    def ask() -> None:
        found = grpc.ssl_channel_credentials(
            CREDENTIALS.certificate, CREDENTIALS.key, CREDENTIALS.certificate
        )
        name = (
            ("grpc.ssl_target_name_override", "skein-internal"),
            ("grpc.use_local_subchannel_pool", 1),
        )
        with grpc.secure_channel(f"127.0.0.1:{port}", found, name) as channel:
            call = channel.unary_unary("/nothing")
            with pytest.raises(grpc.RpcError) as raised:
                call(b"", timeout=PATIENCE)
            assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED

    with event_loop() as run:
        server, port = run(made())
        yield port, ask
        run(server.stop(0))
        del server  # while its loop runs


LISTENERS = {made.__name__: made for made in (page, files, program, driver, control, master)}


# ---- the strangers ------------------------------------------------------------------------------
@contextlib.contextmanager
def idle(port, monkeypatch):
    """400 who say nothing."""
    with contextlib.ExitStack() as all_of_them:
        for _ in range(400):
            all_of_them.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
        yield


@contextlib.contextmanager
def slow(port, monkeypatch):
    """100 who say what may become a request, or a handshake, a byte now and then."""
    over = threading.Event()
    with contextlib.ExitStack() as all_of_them:
        theirs = [
            all_of_them.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            for _ in range(100)
        ]

        def talk() -> None:
            for byte in b"GET / HTTP":
                for one in theirs:
                    with contextlib.suppress(OSError):
                        one.sendall(bytes([byte]))
                if over.wait(0.1):
                    return

        talking = threading.Thread(target=talk)
        talking.start()
        yield
        over.set()
        talking.join(PATIENCE)


@contextlib.contextmanager
def without_threads(port, monkeypatch):
    """No stranger, but no thread can be started for a moment."""
    left = [3]
    begin = threading.Thread.start

    def start(thread):
        if left[0] and thread.name.startswith(("tfapp", "pages", "files", "control")):
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    yield


STRANGERS = {made.__name__: made for made in (idle, slow, without_threads)}


@pytest.mark.slow
@pytest.mark.parametrize("strangers", STRANGERS)
@pytest.mark.parametrize("at", LISTENERS)
def test_those_who_belong_there_come_through(at, strangers, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(listener, "PLACE", 0.2)
    monkeypatch.setattr(listener, "MOST", 32)
    caplog.set_level(logging.CRITICAL)
    with LISTENERS[at](tmp_path) as (port, ask), STRANGERS[strangers](port, monkeypatch):
        ask()


def test_a_page_does_not_keep_those_who_lack_its_token(monkeypatch):
    """However they behave: whole requests do not admit them."""
    monkeypatch.setattr(listener, "LIMIT", 0.5)
    served = pages.PageServer(lambda request: pages.data({"ok": 1}))
    address = ("127.0.0.1", served.server_port)
    with served.serving(), socket.create_connection(address, PATIENCE) as stranger:
        stranger.sendall(b"GET /wrong/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % address[1])
        with stranger.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 403 Forbidden\r\n"
            answer.read()  # ends with the connection


# ---- guests -------------------------------------------------------------------------------------
class World:
    def __init__(self):
        self.now = 0.0
        self.guests = Guests(lambda: self.now)
        self.own, self._theirs = {}, []

    def add(self, name):
        self.own[name], theirs = socket.socketpair()
        self.own[name].setblocking(False)
        self._theirs.append(theirs)
        return self.guests.add(theirs)

    def close(self):
        self.guests.clear()
        for one in (*self.own.values(), *self._theirs):
            one.close()

    def left(self):
        """Those whose connections have not been ended."""
        found = set()
        for name, own in self.own.items():
            try:
                assert own.recv(1) == b""
            except BlockingIOError:
                found.add(name)
        return found


@pytest.fixture
def world():
    with contextlib.closing(World()) as made:
        yield made


def test_a_guest_has_to_be_admitted_in_time(world):
    world.add("slow")
    world.now = 5.0
    world.add("quick")()
    assert world.guests.look() == listener.LIMIT - 5.0
    world.now = listener.LIMIT
    assert world.guests.look() == float("inf")
    assert world.left() == {"quick"}


def test_where_others_wait_the_oldest_makes_room(world, monkeypatch):
    monkeypatch.setattr(listener, "MOST", 3)
    for second, name in enumerate("abc"):
        world.now = second * 0.5
        world.add(name)
    assert not world.guests.wait_for_room(0)
    assert world.guests.look() == listener.PLACE - 1.0
    world.now = listener.PLACE + 0.1
    assert world.guests.look() == listener.LIMIT - listener.PLACE - 0.1 + 0.5
    assert world.guests.wait_for_room(0)
    assert world.left() == {"b", "c"}


def test_where_threads_are_short_the_old_ones_go(world):
    world.add("old")
    world.now = listener.PLACE
    world.add("new")
    assert world.guests.look(short=True) == listener.PLACE
    assert world.left() == {"new"}
