"""Requests to a running application; a master plays the coordinator's part."""

from __future__ import annotations

import contextlib
import json
import sys

import pytest

from tests.engines.applications import compiled, eventually, service, wait_for_containers
from tests.engines.applications import stock_client as connected
from tfapp.contract.channel import CHUNK, EXIT, INPUT, OUTPUT, START
from tfapp.contract.encoding import encode
from tfapp.contract.messages import FlexReply
from tfapp.contract.names import FLEXED_PREFIX, KEY_FEED, KEY_FLEX, KEY_STATUS
from tfapp.contract.sessions import Command
from tfapp.contract.stacks import MAX_REPORT
from tfapp.contract.status import ApplicationStatus, FeedStatus, InstanceStatus
from tfapp.engines import control
from tfapp.engines.control import FeedCounters, flex, kill_container, profile, stacks
from tfapp.errors import BadStateError, NotFoundError, TfappError, UnreachableError, UsageError
from tfapp.protocol.watch import Broken, Put

# Refuses what asks for more than 3, and repeats the rest.
COORDINATOR = """
import json, skein
app = skein.ApplicationClient.from_current()
requests = app.kv.events(key="tfapp.report.flex")
app.kv["ready"] = b""
for event in requests:
    asked = json.loads(event.result.value)
    reply = {"accepted": asked["count"] != "4", "text": asked["component"] + asked["count"]}
    app.kv["tfapp.flexed." + asked["id"]] = json.dumps(reply).encode()
"""


@pytest.fixture
def running(engine, tmp_path):
    script = tmp_path / "coordinator.py"
    script.write_text(COORDINATOR)
    engine.create("app", compiled(master=f"exec {sys.executable} {script}", w=service()))
    with connected(engine) as client:
        eventually(lambda: client.kv.exists("ready"))
        yield engine, client


def test_flex_returns_the_answer(running):
    engine, client = running
    assert flex(engine, "app", "w", "+1") == "w+1"
    with pytest.raises(BadStateError, match="w4"):
        flex(engine, "app", "w", "4")
    assert not client.kv.get_prefix(FLEXED_PREFIX)
    assert client.kv.exists(KEY_FLEX)


# Answers for 100 runners, each with as much as a runner may tell.
RUNNERS = """
import dataclasses, json, skein
from tfapp.contract.encoding import encode
from tfapp.contract.stacks import Frame, InstanceStacks, ProcessStacks, ThreadStack
def told(line):
    frames = [Frame("call", "package/module.py", n, False) for n in range(90)]
    frames.append(Frame("main", "train.py", line, True))
    process = ProcessStacks(7, "python", "handler", threads=(ThreadStack(tuple(frames)),) * 90)
    return InstanceStacks("", "", "", 1, (process,)).fitting()
first, others = told(12), told(41)
app = skein.ApplicationClient.from_current()
requests = app.kv.events(key="tfapp.control.stacks")
app.kv["ready"] = b""
for event in requests:
    id = json.loads(event.result.value)["id"]
    for n in range(100):
        own = {"id": id, "instance": f"w/{n}", "container": f"w_{n}"}
        found = dataclasses.replace(others if n else first, **own)
        app.kv[f"tfapp.report.stacks.w/{n}"] = encode(found)
"""


def test_stacks_of_100_instances_are_there_in_time(engine, tmp_path):
    script = tmp_path / "runners.py"
    script.write_text(RUNNERS)
    engine.create("app", compiled(master=f"exec {sys.executable} {script}"))
    members = tuple(
        InstanceStatus(f"w/{n}", "w", "worker", "RUNNING", f"w_{n}", "127.0.0.1")
        for n in range(100)
    )
    with connected(engine) as client:
        eventually(lambda: client.kv.exists("ready"))
        client.kv[KEY_STATUS] = encode(ApplicationStatus("app", "RUNNING", 1, 5.0, 6.0, members))
        found = stacks(engine, "app")
    assert found.missing == ()
    assert str(found) == "99 of 100 are in call at train.py:41; w/0 is in call at train.py:12"
    size = sum(len(encode(one)) for one in found.instances)
    assert 100 * MAX_REPORT / 4 < size <= 100 * MAX_REPORT


# Each runner that is asked has a trace, but w/1, which does not answer.
TRACERS = """
import json, skein
app = skein.ApplicationClient.from_current()
requests = app.kv.events(key="tfapp.control.profile")
app.kv["ready"] = b""
for event in requests:
    asked = json.loads(event.result.value)
    told = {"files": [f"/c/plugins/profile/{asked['run']}/w.xplane.pb"], "bytes": 7}
    for instance in asked["instances"] or ["w/0", "w/1"]:
        for id in ("of another client", asked["id"]):
            if instance != "w/1":
                own = json.dumps({"id": id, "instance": instance, **told})
                app.kv[f"tfapp.profiled.{instance}"] = own.encode()
"""


