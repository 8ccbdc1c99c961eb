"""Pods as containers, with an API server that has no nodes."""

import asyncio
import contextlib
import copy
import dataclasses
import threading
import time

import pytest

from tests.engines.kubernetes.api_server import Answer, ApiServer, status
from tests.engines.kubernetes.pod.launching import ENDPOINT, Script, Told
from tests.waiting import until
from tfapp.contract.names import ENV_AVOID
from tfapp.engines.client import SHUTDOWN_DEADLINE
from tfapp.engines.kubernetes.pod import api as api_module
from tfapp.engines.kubernetes.pod import launcher as launcher_module
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.launcher import PodLauncher, PodRun
from tfapp.engines.kubernetes.pod.transport import PodApi
from tfapp.errors import ForbiddenError, UnavailableError
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, SupersededError, Task
from tfapp.protocol.definition import messages

SILENT = "waiting for the end of the instance in its pod before, which is silent"
LIMITS = launcher_module.COURTESY, launcher_module.CLOSE_LIMIT, launcher_module.DELETE_LIMIT
POD = "tfapp-a-2-w-0"
KEY = f"Pod/{POD}"
LABELS = {**names.run_labels("a", 1), "tfapp/component": "w"}
MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": LABELS},
    "spec": {
        "containers": [{"name": "side"}, {"name": "tfapp", "command": ["sh", "-c", "..."]}],
        "volumes": [
            {"name": "tfapp-run", "secret": {"secretName": "tfapp-a-1"}},
            {"name": "tfapp-work", "emptyDir": {}},
        ],
    },
}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "u", "controller": True}
RUN = PodRun("a", 2, OWNER, {"w": MANIFEST}, heartbeat=1.0)
TASK = Task("container_1_0002_01_000002", "w_0", "w/0", messages.Service(script="true"), {})


