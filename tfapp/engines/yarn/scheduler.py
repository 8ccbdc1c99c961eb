"""Data on queues and labels from the ResourceManager's web service that Skein's driver does not
have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from tfapp.engines.yarn.cluster import Queue
from tfapp.engines.yarn.web import Web
from tfapp.frozen import frozen

_CONFIGURED = {
    "memory": "yarn.scheduler.maximum-allocation-mb",
    "vcores": "yarn.scheduler.maximum-allocation-vcores",
}
_GPU = "yarn.io/gpu"

Ask = Callable[[str], Any]  # path and query of the web service -> JSON; OSError
_Queue = Mapping[str, Any]
_ROOT = "root"


@frozen
class QueueRules:
    """The limits of a queue. `maximum`: of one container, by "memory" (MiB), "vcores" and "gpus"; a
    missing key means no known limit. `children`: the child queues. `queue`: the queue with its full
    path; None if YARN will create it, if several have the name, or for the fair scheduler, which
    does not tell. `missing`: the queue does not exist, and YARN will not create it. `share`: the
    share of the cluster's memory, from 0 to 1, that one user of it can have."""

    maximum: Mapping[str, int]
    children: tuple[str, ...] = ()
    queue: Queue | None = None
    missing: bool = False
    share: float = 1.0


def queue_rules(name: str, ask: Ask) -> QueueRules:
    """The rules of the queue `name` ("default", "root.default"). For a queue that YARN creates on
    submission, those of the nearest parent. OSError if the ResourceManager does not answer."""
    info = ask("/ws/v1/cluster/scheduler")["scheduler"]["schedulerInfo"]
    root = info.get("rootQueue", info)  # the fair scheduler's, the capacity scheduler's
    fair = root is not info
    queues = dict(_queues(root, ""))
    paths = _paths(name, queues, fair)
    if len(paths) > 1:
        return QueueRules(_maximum(root, root, ask))
    if not paths:
        above = _above(name, queues, fair)
        # The fair scheduler's placement rules decide, which it does not tell.
        makers = [queue for queue in above if fair or _makes_children(queue)]
        return (
            QueueRules(_maximum(makers[0], root, ask)) if makers else QueueRules({}, missing=True)
        )
    found = queues[paths[0]]
    children = () if _makes_children(found) else tuple(map(_name, _children(found)))
    facts = _facts(paths[0], found)
    return QueueRules(_maximum(found, root, ask), children, facts, share=_share(found))


def exclusive_labels(ask: Ask) -> frozenset[str]:
    """The exclusive node labels. Idle nodes with a non-exclusive label also accept requests without
    a label. OSError if the ResourceManager does not answer."""
    found = ask("/ws/v1/cluster/get-node-labels").get("nodeLabelInfo", [])
    labels = found if isinstance(found, list) else [found]  # it lists no single one
    return frozenset(
        label["name"] for label in labels if str(label["exclusivity"]).lower() == "true"
    )


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


def _paths(name: str, queues: Mapping[str, _Queue], fair: bool) -> list[str]:
    """The paths that `name` may denote: a full path, with or without the root, or the name of a
    queue, whose path only the capacity scheduler reports."""
    named = (name, f"{_ROOT}.{name}")
    own = () if fair else (name,)
    return [path for path, queue in queues.items() if path in named or _name(queue) in own]


def _above(name: str, queues: Mapping[str, _Queue], fair: bool) -> list[_Queue]:
    """The nearest existing parent of a queue; several if its name is ambiguous."""
    parent = name.rpartition(".")[0] or _ROOT
    paths = _paths(parent, queues, fair)
    return [queues[path] for path in paths] if paths else _above(parent, queues, fair)


def _facts(path: str, queue: _Queue) -> Queue | None:
    if "state" not in queue:
        return None
    return Queue(
        name=path,
        running=queue["state"] == "RUNNING",
        labels=frozenset(queue.get("nodeLabels", ())),
        default_label=queue.get("defaultNodeLabelExpression") or "",
    )


def _share(queue: _Queue) -> float:
    """The capacity scheduler's limits, in percent, for a queue and for one user of it; others tell
    of none."""
    most = float(queue.get("absoluteMaxCapacity", 100.0))
    own, factor = float(queue.get("absoluteCapacity", 0.0)), float(queue.get("userLimitFactor", 0))
    return min(most, own * factor if own > 0 and factor > 0 else most, 100.0) / 100


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
