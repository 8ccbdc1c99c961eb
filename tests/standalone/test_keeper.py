"""A keeper whose masters are lost."""

import asyncio
import json
import os
import sys
import time

import pytest

from tfapp.engines.credentials import new_credentials
from tfapp.engines.spark.control import Control
from tfapp.master.server import Endpoint
from tfapp.standalone import keeper
from tfapp.standalone.keeper import END, EXIT, GO, GO_ON, LOG, NOTED, RETURNED

CERTIFICATE, KEY = new_credentials(time.time())
LIMIT = 30.0

# Says 20 numbers, each once there is a file for it, and ends with 3.
PROGRAM = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[-1])
for number in range(20):
    while not (folder / str(number)).exists():
        time.sleep(0.005)
    print(number, flush=True)
(folder / "logs/tfapp-returned.json").write_text("{}")
sys.exit(3)
"""
SAID = "".join(f"{number}\n" for number in range(20)).encode()


class Master:
    """One of several, at one address, which all write one log. `hears`: so many frames until it is
    lost."""

    def __init__(self, log, hears):
        self.log, self.hears, self.greeted = log, hears, []
        self.frames = []
        self.lost = asyncio.Event()

    async def container(self, id, attempt, line, again):
        self.greeted.append((id, attempt, again))
        line.say(GO_ON % len(self.log) if again else GO)
        while len(self.frames) < self.hears:
            frame = await line.frame()
            if frame is None:
                return
            self.frames.append(frame)
            if frame[0] == LOG:
                self.log += frame[1]
            if frame[0] == EXIT and self.hears == 1000:
                line.say(NOTED)
                return
        self.lost.set()
        await asyncio.sleep(1000000)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bootstrap.py").write_text(PROGRAM)
    (tmp_path / "crt").write_bytes(CERTIFICATE)
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "logs").mkdir()
    return tmp_path


async def start(folder, control):
    order = {
        "id": "c_1",
        "attempt": 2,
        "control": control.address,
        "files": "",
        "folder": str(folder),
        "environment": {**os.environ, "LOG_DIRS": str(folder / "logs")},
        "patience": LIMIT,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, keeper.__file__, stdin=asyncio.subprocess.PIPE
    )
    process.stdin.write(json.dumps(order).encode() + b"\n")
    return process


async def serve(master, port=0):
    endpoint = Endpoint("127.0.0.1", "127.0.0.1", CERTIFICATE, KEY)
    control = Control(endpoint, master, port)
    await control.start()
    return control


def test_each_line_and_the_end_reach_a_master(folder):
    """Whatever the ones before have heard: the third is lost before the end is noted."""

    async def story():
        log = bytearray()
        masters = [Master(log, hears) for hears in (1, 1, 999, 1000)]
        control = await serve(masters[0])
        port = int(control.address.rpartition(":")[2])
        process = await start(folder, control)
        for turn, master in enumerate(masters):
            if turn:
                control = await serve(master, port)
            for number in (0, 1, 2) if turn == 0 else range(20) if turn == 2 else (3, 4, 5):
                (folder / str(number)).touch()
            if turn == 2:
                until = asyncio.get_running_loop().time() + LIMIT
                while EXIT not in [kind for kind, _ in master.frames]:
                    assert asyncio.get_running_loop().time() < until
                    await asyncio.sleep(0.01)
            elif turn < 2:
                await asyncio.wait_for(master.lost.wait(), LIMIT)
            else:
                assert await asyncio.wait_for(process.wait(), LIMIT) == 0
            control.close()
        return bytes(log), masters

    log, masters = asyncio.run(story())
    assert log == SAID
    assert [master.greeted for master in masters] == [[("c_1", 2, turn > 0)] for turn in range(4)]
    ended = json.dumps({"code": 3, "lost": False}).encode()
    assert masters[-1].frames == [(RETURNED, b"{}"), (EXIT, ended)]


def test_a_master_that_does_not_know_a_container_ends_it(folder):
    class Stranger(Master):
        async def container(self, id, attempt, line, again):
            line.say(END)
            await line.frame()

    async def story():
        first = Master(bytearray(), 1)
        control = await serve(first)
        process = await start(folder, control)
        (folder / "0").touch()
        await asyncio.wait_for(first.lost.wait(), LIMIT)
        control.close()
        port = int(control.address.rpartition(":")[2])
        control = await serve(Stranger(bytearray(), 1), port)
        assert await asyncio.wait_for(process.wait(), LIMIT) == 0
        control.close()

    asyncio.run(story())
    assert not folder.exists(), "the keeper has ended what was there, and deleted it"
