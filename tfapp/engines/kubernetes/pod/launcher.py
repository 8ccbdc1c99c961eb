"""Runs containers as pods: creates each from its component's manifest, watches it, and ends it by
its deadline, so that its log is kept."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import field
from typing import Any

from tfapp import threads
from tfapp.contract.exit import REQUEUED
from tfapp.contract.job import Limits
from tfapp.contract.names import ENV_AVOID, GRANTED, QUEUE, QUOTA
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.engines.kubernetes.pod.api import FORBIDDEN_LIMIT, Api
from tfapp.engines.kubernetes.pod.failures import AwayError, ConflictError
from tfapp.engines.kubernetes.pod.groups import Groups
from tfapp.errors import ForbiddenError, NotFoundError, TfappError, UnavailableError
from tfapp.frozen import frozen
from tfapp.master.files import FileServer
from tfapp.master.launcher import Ended, Launcher, SupersededError, Task, Told
from tfapp.threads import in_thread

RUN_VOLUME = "tfapp-run"  # of a manifest: the run's Secret
RETRY = 2.0  # seconds between two attempts to make a pod
LOOK_EVERY = 5.0  # seconds between two looks at the events of pods that do not begin
KNOWN_EVERY = 0.1  # seconds between two looks whether the groups of an earlier master are known
QUEUE_EVERY = 30.0  # seconds between two looks at what Kueue says
KILL_MARGIN = 2.0  # seconds for a runner to end its program
QUIET = 5.0  # seconds that a pod may take to begin before somebody asks why
ATTEMPTS = 3  # to end a pod that gets a node meanwhile
CALL_PATIENCE = 10.0  # seconds for an API server that is away, to end a pod
# Seconds at the end of a run, together less than a command waits for a master (see
# tfapp.engines.client.SHUTDOWN_DEADLINE).
COURTESY = 3.0  # for containers that were told to end, and whose end is not known yet
CLOSE_LIMIT = 12.0  # for all pods to end
DELETE_LIMIT = 10.0  # for those that were deleted then
STUCK = "its group of pods in Kueue's queue was not complete any more"
GRACE_MARGIN = 5.0  # seconds that a runner takes beyond the grace of its program

log = logging.getLogger(__name__)


@frozen
class PodRun:
    """The run of the pods. `owner`: theirs, a reference. `pods`: component -> Pod, for any run.
    `heartbeat`: seconds within which a runner learns that the master has ended its container.
    `attempt`: the number of the master. `least`: component -> with how many instances the
    application trains, for those that need not be complete."""

    name: str
    number: int
    owner: Mapping[str, Any]
    pods: Mapping[str, Mapping[str, Any]]
    heartbeat: float = Limits.heartbeat
    attempt: int = 1
    least: Mapping[str, int] = field(default_factory=dict)

    def manifest(self, task: Task, address: str) -> dict[str, Any]:
        """The pod of a container, which fetches its order at `address`. UnavailableError for an
        unknown component."""
        component, _, number = task.name.rpartition("_")
        if component not in self.pods:
            raise UnavailableError(f"the application's Secret has no pod for {component}")
        pod = copy.deepcopy(dict(self.pods[component]))
        metadata = pod["metadata"]
        metadata["name"] = names.pod_name(
            self.name, self.number, component, int(number), self.attempt
        )
        metadata["labels"] = {
            **metadata.get("labels", {}),
            names.RUN: str(self.number),
            names.INSTANCE: names.instance_label(task.instance),
        }
        metadata["ownerReferences"] = [dict(self.owner)]
        spec = pod["spec"]
        for volume in spec.get("volumes", ()):
            if volume["name"] == RUN_VOLUME:
                volume["secret"]["secretName"] = names.run_object(self.name, self.number)
        main = next(c for c in spec["containers"] if c["name"] == names.CONTAINER)
        main["args"] = [address, task.id]
        avoided = task.environment.get(ENV_AVOID, "")
        if avoided:
            _keep_off(spec, avoided.split(","))
        return pod


def _keep_off(spec: dict[str, Any], nodes: Iterable[str]) -> None:
    """Lets the scheduler prefer other nodes. Where there is no room on them, these are better than
    none. That the application's pods spread over nodes would weigh as much: a bad node is empty."""
    spread = spec.pop("topologySpreadConstraints", ())
    if kept := [one for one in spread if one.get("whenUnsatisfiable") != "ScheduleAnyway"]:
        spec["topologySpreadConstraints"] = kept
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    preferred = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    preferred.append({"weight": 100, "preference": {"matchFields": fields}})


