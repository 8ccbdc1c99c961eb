"""A container's messages at the launcher, whatever they are and whatever the disk takes."""

import asyncio
import contextlib
import json
import os
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tfapp.contract.names import RETURNED_FILE
from tfapp.engines.spark import driver
from tfapp.engines.spark import launcher as launcher_module
from tfapp.engines.spark.driver import Agent
from tfapp.engines.spark.launcher import NODE_LOST, PREEMPTED, SparkLauncher, _Container
from tfapp.master.launcher import Ended, Task
from tfapp.standalone import keeper
from tfapp.standalone.keeper import END, EXIT, GO, GO_ON, LOG, NOTED, RETURNED

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


class Playing:
    """A launcher after the loss of a master, whose server, driver and keepers are played. `told`:
    orders to the driver; `ends`: why the run ended."""

    def __init__(self, folder, monkeypatch, begun):
        monkeypatch.setattr(
            launcher_module.machine, "log_file", lambda run, task: folder / f"{task.name}.log"
        )
        self.told: list[Any] = []
        self.ends: list[str] = []
        self.control = SimpleNamespace(address="h:1", order=self.told.append, start=self.nothing)
        monkeypatch.setattr(launcher_module, "Control", lambda *_: self.control)
        self.files = SimpleNamespace(
            address="h:2", begin=lambda: None, offering=lambda *_: contextlib.nullcontext()
        )
        config = SimpleNamespace(engine={}, attempts=3, master_timeout=1.0, name="app")
        asks = {"asks_witness": lambda limit: {}}
        endpoint = SimpleNamespace(certificate=b"", key=b"", **asks)
        beside = SimpleNamespace(noted=lambda id: None)
        fields: Any = (None, config, endpoint, self.files, beside, self.ends.append, 0, begun)
        self.launcher = SparkLauncher(*fields)

    async def nothing(self):
        """Serves."""

    def run(self, name, told=None):
        service = SimpleNamespace(resources=SimpleNamespace(vcores=1, gpus=0))
        task = Task(f"c_{name}", name, name.replace("_", "/"), service, {})
        return asyncio.ensure_future(self.launcher.run(task, told))


def test_a_container_of_an_earlier_master_goes_on(tmp_path, monkeypatch):
    """No job is ordered for it. Its end is told to the keeper when it is written down."""
    (tmp_path / "w_0.log").write_bytes(b"one\n")

    async def story():
        playing = Playing(tmp_path, monkeypatch, ["c_w_0"])
        running, new = playing.run("w_0"), playing.run("w_1")
        await asyncio.sleep(0)
        playing.launcher.agent_came()
        line = Line([(LOG, b"two\n"), DONE])
        keeping = asyncio.ensure_future(playing.launcher.container("c_w_0", 1, line, again=True))
        ended = await asyncio.wait_for(running, 60)
        assert line.said == GO_ON % 4
        playing.launcher.noted("c_w_0")
        await asyncio.wait_for(keeping, 60)
        assert line.said == GO_ON % 4 + NOTED
        new.cancel()
        return ended, playing.told

    ended, told = asyncio.run(story())
    assert ended == Ended(0, last_lines="one\ntwo")
    assert told[0] == {"do": "keep", "wanted": {"c_w_0": True, "c_w_1": False}}
    assert [(each["do"], each.get("id")) for each in told[1:]] == [("run", "c_w_1")]


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (lambda launcher: None, NODE_LOST),  # nobody comes
        (
            lambda launcher: launcher.report({"ended": "c_w_0", "words": "lost", "cannot": False}),
            PREEMPTED,
        ),
    ],
    ids=["no keeper", "its job has ended"],
)
def test_a_container_of_an_earlier_master_is_gone(tmp_path, monkeypatch, story, reason):
    monkeypatch.setattr(launcher_module, "BACK_LIMIT", 0.05)

    async def run():
        playing = Playing(tmp_path, monkeypatch, ["c_w_0"])
        running = playing.run("w_0")
        await asyncio.sleep(0)
        playing.launcher.agent_came()
        story(playing.launcher)
        return await asyncio.wait_for(running, 60)

    ended = asyncio.run(run())
    assert (ended.code, ended.reason) == (None, reason)


