"""What a running application is asked, or told, on any engine."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Sequence
from typing import TypeVar

from tfapp.close_match import did_you_mean
from tfapp.contract.encoding import encode
from tfapp.contract.messages import FlexReply, FlexRequest
from tfapp.contract.names import (
    FLEXED_PREFIX,
    KEY_FEED,
    KEY_FLEX,
    KEY_PROFILE,
    KEY_STACKS,
    PROFILED_PREFIX,
    RUNNING,
    STACKS_PREFIX,
    STOPPING,
)
from tfapp.contract.profiles import (
    MAX_SECONDS,
    SECONDS,
    WRITE_LIMIT,
    InstanceProfile,
    Profile,
    ProfileRequest,
)
from tfapp.contract.stacks import ASK_LIMIT, InstanceStacks, Stacks, StacksRequest, grouped
from tfapp.contract.status import FeedStatus
from tfapp.engines.base import Engine
from tfapp.errors import BadStateError, NotFoundError, TfappError, UnreachableError, UsageError
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Put

REPLY_LIMIT = 30.0  # seconds until the coordinator has decided

_Answer = TypeVar("_Answer", InstanceStacks, InstanceProfile)


def flex(engine: Engine, name: str, component: str, count: str) -> str:
    """Requests `count` instances of a component ("3", "+1" or "-1"). Returns the effect as a
    sentence. BadStateError if it is not possible, UnreachableError if there is no answer."""
    request = FlexRequest(uuid.uuid4().hex, component, count)
    key = FLEXED_PREFIX + request.id
    with engine.connect(name) as connection, connection.watch(keys=[key]) as watch:
        connection.put(KEY_FLEX, encode(request))
        event = watch.get(REPLY_LIMIT)
        if not isinstance(event, Put):
            raise UnreachableError(
                f"the coordinator of {name} has not answered",
                f"`tfapp status {name}` says whether it did so later.",
            )
        connection.discard(key)
    reply = FlexReply.from_dict(json.loads(event.value))
    if not reply.accepted:
        raise BadStateError(reply.text)
    return reply.text


def stacks(engine: Engine, name: str, which: str = "", limit: float = ASK_LIMIT) -> Stacks:
    """The stacks of the programs that run: of all, of a component, or of an instance ("worker/1"),
    by their runners. `limit`: seconds for all of them. NotFoundError if there is nothing of that
    name, BadStateError if no program runs."""
    waiting = _that_run(engine, name, [which] if which else [])
    asked = tuple(waiting) if which else ()
    request = StacksRequest(uuid.uuid4().hex, asked)
    told = _told(engine, name, KEY_STACKS, request, STACKS_PREFIX, InstanceStacks, waiting, limit)
    instances = tuple(told[i] for i in waiting if i in told)
    missing = tuple(i for i in waiting if i not in told)
    return Stacks(grouped((i.instance, i.place) for i in instances), instances, missing)


def profile(
    engine: Engine,
    name: str,
    which: Sequence[str] = (),
    seconds: float = SECONDS,
    limit: float = WRITE_LIMIT + ASK_LIMIT,
) -> Profile:
    """Lets the programs that run trace the same `seconds` seconds, at most MAX_SECONDS: all, or
    those of the components and instances in `which`. `limit`: seconds in which they have written
    the traces. UsageError for other seconds, NotFoundError if there is nothing of a name,
    BadStateError if no program runs."""
    if not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f"a profile of {seconds:g} s: it is more than 0 and at most 60 s")
    waiting = _that_run(engine, name, which)
    run = time.strftime("%Y_%m_%d_%H_%M_%S")  # as TensorFlow names runs
    request = ProfileRequest(uuid.uuid4().hex, run, seconds, tuple(waiting) if which else ())
    limit += seconds
    told = _told(
        engine, name, KEY_PROFILE, request, PROFILED_PREFIX, InstanceProfile, waiting, limit
    )
    instances = tuple(told[i] for i in waiting if i in told)
    return Profile(run, instances, tuple(i for i in waiting if i not in told))


def _that_run(engine: Engine, name: str, which: Sequence[str]) -> list[str]:
    """The instances whose programs run: of all, or of the components and instances in `which`."""
    found = engine.find(name).status.instances
    known = [*(i.instance for i in found), *(i.component for i in found)]
    for one in which:
        if one not in known:
            raise NotFoundError(
                f"{name} has no instance or component {one!r}",
                did_you_mean(one, known, f"`tfapp status {name}` lists them."),
            )
    chosen = [i for i in found if not which or i.component in which or i.instance in which]
    running = [i.instance for i in chosen if i.state in (RUNNING, STOPPING)]
    if not running:
        with engine.connect(name):  # which says so if it has ended
            raise BadStateError(
                f"no program of {' or '.join(which) or name} runs",
                f"`tfapp status {name}` says what they do.",
            )
    return running


def _told(
    engine: Engine,
    name: str,
    key: str,
    request: StacksRequest | ProfileRequest,
    prefix: str,
    kind: type[_Answer],
    waiting: Sequence[str],
    limit: float,
) -> dict[str, _Answer]:
    """Puts a request to the runners at `key`, and returns what those `waiting` for it tell below
    `prefix`, by instance. `limit`: seconds for all of them."""
    told: dict[str, _Answer] = {}
    with engine.connect(name) as connection, connection.watch(prefixes=[prefix]) as watch:
        connection.put(key, encode(request))
        end = time.monotonic() + limit
        while len(told) < len(waiting) and time.monotonic() < end:
            event = watch.get(end - time.monotonic())
            if isinstance(event, Broken):
                break
            if isinstance(event, Put):
                one = kind.from_dict(json.loads(event.value))
                if one.id == request.id and one.instance in waiting:
                    told[one.instance] = one
    return told


def kill_container(engine: Engine, name: str, which: str) -> str:
    """Kills a container with all its processes: that of an instance ("worker/1"), or the one with
    this id. Returns its id. NotFoundError if there is no such container."""
    containers: dict[str, str] = {}
    for instance in engine.find(name).status.instances:
        if instance.container:
            containers[instance.instance] = instance.container
            containers[instance.container] = instance.container
    if which not in containers:
        raise NotFoundError(
            f"{name} has no instance or container {which!r}",
            did_you_mean(which, containers, f"`tfapp status {name}` lists them."),
        )
    with engine.connect(name) as connection:
        connection.kill_container(containers[which])
    return containers[which]


class FeedCounters:
    """Tells the coordinator of an application what a feed has done: see
    tfapp.feed.driver.counters.Board. While the master does not answer, it is not told."""

    def __init__(self, engine: Engine, name: str):
        self._engine, self._name = engine, name
        self._connection: Connection | None = None

    def show(self, feed: FeedStatus) -> None:
        """Writes newer ones to the key-value store."""
        with contextlib.suppress(TfappError):
            if self._connection is None:
                self._connection = self._engine.connect(self._name)
            self._connection.put(KEY_FEED, encode(feed))
            return
        self.close()  # the next time, to where the master is then

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
