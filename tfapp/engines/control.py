"""Requests to a running application, on any engine."""

from __future__ import annotations

import json
import uuid

from tfapp.close_match import close_match
from tfapp.contract.encoding import encode
from tfapp.contract.messages import FlexReply, FlexRequest
from tfapp.contract.names import FLEXED_PREFIX, KEY_FLEX
from tfapp.engines.base import Engine
from tfapp.errors import BadStateError, NotFoundError, UnreachableError
from tfapp.protocol.watch import Put

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


def kill_container(engine: Engine, name: str, which: str) -> str:
    """Kills a container with all its processes: that of an instance ("worker/1"), or the one with
    this id. Returns its id. NotFoundError if there is no such container."""
    containers: dict[str, str] = {}
    for instance in engine.find(name).status.instances:
        if instance.container:
            containers[instance.instance] = instance.container
            containers[instance.container] = instance.container
    if which not in containers:
        match = close_match(which, containers)
        raise NotFoundError(
            f"{name} has no instance or container {which!r}",
            f"Did you mean {match}?" if match else f"`tfapp status {name}` lists them.",
        )
    with engine.connect(name) as connection:
        connection.kill_container(containers[which])
    return containers[which]