class _Pod:
    """A pod, from its request to its end. Used in the event loop only."""

    def __init__(self, task: Task, name: str, told: Told):
        self.task = task
        self.name = name
        self.created = False
        self.began = False
        self.runs = False  # its main container
        self.seen: Mapping[str, Any] = {}  # its object, as it was last
        self.main: Ended | None = None  # of a main container whose neighbours go on
        self.killed = asyncio.Event()
        self.killed_at = math.inf
        self.end: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.since = time.monotonic()
        self._told = told
        self._words = self._kind = ""  # of its status

    def granted(self, host: str) -> bool:
        if self.killed.is_set():
            return False
        self.began = self.began or self._told.granted(host)  # a master before this one knows it
        return self.began

    def waits(self, text: str, kind: str = "") -> None:
        if not self.began and not self.end.done():
            self._told.waits(text, kind)

    def note(self, pod: Mapping[str, Any], deleted: bool = False) -> None:
        """Processes a state from the API. A state older than the known one is ignored."""
        if not deleted and _version(pod) < _version(self.seen):
            return
        self.seen = pod
        found = endings.ended(pod, deleted, self.killed.is_set(), self.began)
        if found is not None and not self.end.done():
            self.end.set_result(self.main or found)
        words, kind = endings.waits(pod), endings.held_by(pod)
        if (words, kind) != (self._words, self._kind):
            self._words, self._kind = words, kind
            self.waits(words, kind)
        if endings.main_runs(pod) and not self.runs:
            self.runs = True
            self.waits("fetching its files", GRANTED)

    @property
    def component(self) -> str:
        return self.task.name.rpartition("_")[0]

    @property
    def instance(self) -> str:
        return self.task.instance

    @property
    def quiet(self) -> bool:
        """Whether it has a node but its status does not say why it has not started."""
        late = time.monotonic() > self.since + QUIET
        return late and self.living and self.has_node and not (self.runs or self._words)

    @property
    def living(self) -> bool:
        return self.created and not self.end.done()

    @property
    def has_node(self) -> bool:
        return bool(self.seen.get("spec", {}).get("nodeName"))