def test_a_profile_says_where_the_traces_are_and_who_has_none(engine, tmp_path):
    script = tmp_path / "tracers.py"
    script.write_text(TRACERS)
    engine.create("app", compiled(master=f"exec {sys.executable} {script}"))
    members = [
        InstanceStatus(f"w/{n}", "w", "worker", "RUNNING", f"w_{n}", "127.0.0.1") for n in (0, 1)
    ]
    with connected(engine) as client:
        eventually(lambda: client.kv.exists("ready"))
        shown = ApplicationStatus("app", "RUNNING", 1, 5.0, 6.0, tuple(members))
        client.kv[KEY_STATUS] = encode(shown)
        found = profile(engine, "app", seconds=0.1, limit=1.0)
        (one,) = found.instances
        assert (one.instance, one.bytes, found.missing) == ("w/0", 7, ("w/1",))
        assert str(found) == f"1 of 2 traced: /c/plugins/profile/{found.run}"
        found = profile(engine, "app", ["w/0"], seconds=0.1)
        assert str(found) == f"1 of 1 traced: /c/plugins/profile/{found.run}"
        with pytest.raises(NotFoundError, match="app has no instance or component 'w/7'"):
            profile(engine, "app", ["w/0", "w/7"])
        for seconds in (0, -1, 61, float("nan")):
            with pytest.raises(UsageError, match="more than 0 and at most 60 s"):
                profile(engine, "app", seconds=seconds)


def test_a_container_is_killed_by_its_instance(running):
    engine, client = running
    (container,) = wait_for_containers(client, 1, "RUNNING")
    instance = InstanceStatus("w/0", "w", "worker", "RUNNING", container, "127.0.0.1")
    client.kv[KEY_STATUS] = encode(ApplicationStatus("app", "RUNNING", 1, 5.0, 6.0, (instance,)))
    with pytest.raises(NotFoundError, match="app has no instance or container 'w/1'") as caught:
        kill_container(engine, "app", "w/1")
    assert caught.value.hint == "`tfapp status app` lists them."
    assert kill_container(engine, "app", "w/0") == container
    assert wait_for_containers(client, 1, "KILLED") == [container]


def test_nothing_is_asked_of_what_has_ended(engine):
    engine.create("app", compiled(w=service("exit 0")))
    eventually(lambda: not engine.find("app").live)
    with pytest.raises(BadStateError, match="app is not running"):
        flex(engine, "app", "w", "1")


@pytest.mark.parametrize("late", [True, False], ids=["told later", "told meanwhile"])
def test_flex_returns_the_answer_of_the_next_master(late):
    """The stream of the one that is lost ends; the next one knows the request. It is not made a
    second time: by "+1" there would be two more."""
    reply, asked = encode(FlexReply(True, "done")), []

    class Lost(contextlib.AbstractContextManager):
        watches = 0

        def watch(self, keys):
            self.watches, (self.key,) = self.watches + 1, keys
            return self

        def put(self, key, value):
            asked.append(key)

        def read(self):
            return {} if late else {self.key: reply}

        def get(self, timeout):
            return Broken("lost") if self.watches == 1 else Put(self.key, reply)

        def discard(self, key):
            assert key == self.key

        def __exit__(self, *_):
            pass

    assert flex(Masters(Lost()), "app", "w", "+1") == "done"
    assert asked == [KEY_FLEX]


class Masters:
    """An engine whose application has one master after the other; None: it does not run."""

    def __init__(self, *masters):
        self.masters = list(masters)

    def connect(self, name):
        found = self.masters.pop(0)
        if found is None:
            raise BadStateError(f"{name} is not running")
        return found


class Master:
    def __init__(self):
        self.told, self.answers, self.closed = [], True, False

    def put(self, key, value):
        if not self.answers:
            raise UnreachableError("it does not answer")
        self.told.append((key, value))

    def close(self):
        self.closed = True


def test_counters_of_a_feed_are_told_to_the_master_of_the_moment():
    first, second = Master(), Master()
    counters = FeedCounters(Masters(None, first, second), "app")
    shown = [FeedStatus(rows=count) for count in range(5)]
    counters.show(shown[0])  # nobody is there
    counters.show(shown[1])
    counters.show(shown[2])
    first.answers = False
    counters.show(shown[3])
    counters.show(shown[4])
    assert first.told == [(KEY_FEED, encode(feed)) for feed in shown[1:3]]
    assert second.told == [(KEY_FEED, encode(shown[4]))]
    assert (first.closed, second.closed) == (True, False)
    counters.close()
    counters.close()
    assert second.closed


class Talking:
    """The channel of a command that says `words` again and again, and ends after so many times."""

    full = False

    def __init__(self, words: bytes, times: int):
        self.sent: list[tuple[bytes, bytes]] = []
        self._frames = iter([(OUTPUT, words)] * times + [(EXIT, b""), (EXIT, b"\7")])

    def put(self, kind: bytes, data: bytes = b"") -> None:
        self.sent.append((kind, data))

    def wait(self, files: object, timeout: float | None = None) -> None:
        assert timeout is None

    def take(self):
        yield next(self._frames)


def test_a_command_gets_its_input_and_its_output_has_a_bound(monkeypatch):
    monkeypatch.setattr(control, "MAX_OUTPUT", 30)
    given = b"g" * (2 * CHUNK + 1)
    channel = Talking(b"0123456789", 3)
    done = control.execute(channel, ("cat",), given, None)  # type: ignore[arg-type]
    assert (done.args, done.returncode, done.stdout) == (("cat",), 7, b"0123456789" * 3)
    (kind, first), *inputs = channel.sent
    assert (kind, Command.from_dict(json.loads(first))) == (START, Command(("cat",)))
    assert b"".join(data for _, data in inputs) == given
    assert inputs[-1] == (INPUT, b""), "its end"
    with pytest.raises(TfappError, match="the command has written more than 0 MiB"):
        control.execute(Talking(b"0123456789", 9), (), b"", None)  # type: ignore[arg-type]
