"""The groups of pods that Kueue admits together, so that no application holds a part of what it
needs. https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/

Pods that are asked for at the same time are a group, whose name no other group has. Not so:

- A pod for which there is room in a group that goes on takes it: Kueue keeps the quota of a pod
  that was lost until the whole group has ended, and gives it to no other group.
- Pods beyond the fewest instances with which the application trains are admitted one by one, after
  the others: each of them is of use alone.
- A pod that is asked for alone is admitted alone.

A group that Kueue evicts ends as a whole. Its pods are asked for again as one group, which is made
when all of them have ended. Used in the event loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from tfapp.contract.exit import REQUEUED
from tfapp.contract.names import QUEUE
from tfapp.engines.kubernetes.pod import endings, names
from tfapp.master.launcher import Ended

GATHER = 1.0  # seconds without another request, after which a group is made
AGAIN_LIMIT = 30.0  # seconds for the pods of an evicted group to be asked for again
INCOMPLETE_LIMIT = 20.0  # seconds for a group that waits to be complete again
LOOK_EVERY = 0.5  # seconds between two looks at what other pods wait for


class Member(Protocol):
    """A pod that may be in a group. `seen`: its object, as it was last; empty before it is
    made."""

    name: str
    seen: Mapping[str, Any]
    killed: asyncio.Event
    end: asyncio.Future[Ended]

    @property
    def component(self) -> str: ...

    @property
    def instance(self) -> str: ...

    def waits(self, text: str, kind: str = "") -> None: ...


class Group:
    """`seats`: its pods, those that have ended too until another one is asked for in their place.
    Kueue admits it while `count` of them run, may run, or have succeeded."""

    def __init__(self, name: str, seats: Collection[Member]):
        self._name = name
        self.count = len(seats)
        self.seats = list(seats)
        # When one of them was last seen alive, of an evicted group, or it was first seen without.
        self.lived = -math.inf
        self.short_since = math.inf

    @property
    def name(self) -> str:
        """That of its pods: a master before this one may have named it."""
        return next(filter(None, map(_group_of, self.seats)), self._name)

    @property
    def living(self) -> list[Member]:
        return [seat for seat in self.seats if not _is_over(seat)]

    @property
    def evicted(self) -> bool:
        return any(endings.is_requeued(seat.seen) or _is_requeued(seat) for seat in self.seats)

    def vacancy(self, component: str) -> Member | None:
        """A pod of `component` in whose place another one can come."""
        if self.evicted or not self.living:
            return None
        return next((s for s in self.seats if s.component == component and _is_lost(s)), None)

    def comes_again(self, now: float) -> bool:
        """Whether Kueue has evicted it, or does not admit it any more, and pods of it are still to
        be asked for again."""
        coming = [seat for seat in self.seats if not seat.killed.is_set()]
        if not self.evicted or not any(_is_lost(seat) or not _is_over(seat) for seat in coming):
            return False
        if self.living or self.lived == -math.inf:
            self.lived = now
        return now < self.lived + AGAIN_LIMIT

    def is_stuck(self, now: float) -> bool:
        """Whether pods of it wait, and Kueue has not admitted it for some time because others are
        missing."""
        waiting = [seat for seat in self.living if endings.is_gated(seat.seen)]
        there = sum(not _is_lost(seat) for seat in self.seats)
        if waiting and any(endings.is_forgotten(seat.seen) for seat in waiting):
            return True
        if not waiting or there >= self.count:
            self.short_since = math.inf
            return False
        self.short_since = min(self.short_since, now)
        return now >= self.short_since + INCOMPLETE_LIMIT


_Place = tuple[Member, "asyncio.Future[Group | None]"]


class Groups:
    """`name`: gives that of a group, from its first pod's. `least`: component -> with how many
    instances the application trains, for those that need not be complete. `pods`: gives all."""

    def __init__(
        self,
        name: Callable[[str], str],
        least: Mapping[str, int],
        pods: Callable[[], Iterable[Member]],
    ) -> None:
        self._name = name
        self._least = least
        self._pods = pods
        self._groups: list[Group] = []
        self._asked = 0  # requests so far
        # Those of which it is not known yet whether they are in a group, in order.
        self._waiting: dict[str, _Place] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    async def place(self, member: Member, manifest: dict[str, Any]) -> None:
        """Puts the pod that is about to be made from `manifest` into its group, if it gets one.
        Returns also when it is killed."""
        for group in self._groups:
            if group.evicted:
                group.seats = [seat for seat in group.seats if seat.instance != member.instance]
        found = self._with_room(member) or await self._together(member, manifest)
        if found is not None:
            _mark(manifest, found, member.component)

    def known(self, member: Member) -> None:
        """Takes note of a pod that a master before this one has made."""
        name = _group_of(member)
        if not name:
            return
        group = next((one for one in self._groups if one.name == name), None)
        if group is None:
            group = Group(name, ())
            group.count = int(member.seen["metadata"]["annotations"][names.GROUP_COUNT])
            self._groups.append(group)
        group.seats.append(member)

    def stuck(self) -> list[Member]:
        """Pods that wait in a group that is not admitted any more: they have to be asked for
        again."""
        now = time.monotonic()
        stuck = [group for group in self._groups if group.is_stuck(now)]
        return [s for group in stuck for s in group.living if endings.is_gated(s.seen)]

    def close(self) -> None:
        """No pod gets a place any more."""
        for task in self._tasks:
            task.cancel()

    def _with_room(self, member: Member) -> Group | None:
        for group in self._groups:
            lost = group.vacancy(member.component)
            if lost is not None:
                group.seats[group.seats.index(lost)] = member
                return group
        return None

    async def _together(self, member: Member, manifest: Mapping[str, Any]) -> Group | None:
        queue = manifest["metadata"]["labels"][names.QUEUE_LABEL]
        member.waits(f"waiting for the pods that go to Kueue's queue {queue} with it", QUEUE)
        place: asyncio.Future[Group | None] = asyncio.get_running_loop().create_future()
        self._asked += 1
        if not self._waiting:
            self._start(self._gather())
        self._waiting[member.name] = member, place
        killed: asyncio.Future[Any] = asyncio.ensure_future(member.killed.wait())
        either: set[asyncio.Future[Any]] = {place, killed}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return place.result() if place.done() else None
        finally:
            killed.cancel()
            place.cancel()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gather(self) -> None:
        """Makes a group of the pods that are asked for together."""
        together = self._waiting
        try:
            asked = 0
            while asked != self._asked or self._come_again():
                asked = self._asked
                await asyncio.sleep(GATHER)
            self._waiting = {}
            members = [member for member, place in together.values() if not place.done()]
            first = self._first(members)
            group = self._group(first)
            for member in first:
                _settle(together[member.name][1], group)
            while any(_is_held(member) for member in first) and len(first) < len(members):
                await asyncio.sleep(LOOK_EVERY)
            if any(_is_gone(member) for member in first):  # others come in their place, and first
                self._wait_again(together)
                together = {}
        finally:  # the others are alone, and so are all if this has failed
            self._waiting = {} if self._waiting is together else self._waiting
            for _, place in together.values():
                _settle(place, None)

    def _wait_again(self, places: Mapping[str, _Place]) -> None:
        """Has those that have no group yet wait for the next one."""
        left = {name: one for name, one in places.items() if not one[1].done()}
        if left:
            self._asked += 1
            if not self._waiting:
                self._start(self._gather())
            self._waiting.update(left)

    def _group(self, members: list[Member]) -> Group | None:
        """A new one; None where there is one pod."""
        if len(members) < 2:
            return None
        group = Group(self._name(members[0].name), members)
        self._groups = [one for one in self._groups if one.living] + [group]
        return group

    def _come_again(self) -> bool:
        now = time.monotonic()
        coming = [group for group in self._groups if group.comes_again(now)]  # each takes note
        return bool(coming)

    def _first(self, members: Iterable[Member]) -> list[Member]:
        """Those without which no cluster can form."""
        there = [pod for pod in self._pods() if _is_there(pod)]
        missing = {
            component: least - sum(pod.component == component for pod in there)
            for component, least in self._least.items()
        }
        first = []
        for member in members:
            if missing.get(member.component, 1) > 0:
                first.append(member)
                if member.component in missing:
                    missing[member.component] -= 1
        return first


def _mark(manifest: dict[str, Any], group: Group, component: str) -> None:
    """Makes the pod a member. The role is given, because Kueue takes pods with other preferences
    for nodes for another one, and a pod that takes the place of a lost one has to be of its
    role."""
    metadata = manifest["metadata"]
    metadata["labels"] = {**metadata["labels"], names.GROUP_LABEL: group.name}
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        names.GROUP_COUNT: str(group.count),
        names.GROUP_ROLE: names.dns(component),
        # Else Kueue keeps the group, its quota and the pods after all of them have ended.
        names.GROUP_RETRIABLE: "false",
    }


def _group_of(member: Member) -> str:
    """The name of the group that its object is in; "" if it is in none."""
    label: str = member.seen.get("metadata", {}).get("labels", {}).get(names.GROUP_LABEL, "")
    return label


def _settle(place: asyncio.Future[Group | None], group: Group | None) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):  # it was killed
        place.set_result(group)


def _is_over(member: Member) -> bool:
    return member.end.done() or (member.killed.is_set() and not member.seen)


def _is_lost(member: Member) -> bool:
    """Whether it has ended and not succeeded: for Kueue its place is empty."""
    return _is_over(member) and not (member.end.done() and member.end.result().code == 0)


def _is_requeued(member: Member) -> bool:
    return member.end.done() and member.end.result().reason == REQUEUED


def _is_gone(member: Member) -> bool:
    """Whether it has to be asked for again, or is not wanted any more."""
    return _is_lost(member) or member.killed.is_set() or endings.is_requeued(member.seen)


def _is_held(member: Member) -> bool:
    """Whether Kueue has not admitted it yet."""
    over = _is_over(member) or member.killed.is_set()
    return not over and (not member.seen or endings.is_gated(member.seen))


def _is_there(member: Member) -> bool:
    """Whether it has a node, and keeps it."""
    placed = bool(member.seen.get("spec", {}).get("nodeName"))
    over = _is_over(member) or member.killed.is_set()
    return placed and not over and not endings.is_requeued(member.seen)
