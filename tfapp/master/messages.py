"""Between Skein's messages and the values of this engine."""

from __future__ import annotations

import os
from typing import Any

from tfapp.errors import UnavailableError
from tfapp.master.lifecycle import ContainerRecord, ServiceRules
from tfapp.master.store import Condition, Delete, Get, KeyRange, Owner, StoreEntry, StorePut
from tfapp.protocol.definition import messages

NO_PORT = 0  # of a host without web pages


def entry_message(entry: StoreEntry) -> Any:
    if entry.owner is None:
        return messages.KeyValue(key=entry.key, value=entry.value)
    return messages.KeyValue(key=entry.key, value=entry.value, owner=owner_message(entry.owner))


def owner_message(owner: Owner) -> Any:
    return messages.ContainerInstance(service_name=owner.service, instance=owner.instance)


def read_owner(message: Any) -> Owner:
    return Owner(message.service_name, message.instance)


def read_condition(message: Any) -> Condition:
    """Condition -> Condition. A right side of the other field's type counts as none."""
    field = messages.Condition.Field.Name(message.field)
    right: bytes | Owner | None = None
    if message.WhichOneof("rhs") == field.lower():
        right = message.value if field == "VALUE" else read_owner(message.owner)
    return Condition(message.key, messages.Condition.Operator.Name(message.operator), field, right)


def read_put(message: Any) -> StorePut:
    return StorePut(
        message.key,
        message.value,
        read_owner(message.owner) if message.HasField("owner") else None,
        message.ignore_value,
        message.ignore_owner,
    )


def read_range(message: Any) -> KeyRange:
    return KeyRange(message.start, message.end)


def put_response(request: Any, previous: StoreEntry | None) -> Any:
    response = messages.PutKeyResponse(return_previous=request.return_previous)
    if request.return_previous and previous is not None:
        response.previous.CopyFrom(entry_message(previous))
    return response


def range_response(request: Any, found: list[StoreEntry]) -> Any:
    """GetRangeResponse or DeleteRangeResponse to a request of the same kind."""
    deleting = isinstance(request, messages.DeleteRangeRequest)
    kind = messages.DeleteRangeResponse if deleting else messages.GetRangeResponse
    response = kind(count=len(found), result_type=request.result_type)
    wanted = type(request).ResultType.Name(request.result_type)
    if wanted == "ITEMS":
        response.result.extend(entry_message(entry) for entry in found)
    elif wanted == "KEYS":
        response.result.extend(messages.KeyValue(key=entry.key) for entry in found)
    return response


def read_operation(message: Any) -> Get | Delete | StorePut:
    """OpRequest, not an empty one -> operation."""
    kind = message.WhichOneof("request")
    if kind == "put_key":
        return read_put(message.put_key)
    if kind == "delete_range":
        return Delete(read_range(message.delete_range))
    return Get(read_range(message.get_range))


def operation_response(message: Any, result: Any) -> Any:
    """OpResponse to an OpRequest whose operation gave `result`."""
    kind = message.WhichOneof("request")
    request = getattr(message, kind)
    respond = put_response if kind == "put_key" else range_response
    return messages.OpResponse(**{kind: respond(request, result)})


def container_message(container: ContainerRecord) -> Any:
    return messages.Container(
        service_name=container.service,
        instance=container.instance,
        state=container.state,
        yarn_container_id=container.engine_id if container.host else "",
        yarn_node_http_address=f"{container.host}:{NO_PORT}" if container.host else "",
        start_time=int(container.started * 1000),
        finish_time=int(container.ended * 1000),
        exit_message=container.message,
    )


def read_rules(service: Any) -> ServiceRules:
    return ServiceRules(
        service.instances,
        service.max_restarts,
        service.allow_failures,
        frozenset(service.depends),
    )


def local_path(url: Any) -> str:
    """The path that a Skein Url names on this machine. UnavailableError for another place."""
    if url.scheme not in ("", "file") or url.host:
        raise UnavailableError(
            f"{url.scheme}://{url.host}{url.file} is not a file of this machine",
            "Its files have to lie on the disk of the application's master.",
        )
    return url.file


def file_name(target: str) -> str:
    """The name of a file in a container's folder, of a spec's target. UnavailableError when it
    cannot be one."""
    name = os.path.normpath(target)
    if name in (".", "..") or "/" in name:
        raise UnavailableError(f"{target!r} cannot be a file's name in a container")
    return name
