"""Applications that wait for a queue: with a master of their own each, for their containers."""

import time

import pytest
import skein

from tests.clusters.yarn import programs
from tests.clusters.yarn.conftest import program
from tests.end_to_end.trainings import LIMIT
from tests.waiting import wait
from tfapp.contract.status import GIVEN_BACK
from tfapp.engines.yarn.cluster import YarnCluster
from tfapp.engines.yarn.layout import YarnHome
from tfapp.engines.yarn.specification import MASTER_ENVIRONMENT

pytestmark = pytest.mark.usefixtures("nothing_left")

MEMORY = ("--resopt", "yarn.memory")  # each of the two nodes without a label has 8192 MiB
GANG = ("--option", "site.global.gang.timeout")


def test_a_full_queue_is_waited_for(tfapp):
    """For longer than all instances may take to be ready."""
    script = tfapp.program(programs.GOES_ON, "goes_on.py")
    tfapp.ok("run", script, "-w", 2, "--name", "holder", *MEMORY, 5000, "--detach", "--wait", LIMIT)
    script = tfapp.program(programs.HELLO)
    tfapp.ok("run", script, "-w", 2, "--name", "patient-one", *MEMORY, 5000, *GANG, 30, "--detach")

    def held() -> dict:
        return tfapp.status("patient-one")["status"]["held"] or {}

    wait(held, lambda: tfapp.asks("diagnostics", "patient-one"), 120)
    begun = held()["since"]
    time.sleep(36)  # for longer than the gang's time, which counts when all are granted
    assert (held()["kind"], held()["until"]) == ("queue", None)
    assert held()["since"] == begun
    text = tfapp.asks("status", "patient-one")
    assert "waiting for a container in the queue default" in text
    assert "waits for its queue since" in text
    assert tfapp.status("patient-one")["status"]["verdict"] is None
    tfapp.ok("stop", "holder", "--force")
    assert tfapp("wait", "patient-one").code == 0
    status = tfapp.status("patient-one")["status"]
    assert (status["restarts"], status["losses"]) == (0, 0)


def test_two_applications_do_not_keep_what_the_other_needs(tfapp):
    """There is room for four workers, and each has three. While another one has all of it, both
    come, and the queue gives its containers in turn."""
    place = ("--queue", "batch", *MEMORY, 3500, "--rescompopt", "slider-appmaster", "yarn.memory")
    script = tfapp.program(programs.GOES_ON, "goes_on.py")
    all_of_it = ("-w", 4, *place, 512, "--detach", "--wait", LIMIT)
    tfapp.ok("run", script, "--name", "all-of-it", *all_of_it)
    script, names = tfapp.program(programs.TAKES_A_WHILE), ("left", "right")
    for name in names:
        tfapp.ok("run", script, "--name", name, "-w", 3, *place, 512, *GANG, 20, "--detach")
    for name in names:
        wait(lambda name=name: tfapp.status(name)["status"]["held"], f"{name} waits", 120)
    tfapp.ok("stop", "all-of-it", "--force")
    for name in names:
        assert tfapp("wait", name).code == 0, tfapp.asks("diagnostics", name)
    told = [tfapp.status(name)["status"] for name in names]
    back = [m["text"] for status in told for m in status["timeline"] if m["kind"] == GIVEN_BACK]
    words = "2 of 3 containers were there and waited for the others in vain"
    assert back[0].startswith(words), told
    for status in told:
        assert (status["generation"], status["restarts"], status["losses"]) == (1, 0, 0)


@pytest.mark.weekly
def test_nodes_that_are_gone_are_not_waited_for_as_a_queue_is(tfapp, cluster):
    """The labelled node is full, and is lost while two applications wait for it. One gives up, the
    other gets its container when the node is back."""
    place = ("-w", 1, "--rescompopt", "worker", "yarn.label.expression", "special", "--detach")
    memory = ("--rescompopt", "worker", "yarn.memory")
    script = tfapp.program(programs.GOES_ON, "goes_on.py")
    tfapp.ok("run", script, "--name", "holder", *place, *memory, 8000, "--wait", LIMIT)
    script = tfapp.program(programs.HELLO)
    limit = ("--option", "site.global.queue.timeout", 150)
    tfapp.ok("run", script, "--name", "steady", *place, *memory, 512)
    tfapp.ok("run", script, "--name", "hasty", *place, *memory, 512, *limit)
    cluster.kill_node(3)
    try:
        tfapp.ok("stop", "holder", "--force")
        why = "no node that works has the label 'special'"

        def held() -> dict:
            return tfapp.status("steady")["status"]["held"] or {}

        wait(lambda: held().get("kind") == "nodes", lambda: tfapp.asks("status", "steady"), 120)
        text = tfapp.asks("status", "steady")
        assert f"waiting for a container in the queue default: {why}" in text
        assert "waits for nodes that have room since" in text
        assert held()["until"] is not None
        assert tfapp("wait", "hasty").code == 67
        assert why in tfapp.status("hasty")["status"]["verdict"]["summary"]
    finally:
        cluster.start_node(3)
    assert tfapp("wait", "steady").code == 0, tfapp.asks("diagnostics", "steady")
    status = tfapp.status("steady")["status"]
    assert (status["generation"], status["restarts"], status["losses"]) == (1, 0, 0)


