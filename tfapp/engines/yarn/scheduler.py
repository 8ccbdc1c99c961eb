"""What the ResourceManager's web service says of a queue, which Skein's driver does not tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from tfapp.engines.yarn.web import Web

_CONFIGURED = {
    "memory": "yarn.scheduler.maximum-allocation-mb",
    "vcores": "yarn.scheduler.maximum-allocation-vcores",
}
_GPU = "yarn.io/gpu"

Ask = Callable[[str], Any]  # path and query of the web service -> JSON; OSError
_Queue = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class QueueRules:
    """What a queue allows. `maximum`: the most that one container may ask for, by "memory" (MiB),
    "vcores" and "gpus"; what is missing has no limit that is known. `children`: the queues that
    it consists of."""

    maximum: Mapping[str, int]
    children: tuple[str, ...] = ()


def queue_rules(name: str, ask: Ask) -> QueueRules | None:
    """Of the queue `name` ("default", "root.default"); of one that YARN may make when it is
    submitted to, as its parent has them. None when there is no such queue, OSError when the
    ResourceManager does not say."""
    info = ask("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    root = info.get("rootQueue", info)  # the fair scheduler's, the capacity scheduler's
    fair = root is not info
    queues = dict(_queues(root, ""))
    found = _find(name, queues)
    if found is None:
        parent = _find(name.rpartition(".")[0], queues)
        if fair:  # its placement rules decide, which it does not tell
            parent = parent or root
        elif parent is None or not _makes_children(parent):
            return None
        return QueueRules(_maximum(parent, root, ask))
    children = () if _makes_children(found) else tuple(map(_name, _children(found)))
    return QueueRules(_maximum(found, root, ask), children)


def asking(addresses: Iterable[str], web: Web) -> Ask:
    """Asks the first of `addresses` that answers."""

    def ask(path: str) -> Any:
        error = OSError("the configuration names no ResourceManager's web service")
        for address in addresses:
            try:
                return web.read_json(address + path)
            except OSError as failure:
                error = failure
        raise error

    return ask


def _queues(queue: _Queue, above: str) -> Iterator[tuple[str, _Queue]]:
    path = f"{above}.{_name(queue)}" if above else _name(queue)
    yield path, queue
    for child in _children(queue):
        yield from _queues(child, path)


def _find(name: str, queues: Mapping[str, _Queue]) -> _Queue | None:
    """By its whole path, with or without the root, or its own name."""
    for path, queue in queues.items():
        if name in (path, path.partition(".")[2], _name(queue)):
            return queue
    return None


def _children(queue: _Queue) -> Iterable[_Queue]:
    queues = queue.get("queues") or queue.get("childQueues") or {}
    return queues.get("queue", ())


def _name(queue: _Queue) -> str:
    return queue["queueName"].rpartition(".")[2]  # the fair scheduler gives the whole path


def _makes_children(queue: _Queue) -> bool:
    eligibility = queue.get("autoCreationEligibility", "off")
    return bool(queue.get("autoCreateChildQueueEnabled")) or eligibility != "off"


def _maximum(queue: _Queue, root: _Queue, ask: Ask) -> dict[str, int]:
    own = queue.get("maximumAllocation") or queue.get("maxContainerAllocation")
    resource = own or root.get("maximumAllocation")
    if not resource:
        settings = {
            field: f"/conf?{urlencode({'name': key})}" for field, key in _CONFIGURED.items()
        }
        return {field: int(ask(path)["property"]["value"]) for field, path in settings.items()}
    amounts = {"memory": int(resource["memory"]), "vcores": int(resource["vCores"])}
    others = resource.get("resourceInformations", {}).get("resourceInformation", ())
    gpus = next((int(other["value"]) for other in others if other["name"] == _GPU), None)
    return amounts if gpus is None else {**amounts, "gpus": gpus}
