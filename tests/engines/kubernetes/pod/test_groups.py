"""Pods of applications that share a queue of Kueue, which is played."""

import asyncio
import contextlib

import pytest

from tests.engines.kubernetes.played_kueue import PlayedKueue
from tests.engines.kubernetes.pod.launching import ENDPOINT, Script, Told
from tests.waiting import until
from tfapp.contract.names import QUEUE
from tfapp.engines.kubernetes.pod import groups as groups_module
from tfapp.engines.kubernetes.pod import launcher as launcher_module
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.launcher import PodLauncher, PodRun
from tfapp.engines.kubernetes.pod.transport import PodApi
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, Task
from tfapp.protocol.definition import messages

QUEUED = {names.QUEUE_LABEL: "team"}
GATE = "scheduling gate kueue.x-k8s.io/admission"


class Application:
    """One with its launcher. `labels`: of its pods. `least`: see PodRun. `begun`: see
    PodLauncher."""

    def __init__(self, server, files, name, labels=QUEUED, least=(), begun=()):
        of_run = {**names.run_labels(name, 1), **labels}
        pods = {
            component: {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"labels": of_run, "annotations": {"mine": "kept"}},
                "spec": {"containers": [{"name": names.CONTAINER}]},
            }
            for component in ("worker", "ps")
        }
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"{name}-uid-12345"}
        run = PodRun(name, 1, owner, pods, least=dict(least))
        self.name, self.numbers = name, 0
        api = PodApi(server.environ, server.account)
        self.launcher = PodLauncher(api, run, files, Script(), begun)
        self.launcher.start()
        self.runs, self.told, self.ids = {}, {}, {}

    def ask(self, *instances):
        """For pods of them, at the same time. Returns their names."""
        found = []
        for instance in instances:
            self.numbers += 1
            component = instance.partition("/")[0]
            id = f"container_1_{self.name}_{self.numbers:06d}"
            task = Task(
                id, f"{component}_{self.numbers}", instance, messages.Service(script="true"), {}
            )
            name = names.pod_name(self.name, 1, component, self.numbers)
            self.told[name], self.ids[name] = Told(), id
            self.runs[name] = asyncio.ensure_future(self.launcher.run(task, self.told[name]))
            found.append(name)
        return found

    async def ended(self, name):
        return await asyncio.wait_for(self.runs[name], 30)

    async def close(self):
        for run in self.runs.values():
            run.cancel()
        await asyncio.gather(*self.runs.values(), return_exceptions=True)
        await self.launcher.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(groups_module, "GATHER", 0.1)
    monkeypatch.setattr(groups_module, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(groups_module, "INCOMPLETE_LIMIT", 0.2)
    monkeypatch.setattr(launcher_module, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(launcher_module, "COURTESY", 0.05)


def play(tmp_path, quota, story, **more):
    """`story`: a coroutine function of the queue and of a function that makes an application."""

    async def everything(server):
        async with contextlib.AsyncExitStack() as stack:

            def make(name, **more):
                files = stack.enter_context(FileServer(ENDPOINT))
                application = Application(server, files, name, **more)
                stack.push_async_callback(application.close)
                return application

            await story(server, make)

    with PlayedKueue("test", quota).running(tmp_path) as server:
        asyncio.run(everything(server))


def group(server, pod):
    """(name, size) of its group; "" for none."""
    metadata = server.objects[f"Pod/{pod}"]["metadata"]
    count = metadata["annotations"].get(names.GROUP_COUNT, "1")
    return metadata["labels"].get(names.GROUP_LABEL, ""), int(count)


def test_of_two_applications_in_a_queue_for_one_the_second_waits_for_all_its_pods(tmp_path):
    async def story(server, make):
        first, second = make("a"), make("b")
        ours = first.ask("worker/0", "worker/1", "ps/0")
        await until(lambda: server.live() == sorted(ours))
        theirs = second.ask("worker/0", "worker/1", "ps/0")
        await until(lambda: server.held() == sorted(theirs))
        assert server.live() == sorted(ours), "no halves"
        words = [(f"waiting for room for 3 pods in Kueue's queue team: {GATE}", QUEUE)]
        await until(lambda: all(second.told[pod].waited[-1:] == words for pod in theirs))
        [(name, count)] = {group(server, pod) for pod in theirs}
        assert (name, count) == (names.group_name("b", 1, "b-uid-12345", theirs[0]), 3)
        metadata = server.objects[f"Pod/{theirs[2]}"]["metadata"]["annotations"]
        assert (metadata["mine"], metadata[names.GROUP_ROLE]) == ("kept", "ps")
        for pod in ours:
            server.ends(pod, 0)
        await until(lambda: server.live() == sorted(theirs))
        assert await first.ended(ours[0]) == Ended(0)
        assert all(not i["metadata"].get("finalizers") for i in map(at(server), ours))

    play(tmp_path, 4, story)


def at(server):
    return lambda pod: server.objects[f"Pod/{pod}"]


def test_a_group_that_is_evicted_waits_as_a_whole_and_goes_on_later(tmp_path):
    """Its pods end one after the other, and so are others asked for."""

    async def story(server, make):
        first, important = make("a"), make("b")
        ours = first.ask("worker/0", "worker/1", "worker/2")
        await until(lambda: server.live() == sorted(ours))
        theirs = important.ask("worker/0", "worker/1")
        await until(lambda: len(server.held()) == 2)
        server.evict(group(server, ours[0])[0])
        server.ends(ours[0])
        why = "its pod was evicted by Kueue (Preempted to accommodate a workload (UID: 7))"
        assert await first.ended(ours[0]) == Ended(None, why, "requeued")
        again = first.ask("worker/0")
        await asyncio.sleep(0.3)  # more than it takes to make a group
        assert f"Pod/{again[0]}" not in server.objects
        for index, pod in enumerate(ours[1:], 1):
            server.ends(pod)
            await first.ended(pod)
            again += first.ask(f"worker/{index}")
        await until(lambda: server.live() == sorted(theirs))
        await until(lambda: server.held() == sorted(again))
        assert {group(server, pod)[1] for pod in again} == {3}
        for pod in theirs:
            server.ends(pod, 0)
        await until(lambda: server.live() == sorted(again))

    play(tmp_path, 3, story)


def test_a_pod_in_the_place_of_a_lost_one_has_its_quota(tmp_path):
    async def story(server, make):
        ours = (first := make("a")).ask("worker/0", "worker/1", "ps/0")
        await until(lambda: server.live() == sorted(ours))
        other = make("b").ask("worker/0")
        await until(lambda: server.held() == other)
        server.ends(ours[1], 1)
        assert await first.ended(ours[1]) == Ended(1, "exit code 1")
        [again] = first.ask("worker/1")
        await until(lambda: again in server.live())
        assert group(server, again) == group(server, ours[0])
        assert server.held() == other

    play(tmp_path, 3, story)


def test_a_pod_in_the_place_of_one_on_a_lost_node_has_its_quota(tmp_path, monkeypatch):
    """Of two, Kueue would take that on the lost node for the one that goes on."""
    monkeypatch.setattr(launcher_module, "KILL_MARGIN", 0.0)

    async def story(server, make):
        ours = (first := make("a")).ask("worker/0", "worker/1")
        await until(lambda: server.live() == sorted(ours))
        server.lose(ours[1])
        assert (await first.ended(ours[1])).reason == "node-lost"
        await until(lambda: f"Pod/{ours[1]}" not in server.objects)
        [again] = first.ask("worker/1")
        await until(lambda: again in server.live())
        assert group(server, again) == group(server, ours[0])

    play(tmp_path, 2, story)


def test_the_next_master_knows_the_groups(tmp_path):
    async def story(server, make):
        lost = make("a")
        ours = lost.ask("worker/0", "worker/1", "ps/0")
        await until(lambda: server.live() == sorted(ours))
        other = make("b").ask("worker/0")
        await until(lambda: server.held() == other)
        following = make("a", begun=lost.ids.values())
        assert following.ask("worker/0", "worker/1", "ps/0") == ours
        server.ends(ours[1], 1)
        assert await following.ended(ours[1]) == Ended(1, "exit code 1")
        [again] = following.ask("worker/1")
        await until(lambda: again in server.live())
        assert group(server, again) == group(server, ours[0])
        assert server.held() == other

    play(tmp_path, 3, story)


def test_what_an_application_can_do_without_is_admitted_one_by_one_and_last(tmp_path):
    async def story(server, make):
        blocker = make("b").ask("worker/0", "worker/1")
        await until(lambda: server.live() == blocker)
        first = make("a", least={"worker": 2})
        asked = first.ask(*(f"worker/{index}" for index in range(4)), "ps/0")
        needed, more = [*asked[:2], asked[4]], asked[2:4]
        await until(lambda: server.held() == sorted(needed))
        assert not any(f"Pod/{pod}" in server.objects for pod in more), "the quota is for one pod"
        for pod in blocker:
            server.ends(pod, 0)
        await until(lambda: len(server.live()) == 4)
        assert {group(server, pod)[1] for pod in needed} == {3}
        await until(lambda: len(server.held()) == 1)
        assert [group(server, pod) for pod in more] == [("", 1)] * 2
        # As many go on as are needed: who comes again comes alone.
        [running] = set(more) - set(server.held())
        server.ends(running, 1)
        await first.ended(running)
        await until(lambda: not server.held())

    play(tmp_path, 4, story)


@pytest.mark.parametrize("way", ["evicted", "not wanted"])
def test_what_an_application_can_do_without_waits_when_the_others_have_to_be_asked_for_again(
    tmp_path, monkeypatch, way
):
    """Also in the moment in which they were admitted."""
    monkeypatch.setattr(groups_module, "LOOK_EVERY", 0.3)

    async def story(server, make):
        [blocker] = make("b").ask("worker/0")
        await until(lambda: server.live() == [blocker])
        first = make("a", least={"worker": 2})
        *needed, more = first.ask("worker/0", "worker/1", "worker/2")
        await until(lambda: server.held() == needed)
        if way == "evicted":
            with server.changed:
                server.ends(blocker, 0)
                assert server.live() == needed
                server.evict(group(server, needed[0])[0])
        else:
            await first.launcher.kill(first.ids[needed[0]])
        await asyncio.sleep(0.7)  # two looks
        assert f"Pod/{more}" not in server.objects
        for pod in needed if way == "evicted" else ():
            server.ends(pod)
        assert [(await first.ended(pod)).reason for pod in needed][1] == "requeued"
        first.ask("worker/0", "worker/1")
        if way != "evicted":
            await until(lambda: len(server.held()) == 2)
            server.ends(blocker, 0)
        await until(lambda: len(server.live()) == 2 and len(server.held()) == 1)
        [(name, count)] = {group(server, pod) for pod in server.live()}
        assert (name != "", count) == (True, 2)

    play(tmp_path, 2, story)


def test_pods_that_come_later_are_a_group_of_their_own_and_those_that_run_are_not_touched(tmp_path):
    async def story(server, make):
        first = make("a")
        ours = first.ask("worker/0", "ps/0")
        await until(lambda: server.live() == sorted(ours))
        later = first.ask("worker/1", "worker/2")
        await until(lambda: len(server.live()) == 4)
        alone = first.ask("worker/3")
        await until(lambda: server.held() == alone)
        groups = [group(server, pod) for pod in (*ours, *later, *alone)]
        assert [count for _, count in groups] == [2, 2, 2, 2, 1]
        assert groups[0] == groups[1] != groups[2] == groups[3]
        assert not [r for r in server.requests if r.method == "PATCH"]

    play(tmp_path, 4, story)


def test_the_words_of_kueue_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher_module, "QUEUE_EVERY", 0.1)

    async def story(server, make):
        ours = (first := make("a")).ask("worker/0", "worker/1")
        [alone] = (second := make("b")).ask("worker/0")
        await until(lambda: len(server.held()) == 3)
        workloads = {group(server, ours[0])[0]: "2 > 0", f"pod-{alone}-4711a": "1 > 0"}
        for number, (name, why) in enumerate(workloads.items()):
            for hour, message in (
                (8, "an old reason"),
                (9, f"insufficient quota for pods ({why})"),
            ):
                about = {"kind": "Workload", "name": name}
                event = {"involvedObject": about, "reason": "Pending", "message": message}
                event["lastTimestamp"] = f"2026-11-28T{hour:02}:00:00Z"
                server.put(f"Event/{number}-{hour}", {"metadata": {}, **event}, "ADDED")
        room = "waiting for room for 2 pods in Kueue's queue team"
        words = (f"{room}: insufficient quota for pods (2 > 0)", QUEUE)
        await until(lambda: all(first.told[pod].waited[-1] == words for pod in ours))
        words = "waiting for room in Kueue's queue team: insufficient quota for pods (1 > 0)"
        await until(lambda: second.told[alone].waited[-1] == (words, QUEUE))

    play(tmp_path, 0, story)


def test_a_group_of_which_a_part_is_not_wanted_any_more_is_asked_for_again(tmp_path):
    """By `flex`, while it waits: Kueue would wait for the missing pod without an end."""

    async def story(server, make):
        blocker = make("b").ask("worker/0")
        await until(lambda: server.live() == blocker)
        first = make("a")
        ours = first.ask("worker/0", "worker/1", "worker/2")
        await until(lambda: server.held() == sorted(ours))
        await first.launcher.kill(first.ids[ours[2]])
        assert await first.ended(ours[2]) == Ended(None, "it was ended by its master")
        why = "its group of pods in Kueue's queue was not complete any more"
        for pod in ours[:2]:
            assert await first.ended(pod) == Ended(None, why, "requeued")
        again = first.ask("worker/0", "worker/1")
        await until(lambda: server.live() == sorted((*again, *blocker)))

    play(tmp_path, 3, story)


def test_a_pod_that_came_when_its_group_was_over_is_asked_for_again(tmp_path):
    """The last pod of the group ended while this one was made in the place of another: Kueue takes
    its finalizer from it, and never admits it."""

    async def story(server, make):
        make("b").ask("worker/0")
        await until(server.live)
        first = make("a")
        ours = first.ask("worker/0", "worker/1")
        await until(lambda: server.held() == sorted(ours))
        pod = server.objects[f"Pod/{ours[0]}"]
        server.put(f"Pod/{ours[0]}", {**pod, "metadata": {**pod["metadata"], "finalizers": []}})
        assert (await first.ended(ours[0])).reason == "requeued"

    play(tmp_path, 2, story)


def test_a_pod_that_is_killed_before_its_group_is_made(tmp_path):
    async def story(server, make):
        first = make("a")
        ours = first.ask("worker/0", "worker/1", "worker/2")
        await until(lambda: first.told[ours[0]].words)
        await first.launcher.kill(first.ids[ours[1]])
        assert await first.ended(ours[1]) == Ended(None)
        await until(lambda: server.live() == [ours[0], ours[2]])
        assert group(server, ours[0])[1] == 2

    play(tmp_path, 3, story)


def test_without_a_queue_there_are_no_groups(tmp_path):
    async def story(server, make):
        first = make("a", labels={})
        ours = first.ask("worker/0", "worker/1")
        await until(lambda: all(f"Pod/{pod}" in server.objects for pod in ours))
        assert [group(server, pod) for pod in ours] == [("", 1)] * 2
        assert all(QUEUE not in told.kinds for told in first.told.values())

    play(tmp_path, 0, story)