@pytest.mark.weekly
def test_a_large_application_is_not_starved_by_small_ones(tfapp, user):
    """One of eight in a queue of eight, and ten of one, each of which comes again as soon as it has
    ended. The large one holds what it gets for longer each time."""
    room = 1984  # MiB, of which each of the two nodes has four, and a little for a master
    flags = ("--rescompopt", "worker", "yarn.memory", room, *GANG, 20, "--detach")
    master = ("--rescompopt", "slider-appmaster", "yarn.memory", 256)
    script, yarn = (
        tfapp.program(programs.GOES_ON),
        YarnCluster(YarnHome(user.home / "yarn"), user.environ),
    )
    smalls: list[str] = []

    def come(most: int) -> int:
        """One small application, if there are fewer than `most`. Returns how many have ended."""
        known = {report.id: report for report in yarn.applications(program.user(), "small")}
        live = [id for id in smalls if not known[id].ended]
        if len(live) < most:
            smalls.append(yarn.submit(small(room)))
        return len(smalls) - len(live)

    def large() -> dict:
        return tfapp.status("large")["status"]

    try:
        wait(lambda: come(10) or len(smalls) == 10, "ten small ones", 120)
        before = come(10)
        tfapp.ok("run", script, "-w", 8, "--name", "large", *flags, *master)
        wait(lambda: come(10) and large()["state"] == "RUNNING", large, 600)
        ended = come(10) - before
    finally:
        for id in smalls:
            yarn.kill(id)
    status = large()
    assert ended > 0
    assert (status["generation"], status["restarts"], status["losses"]) == (1, 0, 0)
    tfapp.ok("stop", "large", "--force")


def small(memory: int) -> skein.ApplicationSpec:
    """An application that is a master alone: nothing of tfapp."""
    size = skein.Resources(memory=memory, vcores=1)
    master = skein.Master(resources=size, script="sleep 60", env=MASTER_ENVIRONMENT)
    return skein.ApplicationSpec(name="small", master=master, max_attempts=1)


# Waits until there are three.
JOINS = """
import json, os, signal
config = json.loads(os.environ["TF_CONFIG"])
index, workers = config["task"]["index"], config["cluster"]["worker"]
print(f"worker {index} of {len(workers)}", flush=True)
if len(workers) < 3:
    signal.pause()
"""


@pytest.mark.weekly
def test_an_application_trains_with_what_there_is_room_for(tfapp):
    """One node is taken, and two workers of three fit the other. The third joins later."""
    script = tfapp.program(programs.GOES_ON, "goes_on.py")
    tfapp.ok("run", script, "-w", 1, "--name", "taker", *MEMORY, 6000, "--detach", "--wait", LIMIT)
    script = tfapp.program(JOINS, "joins.py")
    least = ("--rescompopt", "worker", "yarn.component.instances.min", 2)
    times = ("--option", "site.global.elastic.wait", 5, "--option", "site.global.elastic.interval")
    words = (*MEMORY, 3000, *least, *times, 5, "--detach", "--wait", LIMIT)
    tfapp.ok("run", script, "-w", 3, "--name", "elastic", *words)
    text = tfapp.asks("status", "elastic")
    assert "2 of 3 instances; the others join when they come" in text
    assert "waiting for a container in the queue default" in text
    status = tfapp.status("elastic")["status"]
    (late,) = status["joined"]
    assert (status["generation"], status["state"], status["held"]) == (1, "RUNNING", None)
    tfapp.ok("stop", "taker", "--force")
    assert tfapp("wait", "elastic").code == 0, tfapp.asks("diagnostics", "elastic")
    status = tfapp.status("elastic")["status"]
    assert (status["generation"], status["restarts"], status["losses"]) == (2, 0, 0)
    assert {i["state"] for i in status["instances"]} == {"SUCCEEDED"}
    log = tfapp.asks("logs", "elastic")
    for words in ("0 of 2", "1 of 2", "0 of 3", "1 of 3", "2 of 3"):
        assert log.count(f"worker {words}") == 1, log
    assert f"{late} joined" in [moment["text"] for moment in status["timeline"]]