class PodLauncher:
    """See tfapp.master.launcher.KeepingLauncher. `script` runs the containers that are no pods.
    Create it in the event loop and call `start`. `begun`: the ids of containers whose script an
    earlier master in this pod has started, and whose end it has not noted."""

    def __init__(
        self,
        api: Api,
        run: PodRun,
        files: FileServer,
        script: Launcher,
        begun: Iterable[str] = (),
    ):
        self._begun = set(begun)
        self._api = api
        self._run = run
        self._files = files
        self._script = script
        self._loop = asyncio.get_running_loop()
        self._pods: dict[str, _Pod] = {}  # by the pod's name
        self._unwanted: set[str] = set()  # ids of containers that were killed before they were made
        self._making: set[asyncio.Future[Any]] = set()
        # Instance -> when a pod of it was lost to the cluster, with its node or by a deletion that
        # did not wait for that. A program of it may live on there, while its runner reaches the
        # master.
        self._out_of_sight: dict[str, float] = {}
        name = functools.partial(names.group_name, run.name, run.number, run.owner["uid"])
        self._groups = Groups(name, run.least, self._pods.values)
        self._tasks: set[asyncio.Future[Any]] = set()
        self._unknown: set[str] = set()  # pods of an earlier master whose group is not known yet
        self._lists = 0  # of all pods, so far
        self._closed = self._leaving = False
        # What has to be done before a pod is made: the next master knows of it.
        self.kept: Callable[[], asyncio.Future[None] | None] = lambda: None
        # Raises SupersededError, in a thread, where another master has the run.
        self.check: Callable[[], None] = lambda: None
        # Until when a program may live by the witness in a pod that was killed, or lost, then.
        self.lives: Callable[[float], float] = lambda since: -math.inf
        self.stay = False  # whether pods go on after `close`, with another master
        self.grace = 0.0  # seconds that programs get to end at `close`
        self._looks: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Starts to watch the pods of the run."""
        threads.keep("pods", self._follow)
        self._looks = asyncio.ensure_future(self._look_why())

    async def run(self, task: Task, told: Told) -> Ended:
        if not task.name:
            return Ended(None) if self._closed else await self._script.run(task, told)
        if self._closed or task.id in self._unwanted:
            return Ended(None)
        manifest = self._run.manifest(task, self._files.address)
        pod = _Pod(task, manifest["metadata"]["name"], told)
        self._pods[pod.name] = pod
        with self._files.offering(task, pod):
            # When this is given up, the pod stays known: `close` ends it.
            if self.knows(task.id):
                pod.created = pod.began = made = True
                self._unknown.add(pod.name)
                self._soon(self._take_over(pod))
            else:
                made = await self._made(pod, manifest)
            ended = await asyncio.shield(pod.end) if made else Ended(None)
            del self._pods[pod.name]
            if ended.reason == "node-lost":
                with contextlib.suppress(TfappError):
                    await in_thread(self._checked, lambda: release(self._api, pod.seen))
            if pod.began and (ended.reason == "node-lost" or not endings.is_told(pod.seen)):
                self._out_of_sight[task.instance] = time.monotonic()
            return ended

    def knows(self, id: str) -> bool:
        """See KeepingLauncher."""
        return id in self._begun

    def noted(self, id: str) -> None:
        """See KeepingLauncher. The end of a pod is in the cluster, for as long as its name is."""
        self._begun.discard(id)

    async def kill(self, id: str) -> None:
        self._unwanted.add(id)
        for pod in tuple(self._pods.values()):
            if pod.task.id == id:
                pod.killed.set()
                pod.killed_at = time.monotonic()
                if pod.living:
                    await self._end(pod)
                return
        await self._script.kill(id)

    def leave(self) -> None:
        """Another master goes on, or nobody: the master script hears nothing of its end."""
        self._leaving = True

    async def close(self) -> None:
        """See Launcher.close. Pods that do not end in time, on a lost node or without an API
        server, are left to the fencing of their runners."""
        self._closed = True
        if self._leaving:  # by SIGTERM the coordinator would learn that the application ends
            await self._script.kill("")
        self._groups.close()
        for task in (*self._tasks, *filter(None, [self._looks])):
            task.cancel()
        if self.stay:
            self._api.close()
            await self._script.close()
            return
        script = asyncio.ensure_future(self._script.close())
        for pod in self._pods.values():
            if not pod.began:
                pod.killed.set()
        await asyncio.gather(*self._making, return_exceptions=True)
        began = [pod.end for pod in self._pods.values() if pod.began]
        if began:
            await asyncio.wait(began, timeout=0 if self.grace else COURTESY)
        for pod in self._pods.values():
            pod.killed.set()
        await self._end_all(self._end, max(CLOSE_LIMIT, self.grace + GRACE_MARGIN))
        await self._end_all(self._delete, DELETE_LIMIT)
        for pod in self._pods.values():
            if pod.living:
                log.error("the end of pod %s has not been seen", pod.name)
        self._api.close()
        await script

    # -- making one --
    async def _made(self, pod: _Pod, manifest: dict[str, Any]) -> bool:
        """As `_make`, which goes on when this is given up."""
        making = asyncio.ensure_future(self._make(pod, manifest))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            return await asyncio.shield(making)
        except TfappError as error:
            del self._pods[pod.name]
            pod.end.set_result(Ended(None, error.message, "start"))
            raise

    async def _make(self, pod: _Pod, manifest: dict[str, Any]) -> bool:
        """Creates a pod; waits for a quota and for the API server. False if it was killed before.
        UnavailableError or ForbiddenError."""
        await self._may_make(pod, manifest)
        forbidden_until = time.monotonic() + FORBIDDEN_LIMIT
        while not pod.killed.is_set():
            lists = self._lists
            try:
                made = await in_thread(self._checked, functools.partial(self._api.make, manifest))
                pod.created = True
                self._note(pod, pod.seen or made)
                if lists != self._lists:  # it may have come, and gone, before one of them
                    self._soon(self._look_for(pod))
                if pod.killed.is_set():
                    await self._end(pod)
                return True
            except AwayError as error:
                pod.waits(f"waiting for the API server: {error}")
            except ConflictError as error:  # of the namespace: it is being changed, or ends
                pod.waits(f"waiting for its pod to be accepted: {error}")
            except ForbiddenError as error:
                if "exceeded quota" in error.message:
                    pod.waits(f"waiting for room in the namespace's quota: {error}", QUOTA)
                elif time.monotonic() > forbidden_until:
                    raise ForbiddenError(f"its pod is refused: {error.message}") from error
            except SupersededError:
                raise
            except TfappError as error:
                raise UnavailableError(f"its pod is refused: {error.message}") from error
            await _either(pod.killed.wait(), RETRY)
        return False

    def _checked(self, call: Callable[[], Any]) -> Any:
        """In a thread. SupersededError if this master must not do it any more."""
        self.check()
        return call()

    async def _may_make(self, pod: _Pod, manifest: dict[str, Any]) -> None:
        """Waits until a pod may be made, and gives it its group."""
        while not pod.killed.is_set() and (left := self._lives_until(pod) - time.monotonic()) > 0:
            pod.waits("waiting for the end of the instance in its pod before, which is silent")
            await _either(pod.killed.wait(), min(left, LOOK_EVERY))
        self._out_of_sight.pop(pod.instance, None)
        if names.QUEUE_LABEL in manifest["metadata"]["labels"]:
            while self._unknown and not pod.killed.is_set():
                await _either(pod.killed.wait(), KNOWN_EVERY)
            await self._groups.place(pod, manifest)
        if (kept := self.kept()) is not None:
            await asyncio.shield(kept)

    def _lives_until(self, pod: _Pod) -> float:
        """Until when a program of its instance may live in a pod before, of whose end its node has
        told nothing."""
        others = (other for other in self._pods.values() if other.instance == pod.instance)
        killed = (other.killed_at for other in others if other.began and not other.end.done())
        until = [self.lives(since) for since in killed if since < math.inf]
        if (since := self._out_of_sight.get(pod.instance)) is not None:
            until += (since + self._run.heartbeat, self.lives(since))
        return max(until, default=-math.inf) + KILL_MARGIN

    async def _take_over(self, pod: _Pod) -> None:
        """Learns what has become of a pod that an earlier master has made."""
        try:
            await self._look_for(pod)
            self._groups.known(pod)
        finally:
            self._unknown.discard(pod.name)

    # -- ending them --
    async def _end(self, pod: _Pod) -> None:
        """Ends a pod by its deadline, at which its node ends it. A pod without a node is
        deleted."""
        if not pod.seen:
            await self._look_for(pod)
        for _ in range(ATTEMPTS):
            if pod.has_node:
                await self._tell(pod, self._api.patch, body={"spec": {"activeDeadlineSeconds": 1}})
                return
            metadata = pod.seen.get("metadata", {})
            seen = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
            if await self._tell(pod, self._api.delete, seen=seen) or not pod.living:
                return
            with contextlib.suppress(TfappError):  # the scheduler was faster
                self._note(pod, await in_thread(self._api.require, "Pod", pod.name))

    async def _delete(self, pod: _Pod) -> None:
        await self._tell(pod, self._api.delete, grace=1)

    async def _tell(self, pod: _Pod, call: Callable[..., object], **how: Any) -> bool:
        """Patches or deletes a pod. False if it is not in the expected state any more, or the
        server is away."""
        work = functools.partial(call, "Pod", pod.name, patience=CALL_PATIENCE, **how)
        try:
            if await in_thread(self._checked, work):
                return True
            self._note(pod, pod.seen, deleted=True)
        except NotFoundError:
            self._note(pod, pod.seen, deleted=True)
        except ConflictError:
            pass
        except TfappError as error:
            log.error("%s of pod %s: %s", call.__name__, pod.name, error)
        return False

    async def _end_all(self, end: Callable[[_Pod], Awaitable[None]], limit: float) -> None:
        living = [pod for pod in self._pods.values() if pod.living]
        if living:
            waiting = {asyncio.ensure_future(_ended(end(pod), pod)) for pod in living}
            _, late = await asyncio.wait(waiting, timeout=limit)
            for each in late:
                each.cancel()

    # -- what the API shows --
    def _follow(self) -> None:
        """Passes on what becomes of the pods of the run, in a thread of its own."""
        labels = names.run_labels(self._run.name, self._run.number)
        listed = functools.partial(self.tell, self.listed)
        for change, pod in self._api.watch("Pod", labels, away=_away, listed=listed):
            self.tell(self.changed, change, pod)

    def tell(self, work: Callable[..., None], *args: Any) -> None:
        """Calls `work` in the event loop. May be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(work, *args)
        except RuntimeError:  # it has ended
            return

    def listed(self, items: Iterable[Mapping[str, Any]]) -> None:
        """All pods of the run. A missing one was deleted, or is too new."""
        self._lists += 1
        found = {item["metadata"]["name"] for item in items}
        for name, pod in self._pods.items():
            if name not in found and pod.living:
                self._soon(self._look_for(pod))

    def changed(self, kind: str, item: Mapping[str, Any]) -> None:
        pod = self._pods.get(item["metadata"]["name"])
        if pod is not None:
            self._note(pod, item, deleted=kind == "DELETED")

    def _note(self, pod: _Pod, item: Mapping[str, Any], deleted: bool = False) -> None:
        """Processes a state of the pod, in whatever way it came, and ends the pod when its main
        container has ended and others go on."""
        pod.note(item, deleted)
        if pod.living and pod.main is None and endings.outlived(pod.seen):
            pod.main = endings.of_main(pod.seen, pod.began)
            self._soon(self._end(pod))

    async def _look_for(self, pod: _Pod) -> None:
        while pod.living:
            try:
                found = await in_thread(self._api.get, "Pod", pod.name)
                self._note(pod, found or pod.seen, deleted=found is None)
                return
            except TfappError as error:
                log.error("pod %s: %s", pod.name, error)
            await asyncio.sleep(RETRY)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_why(self) -> None:
        """Reads the events of pods that have a node but do not start, because only events report a
        missing volume, and now and then Kueue's, which tell why it has no room. Ends those whose
        group is not admitted any more."""
        asked = -math.inf
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for name in [member.name for member in self._groups.stuck()]:
                pod = self._pods[name]
                pod.main = Ended(None, STUCK, REQUEUED)
                await self._end(pod)
            if quiet := [pod for pod in self._pods.values() if pod.quiet]:
                found = await self._events("Pod")
                for pod in quiet:
                    of_it = [e for e in found if e["involvedObject"].get("name") == pod.name]
                    words = endings.told_by_events(of_it)
                    if words and pod.quiet:
                        pod.waits(words, GRANTED)
            held = [pod for pod in self._pods.values() if pod.living and endings.is_gated(pod.seen)]
            if held and time.monotonic() >= asked + QUEUE_EVERY:
                asked = time.monotonic()
                found = await self._events("Workload")
                for pod in held:
                    words = endings.told_by_queue(pod.seen, found)
                    if words and endings.is_gated(pod.seen):
                        pod.waits(words, QUEUE)

    async def _events(self, kind: str) -> list[dict[str, Any]]:
        try:
            return await in_thread(self._api.list, "Event", None, f"involvedObject.kind={kind}")
        except TfappError as error:
            log.info("events: %s", error)
            return []


def release(api: Api, pod: Mapping[str, Any]) -> None:
    """Takes a pod on a lost node from its group in Kueue, which keeps the quota for it until
    somebody says that it has ended: its node does not."""
    metadata = pod["metadata"]
    told = pod["status"].get("phase") in endings.OVER
    if told or names.GROUP_LABEL not in metadata["labels"]:
        return
    try:
        without = {"metadata": {"finalizers": None}}
        api.patch("Pod", metadata["name"], without, patience=CALL_PATIENCE)
        api.delete("Pod", metadata["name"], grace=0, patience=CALL_PATIENCE)
    except TfappError as error:
        log.error("pod %s is not taken from its group: %s", metadata["name"], error)


def _away(reason: str) -> None:
    if reason:
        log.error("the pods cannot be followed: %s", reason)


def _version(pod: Mapping[str, Any]) -> int:
    """The resourceVersion as a number. Kubernetes guarantees its order from 1.35 on; it was so
    before."""
    text = pod.get("metadata", {}).get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0


async def _either(work: Coroutine[Any, Any, Any], seconds: float) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(work, seconds)


async def _ended(ending: Awaitable[None], pod: _Pod) -> None:
    await ending
    await asyncio.shield(pod.end)