@pytest.mark.parametrize("comes", [True, False])
def test_spark_begins_a_container_of_an_earlier_master_again(tmp_path, monkeypatch, comes):
    """On another machine, because its own is cut off. It is started once, and is not another's."""
    monkeypatch.setattr(launcher_module, "BACK_LIMIT", 60.0 if comes else 0.05)

    async def run():
        playing, second = Playing(tmp_path, monkeypatch, ["c_w_0"]), Line([])
        running = playing.run("w_0")
        await asyncio.sleep(0)
        playing.launcher.agent_came()
        retried = playing.launcher.container("c_w_0", 1, second, again=False)
        retrying = asyncio.ensure_future(retried)
        await asyncio.sleep(0)
        if comes:
            first = playing.launcher.container("c_w_0", 0, Line([DONE]), again=True)
            keeping = asyncio.ensure_future(first)
        ended = await asyncio.wait_for(running, 60)
        await asyncio.wait_for(retrying, 60)
        if comes:
            playing.launcher.noted("c_w_0")
            await asyncio.wait_for(keeping, 60)
        return ended, second.said

    ended, said = asyncio.run(run())
    assert (ended.code, ended.reason) == ((0, "") if comes else (None, NODE_LOST))
    assert said == END


def test_a_driver_that_ended_with_the_master_does_not_come(tmp_path, monkeypatch):
    """That is known before its containers are lost, which would begin another generation."""
    assert launcher_module.AGENT_LIMIT < launcher_module.BACK_LIMIT
    monkeypatch.setattr(launcher_module, "AGENT_LIMIT", 0.05)

    async def run():
        playing = Playing(tmp_path, monkeypatch, ["c_w_0"])
        running = playing.run("w_0")
        while not playing.ends:
            await asyncio.sleep(0.01)
        running.cancel()
        return playing.ends

    assert asyncio.run(asyncio.wait_for(run(), 60)) == ["The Spark driver has ended."]


def test_a_keeper_that_nobody_knows_is_ended(tmp_path, monkeypatch):
    async def run():
        playing, line = Playing(tmp_path, monkeypatch, []), Line([])
        await playing.launcher.container("c_w_0", 1, line, again=True)
        return line.said

    assert asyncio.run(run()) == END


def test_the_agent_keeps_the_jobs_that_the_next_master_wants():
    """It ends the others, and reports once more on those that have ended meanwhile."""
    agent, cancelled, reported = Agent.__new__(Agent), [], []
    agent._cancel, agent._report = cancelled.append, reported.append
    agent._waiting = {"goes on", "unwanted"}
    agent._ended = {id: {"ended": id} for id in ("meanwhile", "before", "did not begin")}
    agent._obey(
        {"do": "keep", "wanted": {"goes on": True, "meanwhile": True, "did not begin": False}}
    )
    agent._obey({"do": "run", "id": "goes on"})
    assert (cancelled, reported) == (["unwanted"], [{"ended": "meanwhile"}])
    assert agent._waiting == {"goes on", "unwanted"}, "until Spark has ended it"


def test_the_end_of_the_session_is_told_to_the_next_master(monkeypatch):
    """It came while there was none."""
    monkeypatch.setattr(driver, "running", lambda context: False)
    monkeypatch.setattr(driver, "LOOK_EVERY", 0.01)
    lost, begins, serves = (
        SimpleNamespace(address=address, lives=True) for address in ("h:1", "", "h:2")
    )
    states = iter([lost, begins])
    monkeypatch.setattr(driver, "read_state", lambda folder: next(states, serves))
    mine, gone = socket.socketpair()
    gone.close()
    agent, (reports, heard) = Agent.__new__(Agent), socket.socketpair()
    agent._lock, agent._over, agent._waiting = threading.Lock(), threading.Event(), set()
    agent._context, agent._run_folder, agent._patience = None, None, 60.0
    agent._state, agent._orders, agent._reports = lost, mine, mine
    orders, master = socket.socketpair()

    def connect():
        agent._state, agent._orders, agent._reports = serves, orders, reports

    agent._connect = connect
    agent.start()
    with heard, master:
        heard.settimeout(60)
        assert json.loads(heard.makefile("rb").readline()) == {"over": driver.OVER}
        serves.lives = False  # it ends
    assert agent._over.wait(60)
