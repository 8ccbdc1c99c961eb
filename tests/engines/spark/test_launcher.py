"""A container's messages at the launcher, whatever they are and whatever the disk takes."""

import asyncio
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from tfapp.contract.names import RETURNED_FILE
from tfapp.engines.spark.launcher import NODE_LOST, SparkLauncher, _Container
from tfapp.master.launcher import Ended, Task
from tfapp.standalone import keeper
from tfapp.standalone.keeper import EXIT, GO, LOG, RETURNED

DONE = (EXIT, json.dumps({"code": 0, "lost": False}).encode())


class Line:
    host = "10.0.0.9"

    def __init__(self, frames: list[Any]):
        self.frames, self.said = frames, b""

    def say(self, word: bytes) -> None:
        self.said += word

    async def frame(self) -> Any:
        frame = self.frames.pop(0) if self.frames else None
        if isinstance(frame, Exception):
            raise frame
        return frame


def end_of(log, *frames) -> Ended:
    """The end of a container that says `frames`."""

    async def run() -> Ended:
        told: Any = None
        container = _Container(Task("c_1", "worker_0", "worker/0", None, {}), told, log)
        launcher = SparkLauncher.__new__(SparkLauncher)
        launcher._containers = {"c_1": container}
        line = Line(list(frames))
        launcher._config = SimpleNamespace(attempts=1)  # type: ignore[assignment]
        await launcher.container("c_1", 1, line, again=False)  # type: ignore[arg-type]
        assert line.said == GO
        return container.end.result()

    return asyncio.run(run())


def test_a_container_ends_as_it_says(tmp_path):
    log = tmp_path / "worker.log"
    assert end_of(log, (LOG, b"one\n"), (RETURNED, b"{}"), DONE) == Ended(0, last_lines="one")
    assert (log.read_bytes(), (tmp_path / RETURNED_FILE).read_bytes()) == (b"one\n", b"{}")


def test_a_full_disk_loses_lines_and_no_container(tmp_path):
    log = tmp_path / "worker.log"
    log.symlink_to("/dev/full")
    (tmp_path / RETURNED_FILE).mkdir()  # what functions return cannot be written either
    assert end_of(log, (LOG, b"one\n"), (RETURNED, b"{}"), DONE).code == 0


BROKEN = {
    "it goes": None,
    "an end that is none": (EXIT, b"{"),
    "an end without a code": (EXIT, b"{}"),
    "any error": RuntimeError("x"),
}


@pytest.mark.parametrize("frame", BROKEN.values(), ids=BROKEN)
def test_whatever_happens_there_is_an_end(tmp_path, frame):
    end = end_of(tmp_path / "worker.log", (LOG, b"one\n"), frame)
    assert (end.code, end.reason, end.last_lines) == (None, NODE_LOST, "one")
    assert Line.host in end.message


def test_a_log_that_cannot_be_opened_is_an_end(tmp_path):
    end = end_of(tmp_path / "nowhere" / "worker.log")
    assert (end.code, end.reason) == (None, NODE_LOST)
    assert "No such file" in end.message


def test_a_keeper_does_not_wait_for_what_it_may_not_kill(monkeypatch):
    """Such as a daemon that a program has started by sudo."""
    alive = [2, 3]

    def kill(pid, number):
        if pid == 3:
            raise PermissionError
        alive.remove(pid)

    monkeypatch.setattr(keeper, "alive_below", lambda root: list(alive))
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(keeper, "KILL_LIMIT", float("inf"))

    async def run():
        ended = asyncio.get_running_loop().create_future()
        ended.set_result(0)
        await keeper.kill_all(ended)

    asyncio.run(run())
    assert alive == [3]


class Sent:
    """The writer of a keeper."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data

    async def drain(self):
        pass


# Saves when it is asked to end, which takes longer than a keeper waits after an order to kill.
SAVES = f"""
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep({6 * keeper.TERM_GRACE})
    pathlib.Path(sys.argv[-1], "saved").touch()
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
pathlib.Path(sys.argv[-1], "pid").write_text(str(os.getpid()))
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("ends", ["the task", "by order"])
def test_a_program_saves_when_its_spark_task_ends_and_not_when_it_is_killed(
    tmp_path, monkeypatch, ends
):
    def alive(root):  # of this test's container alone
        pid = int((tmp_path / "pid").read_text())
        return [pid] if os.path.exists(f"/proc/{pid}") else []

    monkeypatch.setattr(keeper, "alive_below", alive)
    (tmp_path / "bootstrap.py").write_text(SAVES)
    environ = {**os.environ, "LOG_DIRS": str(tmp_path)}
    order = {"folder": str(tmp_path), "files": "", "id": "c_1", "environment": environ}

    async def run():
        mine = keeper.Keeper(order)
        mine.writer = Sent()
        mine.connected.set()
        over, gone = (asyncio.get_running_loop().create_future() for _ in range(2))
        running = asyncio.ensure_future(mine.run(over, gone))
        while b"ready" not in mine.writer.data:
            await asyncio.wait({running}, timeout=0.05)
        if ends == "the task":
            gone.set_result(None)
        else:
            over.set_result(None)
        return await asyncio.wait_for(running, 30)

    ended = asyncio.run(run())
    saves = ends == "the task"
    assert ended == {"code": None, "lost": True} if saves else not ended["lost"]
    assert (tmp_path / "saved").exists() == saves
