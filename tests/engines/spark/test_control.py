"""The master's side of the driver's and the containers' connections, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import struct
import time

import pytest

from tfapp.engines.credentials import new_credentials
from tfapp.engines.spark.control import MAX_FRAME, Control
from tfapp.master.server import Endpoint
from tfapp.standalone.keeper import GO, LOG

CERTIFICATE, KEY = new_credentials(time.time())
LIMIT = 60.0


class Ear:
    """Notes what it hears; takes the frames of containers."""

    def __init__(self):
        self.heard: asyncio.Queue[object] = asyncio.Queue()

    def agent_came(self):
        self.heard.put_nowait("the agent came")

    def agent_left(self):
        self.heard.put_nowait("the agent left")

    def report(self, said):
        self.heard.put_nowait(said)

    async def container(self, id, attempt, line, again):
        line.say(GO)
        frames = []
        while frame := await line.frame():
            frames.append(frame)
        self.heard.put_nowait((id, attempt, line.host, frames))


class World:
    """A control server, and those who connect to it."""

    def __init__(self, folder, control, ear):
        self._folder, self.control, self._ear = folder, control, ear
        self._writers: list[asyncio.StreamWriter] = []

    async def next(self):
        return await asyncio.wait_for(self._ear.heard.get(), LIMIT)

    async def connect(self, certificate=CERTIFICATE, key=KEY):
        """As one that has these credentials, or none."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = False
        tls.load_verify_locations(cadata=CERTIFICATE.decode())
        if certificate:
            path = self._folder / "pem"
            path.write_bytes(key + certificate)
            tls.load_cert_chain(path)
        host, _, port = self.control.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
        self._writers.append(writer)
        return reader, writer

    async def close(self):
        """Ends all that were made."""
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def say(self, what, **credentials):
        """Sends a first line; returns the connection."""
        reader, writer = await self.connect(**credentials)
        writer.write(json.dumps(what).encode() + b"\n")
        await writer.drain()
        return reader, writer


def with_control(folder, test):
    async def run():
        ear = Ear()
        control = Control(Endpoint("127.0.0.1", "127.0.0.1", CERTIFICATE, KEY), ear)
        await control.start()
        world = World(folder, control, ear)
        try:
            await test(world)
        finally:
            await world.close()
            control.close()

    asyncio.run(run())


@pytest.mark.parametrize("who", ["one without credentials", "one with credentials of another"])
def test_strangers_are_not_heard(tmp_path, who):
    others = new_credentials(time.time()) if "another" in who else (b"", b"")

    async def test(world):
        with contextlib.suppress(OSError):  # TLS 1.3 may tell it when something is read
            reader, _ = await world.say({"role": "reports"}, certificate=others[0], key=others[1])
            assert await asyncio.wait_for(reader.read(), LIMIT) == b""
        _, writer = await world.say({"role": "reports"})
        writer.write(b'{"ended": "w_0"}\n')
        assert await world.next() == {"ended": "w_0"}  # and nothing before

    with_control(tmp_path, test)


def test_the_agent_takes_orders_until_it_ends(tmp_path):
    async def test(world):
        assert not world.control.order({"do": "run"})
        reader, writer = await world.say({"role": "orders"})
        assert await world.next() == "the agent came"
        assert world.control.order({"do": "run"})
        assert json.loads(await asyncio.wait_for(reader.readline(), LIMIT)) == {"do": "run"}
        writer.close()
        assert await world.next() == "the agent left"
        assert not world.control.order({"do": "run"})

    with_control(tmp_path, test)


def test_a_container_says_what_it_has_until_it_says_too_much(tmp_path):
    async def test(world):
        hello = {"role": "container", "id": "w_0", "attempt": 1}
        reader, writer = await world.say(hello)
        assert await asyncio.wait_for(reader.readline(), LIMIT) == GO
        writer.write(LOG + struct.pack(">I", 3) + b"one" + LOG + struct.pack(">I", MAX_FRAME + 1))
        assert await world.next() == ("w_0", 1, "127.0.0.1", [(LOG, b"one")])

    with_control(tmp_path, test)


DEEP = b"[" * 60_000 + b"\n"  # fits into a line
NO_HELLO = [b"no JSON\n", b"[]\n", b'{"role": "king"}\n', b"x" * (1 << 17), DEEP]


@pytest.mark.parametrize("line", NO_HELLO, ids=["no JSON", "a list", "a king", "long", "deep"])
def test_what_cannot_be_meant_ends_its_connection(tmp_path, line):
    async def test(world):
        reader, writer = await world.connect()
        with contextlib.suppress(OSError):
            writer.write(line)
            assert await asyncio.wait_for(reader.read(), LIMIT) == b""

    with_control(tmp_path, test)


def test_an_agent_that_says_anything_has_left(tmp_path):
    async def test(world):
        _, writer = await world.say({"role": "orders"})
        assert await world.next() == "the agent came"
        writer.write(DEEP)
        assert await world.next() == "the agent left"

    with_control(tmp_path, test)
