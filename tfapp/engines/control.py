"""What a running application is asked, or told, on any engine."""

from __future__ import annotations

import contextlib
import json
import time
import uuid

from tfapp.close_match import did_you_mean
from tfapp.contract.encoding import encode
from tfapp.contract.messages import FlexReply, FlexRequest
from tfapp.contract.names import (
    FLEXED_PREFIX,
    KEY_FEED,
    KEY_FLEX,
    KEY_STACKS,
    RUNNING,
    STACKS_PREFIX,
    STOPPING,
)
from tfapp.contract.stacks import ASK_LIMIT, InstanceStacks, Stacks, StacksRequest, grouped
from tfapp.contract.status import FeedStatus
from tfapp.engines.base import Engine
from tfapp.errors import BadStateError, NotFoundError, TfappError, UnreachableError
from tfapp.protocol.connection import Connection
from tfapp.protocol.watch import Broken, Put

REPLY_LIMIT = 30.0  # seconds until the coordinator has decided


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
    found = engine.find(name).status.instances
    chosen = [i for i in found if which in ("", i.component, i.instance)]
    if not chosen and which:
        known = [*(i.instance for i in found), *(i.component for i in found)]
        raise NotFoundError(
            f"{name} has no instance or component {which!r}",
            did_you_mean(which, known, f"`tfapp status {name}` lists them."),
        )
    waiting = [i.instance for i in chosen if i.state in (RUNNING, STOPPING)]
    asked = tuple(waiting) if which else ()
    request, told = StacksRequest(uuid.uuid4().hex, asked), dict[str, InstanceStacks]()
    with engine.connect(name) as connection, connection.watch(prefixes=[STACKS_PREFIX]) as watch:
        if not waiting:
            raise BadStateError(
                f"no program of {which or name} runs", f"`tfapp status {name}` says what they do."
            )
        connection.put(KEY_STACKS, encode(request))
        end = time.monotonic() + limit
        while len(told) < len(waiting) and time.monotonic() < end:
            event = watch.get(end - time.monotonic())
            if isinstance(event, Broken):
                break
            if isinstance(event, Put):
                one = InstanceStacks.from_dict(json.loads(event.value))
                if one.id == request.id and one.instance in waiting:
                    told[one.instance] = one
    instances = tuple(told[i] for i in waiting if i in told)
    missing = tuple(i for i in waiting if i not in told)
    return Stacks(grouped((i.instance, i.place) for i in instances), instances, missing)


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
