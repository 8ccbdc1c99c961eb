"""Requests to a running application; a master plays the coordinator's part."""

from __future__ import annotations

import sys

import pytest

from tests.engines.applications import compiled, eventually, service, wait_for_containers
from tests.engines.applications import stock_client as connected
from tfapp.contract.encoding import encode
from tfapp.contract.names import FLEXED_PREFIX, KEY_FLEX, KEY_STATUS
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.control import flex, kill_container
from tfapp.errors import BadStateError, NotFoundError

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