def test_a_pod_prefers_other_nodes_than_those_on_which_its_instance_was_lost():
    task = dataclasses.replace(TASK, environment={ENV_AVOID: "n1,n2"})
    preference = {
        "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("n1", "n2")
        ]
    }
    affinity = RUN.manifest(task, "m:1")["spec"]["affinity"]["nodeAffinity"]
    prefers = "preferredDuringSchedulingIgnoredDuringExecution"
    assert affinity == {prefers: [{"weight": 100, "preference": preference}]}
    assert "affinity" not in RUN.manifest(TASK, "m:1")["spec"]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    spread = [{"whenUnsatisfiable": how} for how in ("ScheduleAnyway", "DoNotSchedule")]
    spec = {
        **MANIFEST["spec"],
        "affinity": {"nodeAffinity": required},
        "topologySpreadConstraints": spread,
    }
    run = dataclasses.replace(RUN, pods={"w": {**MANIFEST, "spec": spec}})
    found = run.manifest(task, "m:1")["spec"]
    assert found["topologySpreadConstraints"] == spread[1:], "a preference would weigh as much"
    affinity = found["affinity"]["nodeAffinity"]
    assert affinity == {**required, prefers: [{"weight": 100, "preference": preference}]}
    assert spec["affinity"] == {"nodeAffinity": required}, "the next pod begins without"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Attempts and looks follow each other soon."""
    monkeypatch.setattr(launcher_module, "RETRY", 0.05)
    monkeypatch.setattr(launcher_module, "FORBIDDEN_LIMIT", 0.2)
    monkeypatch.setattr(launcher_module, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(launcher_module, "QUIET", 0.05)
    monkeypatch.setattr(launcher_module, "COURTESY", 0.05)
    monkeypatch.setattr(api_module, "LONGEST_PAUSE", 0.2)


@pytest.fixture
def server(tmp_path):
    with ApiServer("test").running(tmp_path) as running:
        yield running


def play(server, story, task=TASK, begun=()):
    """Runs the container beside `story(launcher, files, told)`, a coroutine function; then closes
    the launcher. Returns the end, what was told, and what the story returned. `begun`: see
    PodLauncher."""

    async def everything():
        with FileServer(ENDPOINT) as files:
            api = PodApi(server.environ, server.account)
            launcher = PodLauncher(api, RUN, files, Script(), begun)
            launcher.start()
            told = Told()
            running = asyncio.ensure_future(launcher.run(task, told))
            try:
                result = await story(launcher, files, told)
                ended = await asyncio.wait_for(running, 60)
            finally:
                running.cancel()
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    await running
                await launcher.close()
            return ended, told, result

    return asyncio.run(everything())


def main(code, reason="Error"):
    return {"name": "tfapp", "state": {"terminated": {"exitCode": code, "reason": reason}}}


def made(launcher):
    """Whether it knows that there is a pod."""
    return any(pod.created for pod in launcher._pods.values())


async def begun(server, files=None):
    """Returns once the pod is made, has a node, and has fetched its order from `files`."""
    await asyncio.to_thread(server.await_object, KEY)
    server.change(POD, "Running", node="node1")
    if files is not None:
        assert await asyncio.to_thread(files.order, TASK.id, "attempt", "10.78.1.4") is not None


def test_a_master_whose_run_another_one_has_makes_and_ends_no_pod(server):
    def superseded():
        raise SupersededError("another master has the run")

    async def story(launcher, files, told):
        await begun(server, files)
        launcher.check = superseded
        await launcher.kill(TASK.id)
        other = dataclasses.replace(TASK, id=TASK.id[:-1] + "3", name="w_1")
        with pytest.raises(SupersededError):
            await launcher.run(other, told)
        launcher.stay = True
        asked = [(request.method, request.key) for request in server.requests]
        server.change(POD, "Failed", containerStatuses=[main(1)])
        return asked

    _, _, asked = play(server, story)
    assert [key for method, key in asked if method != "GET"] == ["Pod"]


def test_a_pod_from_its_manifest_to_its_end(server):
    scheduler = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}

    async def story(launcher, files, told):
        await asyncio.to_thread(server.await_object, KEY)
        server.change(POD, conditions=[scheduler])
        await until(lambda: told.words)
        runs = {"name": "tfapp", "state": {"running": {}}}
        server.change(POD, "Running", "node1", conditions=[], containerStatuses=[runs])
        await until(lambda: told.words[-1] == "fetching its files")
        await asyncio.to_thread(files.order, TASK.id, "attempt", "10.78.1.4")
        server.change(POD, "Failed", containerStatuses=[main(3)])
        return files.address

    ended, told, address = play(server, story)
    assert ended == Ended(3, "exit code 3")
    assert told.hosts == ["10.78.1.4"]
    assert told.waited == [
        ("waiting for a node: 0/2 nodes", "nodes"),
        ("", "granted"),
        ("fetching its files", "granted"),
    ]
    made = server.objects[KEY]
    metadata = {k: v for k, v in made["metadata"].items() if k not in ("uid", "resourceVersion")}
    assert metadata == {
        "name": POD,
        "labels": {**LABELS, "tfapp/run": "2", "tfapp/instance": "w-0"},
        "ownerReferences": [OWNER],
    }
    command = {"name": "tfapp", "command": ["sh", "-c", "..."], "args": [address, TASK.id]}
    assert made["spec"]["containers"] == [{"name": "side"}, command]
    assert made["spec"]["volumes"][0] == {
        "name": "tfapp-run",
        "secret": {"secretName": "tfapp-a-2"},
    }
    assert LABELS["tfapp/run"] == "1"


RUNS = {
    "metadata": {"name": POD, "labels": names.run_labels("a", 2)},
    "spec": {"nodeName": "node1"},
    "status": {"containerStatuses": [{"name": "tfapp", "state": {"running": {}}}]},
}


def test_a_pod_of_an_earlier_master_has_begun(server):
    """Whose answer to its container may have been lost: that one asks again."""
    server.put(KEY, RUNS)

    async def story(launcher, files, told):
        await asyncio.sleep(0)  # it is known
        assert await asyncio.to_thread(files.order, TASK.id, "attempt", "h") is not None
        server.change(POD, "Failed", containerStatuses=[main(3)])

    ended, told, _ = play(server, story, begun=[TASK.id])
    assert (ended, told.hosts, told.words) == (Ended(3, "exit code 3"), [], [])
    assert "POST" not in [request.method for request in server.requests]


def test_a_pod_of_an_earlier_master_is_gone(server):
    async def story(launcher, files, told):
        """Nothing."""

    ended, *_ = play(server, story, begun=[TASK.id])
    assert ended == Ended(None, "its pod was deleted", "preempted")
    assert "POST" not in [request.method for request in server.requests]


def test_a_pod_that_an_earlier_master_has_killed_is_ended(server):
    """By its deadline, although nothing was seen of it yet: so its log is kept."""
    server.put(KEY, RUNS)

    async def story(launcher, files, told):
        await asyncio.sleep(0)  # it is known
        await launcher.kill(TASK.id)
        body = await asyncio.to_thread(server.await_request, "PATCH", KEY)
        server.change(POD, "Failed", reason="DeadlineExceeded")
        return body

    ended, _, body = play(server, story, begun=[TASK.id])
    assert (ended.message, body) == (
        "it was ended by its master",
        {"spec": {"activeDeadlineSeconds": 1}},
    )
    assert "DELETE" not in [request.method for request in server.requests]


def test_a_pod_that_is_made_although_the_answer_was_lost(server):
    server.unanswered = 1

    async def story(launcher, files, told):
        await asyncio.to_thread(server.await_request, "GET", KEY)
        server.change(POD, "Succeeded")

    ended, told, _ = play(server, story)
    assert ended == Ended(0)
    assert [r.key for r in server.requests if r.method == "POST"] == ["Pod"] * 2
    assert told.words[0].startswith("waiting for the API server: ")


def test_a_quota(server):
    words = 'pods "tfapp-a-2-w-0" is forbidden: exceeded quota: few, requested: pods=1'
    server.refusals = [Answer(status("Forbidden", words), 403)] * 3

    async def story(launcher, files, told):
        await begun(server)
        server.change(POD, "Succeeded")

    ended, told, _ = play(server, story)
    assert ended == Ended(0)
    assert set(told.waited) == {
        (f"waiting for room in the namespace's quota: {words}", "quota"),
        ("", "granted"),
    }


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(403, "Forbidden", ForbiddenError), (422, "Invalid", UnavailableError)],
)
def test_a_pod_that_is_refused(server, code, reason, error):
    server.refusals = [Answer(status(reason, "not like this"), code)] * 100

    async def story(launcher, files, told):
        return None

    with pytest.raises(error, match="^its pod is refused: not like this$"):
        play(server, story)


def test_an_unknown_component(server):
    async def story(launcher, files, told):
        return None

    task = Task("container_1_0002_01_000003", "x_0", "x/0", messages.Service(), {})
    with pytest.raises(UnavailableError, match="has no pod for x"):
        play(server, story, task)


def test_an_api_server_that_is_away_and_a_token_that_changes(server):
    async def story(launcher, files, told):
        await begun(server, files)
        server.put("Pod/none", {"metadata": {}}, "BOOKMARK")
        server.go(away=True)
        del server.objects["Pod/none"]
        await asyncio.to_thread(server.token, "second")
        server.change(POD, "Succeeded")
        server.go(away=False)

    ended, _, _ = play(server, story)
    assert ended == Ended(0)


def test_a_pod_that_is_gone_when_the_history_is_too_old(server):
    async def story(launcher, files, told):
        await begun(server, files)
        await asyncio.to_thread(server.drop, KEY, told=False)

    ended, _, _ = play(server, story)
    assert ended == Ended(None, "its pod was deleted", "preempted")


def test_a_pod_that_somebody_deletes(server):
    async def story(launcher, files, told):
        await begun(server, files)
        server.drop(KEY)

    assert play(server, story)[0] == Ended(None, "its pod was deleted", "preempted")


def test_a_pod_that_was_never_seen(server):
    """It was made and deleted before the pods were listed for the first time."""
    server.unanswered = 1

    async def story(launcher, files, told):
        await asyncio.to_thread(server.await_request, "GET", KEY)
        await asyncio.to_thread(server.drop, KEY, told=False)
        launcher.listed([])

    assert play(server, story)[0] == Ended(None, "its pod was deleted", "preempted")


def test_a_node_that_is_lost(server):
    taint = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "deleting",
    }

    async def story(launcher, files, told):
        await begun(server, files)
        server.change(POD, conditions=[taint])

    assert play(server, story)[0] == Ended(None, "node1 is lost (deleting)", "node-lost")


@pytest.mark.parametrize("way", ["its node is lost", "it is deleted by force"])
def test_its_instance_begins_again_when_a_runner_there_has_heard_of_its_end(
    server, monkeypatch, way
):
    """The cluster may have lost a node, or a pod, whose runner still reaches the master."""
    monkeypatch.setattr(launcher_module, "KILL_MARGIN", 0.0)
    lost = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    again = dataclasses.replace(TASK, id="container_1_0002_01_000003", name="w_1")
    other = dataclasses.replace(TASK, id="container_1_0002_01_000004", name="w_2", instance="w/1")

    async def story(launcher, files, told):
        await begun(server, files)
        if way == "its node is lost":
            server.change(POD, conditions=[lost])
        else:
            server.drop(KEY)
        await until(lambda: not launcher._pods)
        running = [asyncio.ensure_future(launcher.run(t, told)) for t in (again, other)]
        await asyncio.to_thread(server.await_object, "Pod/tfapp-a-2-w-2")
        assert "Pod/tfapp-a-2-w-1" not in server.objects
        await asyncio.to_thread(server.await_object, "Pod/tfapp-a-2-w-1")
        for number in (1, 2):
            server.change(f"tfapp-a-2-w-{number}", "Succeeded")
        assert await asyncio.wait_for(asyncio.gather(*running), 60) == [Ended(0), Ended(0)]

    told = play(server, story)[1]
    assert set(told.words) == {SILENT}


def test_its_instance_waits_while_a_runner_that_was_not_heard_may_live_by_the_witness(
    server, monkeypatch
):
    """Until its node tells the end of its pod, or the witness says that it must have ended."""
    monkeypatch.setattr(launcher_module, "KILL_MARGIN", 0.0)
    tasks = [
        dataclasses.replace(TASK, id=f"container_1_0002_01_00000{n + 2}", name=f"w_{n}")
        for n in (1, 2)
    ]
    lives = [True]

    async def story(launcher, files, told):
        launcher.lives = lambda since: time.monotonic() + 60 if lives[0] else since
        await begun(server, files)
        await launcher.kill(TASK.id)
        running = [asyncio.ensure_future(launcher.run(tasks[0], told))]
        await until(lambda: told.words)
        assert "Pod/tfapp-a-2-w-1" not in server.objects
        server.change(POD, "Failed", containerStatuses=[main(143)], reason="DeadlineExceeded")
        await asyncio.to_thread(server.await_object, "Pod/tfapp-a-2-w-1")
        server.change("tfapp-a-2-w-1", "Running", node="node1")
        assert await asyncio.to_thread(files.order, tasks[0].id, "attempt", "h") is not None
        await launcher.kill(tasks[0].id)
        running.append(asyncio.ensure_future(launcher.run(tasks[1], told)))
        await until(lambda: len(told.words) > 1)
        assert "Pod/tfapp-a-2-w-2" not in server.objects
        lives[0] = False
        await asyncio.to_thread(server.await_object, "Pod/tfapp-a-2-w-2")
        for number in (1, 2):
            server.change(f"tfapp-a-2-w-{number}", "Failed")
        await asyncio.wait_for(asyncio.gather(*running), 60)

    told = play(server, story)[1]
    assert set(told.words) == {SILENT}


class TestKill:
    """A container that is ended keeps its pod and its log where it has any."""

    def test_one_that_runs(self, server):
        async def story(launcher, files, told):
            await begun(server, files)
            await launcher.kill(TASK.id)
            body = await asyncio.to_thread(server.await_request, "PATCH", KEY)
            server.change(POD, "Failed", containerStatuses=[main(143)], reason="DeadlineExceeded")
            return body

        ended, _, body = play(server, story)
        assert ended == Ended(None, "it was ended by its master")
        assert body == {"spec": {"activeDeadlineSeconds": 1}}
        assert KEY in server.objects

    def test_one_without_a_node(self, server):
        async def story(launcher, files, told):
            await asyncio.to_thread(server.await_object, KEY)
            await until(lambda: made(launcher))
            await launcher.kill(TASK.id)

        assert play(server, story)[0] == Ended(None, "it was ended by its master")
        assert KEY not in server.objects

    def test_one_that_gets_its_node_meanwhile(self, server):
        async def story(launcher, files, told):
            await asyncio.to_thread(server.await_object, KEY)
            await until(lambda: made(launcher))
            pod = copy.deepcopy(server.objects[KEY])  # that no watch has told
            pod["metadata"]["resourceVersion"] = "999"
            server.objects[KEY] = {**pod, "spec": {**pod["spec"], "nodeName": "node1"}}
            await launcher.kill(TASK.id)
            await asyncio.to_thread(server.await_request, "PATCH", KEY)
            server.version = 1000
            server.change(POD, "Failed")

        assert play(server, story)[0] == Ended(None, "it was ended by its master")

    def test_one_that_was_not_made_yet(self, server):
        server.go(away=True)

        async def story(launcher, files, told):
            await until(lambda: told.words)
            await launcher.kill(TASK.id)
            server.go(away=False)

        assert play(server, story)[0] == Ended(None)
        assert server.objects == {}

    def test_one_that_is_unknown_yet(self, server):
        async def story(launcher, files, told):
            other = Task("container_1_0002_01_000003", "w_1", "w/1", messages.Service(), {})
            await launcher.kill(other.id)
            assert await launcher.run(other, told) == Ended(None)
            await begun(server)
            server.change(POD, "Succeeded")

        play(server, story)
        assert list(server.objects) == [KEY]

    def test_it_gets_no_order_any_more(self, server):
        async def story(launcher, files, told):
            await begun(server)
            await launcher.kill(TASK.id)
            assert await asyncio.to_thread(files.order, TASK.id, "attempt", "h") is None
            server.change(POD, "Failed")

        assert play(server, story)[1].hosts == []


@pytest.mark.parametrize("way", ["change", "look", "answer"])
def test_a_main_container_whose_neighbours_go_on(server, monkeypatch, way):
    """Its end comes as a change, by a look for the pod, or before the answer to its making."""
    side = {"name": "side", "state": {"running": {}}}
    answers = threading.Event()
    make, changed = PodApi.make, PodLauncher.changed

    def slow_make(api, manifest):
        made = make(api, manifest)
        assert answers.wait(60)
        return made

    def hears(launcher, kind, item):
        if way != "look" or item["status"]["phase"] == "Failed":
            changed(launcher, kind, item)

    monkeypatch.setattr(PodApi, "make", slow_make)
    monkeypatch.setattr(PodLauncher, "changed", hears)

    async def story(launcher, files, told):
        if way != "answer":
            answers.set()
            await until(lambda: made(launcher))
        await begun(server, files)
        server.change(POD, containerStatuses=[side, main(3)])
        if way == "look":
            launcher.listed(())
        if way == "answer":
            await until(lambda: "containerStatuses" in launcher._pods[POD].seen.get("status", {}))
            answers.set()
        await asyncio.to_thread(server.await_request, "PATCH", KEY)
        server.change(POD, "Failed", reason="DeadlineExceeded")

    assert play(server, story)[0] == Ended(3, "exit code 3")


def test_what_only_events_tell(server):
    async def story(launcher, files, told):
        await begun(server)
        event = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": POD},
            "type": "Warning",
            "reason": "FailedMount",
            "message": 'secret "x" not found',
            "lastTimestamp": "2026-11-23T05:31:58Z",
        }
        server.put("Event/e", event)
        await until(lambda: len(told.words) > 1)
        server.change(POD, "Failed")

    told = play(server, story)[1]
    assert told.words == ["", 'waiting for its container: FailedMount: secret "x" not found']
    assert set(told.kinds) == {"granted"}


def test_a_command_waits_longer_than_a_master_takes_for_its_end():
    assert sum(LIMITS) <= SHUTDOWN_DEADLINE - 5


class TestClose:
    def test_all_pods_are_ended_and_stay(self, server):
        async def story(launcher, files, told):
            await begun(server, files)
            closing = asyncio.ensure_future(launcher.close())
            await asyncio.to_thread(server.await_request, "PATCH", KEY)
            server.change(POD, "Failed")
            await asyncio.wait_for(closing, 60)
            assert await launcher.run(TASK, told) == Ended(None)

        assert play(server, story)[0] == Ended(None, "it was ended by its master")
        assert list(server.objects) == [KEY]

    def test_one_that_ends_by_itself_is_let(self, server, monkeypatch):
        monkeypatch.setattr(launcher_module, "COURTESY", 60)

        async def story(launcher, files, told):
            await begun(server, files)
            closing = asyncio.ensure_future(launcher.close())
            await asyncio.sleep(0)
            server.change(POD, "Succeeded", containerStatuses=[main(0)])
            await asyncio.wait_for(closing, 30)

        assert play(server, story)[0] == Ended(0)
        assert "PATCH" not in [request.method for request in server.requests]

    @pytest.mark.slow
    def test_those_that_do_not_end_are_deleted(self, server, monkeypatch):
        monkeypatch.setattr(launcher_module, "CLOSE_LIMIT", 0.2)

        async def story(launcher, files, told):
            await begun(server, files)
            await asyncio.wait_for(launcher.close(), 60)

        play(server, story)
        assert server.objects == {}

    @pytest.mark.slow
    def test_it_ends_although_the_api_server_is_away(self, server, monkeypatch):
        monkeypatch.setattr(launcher_module, "CLOSE_LIMIT", 0.2)
        monkeypatch.setattr(launcher_module, "DELETE_LIMIT", 0.2)
        monkeypatch.setattr(launcher_module, "CALL_PATIENCE", 0.2)

        async def story(launcher, files, told):
            await begun(server, files)
            server.go(away=True)
            await asyncio.wait_for(launcher.close(), 60)
            raise KeyError("over")

        with pytest.raises(KeyError):
            play(server, story)
        assert list(server.objects) == [KEY]
