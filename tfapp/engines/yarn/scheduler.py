"""Facts on queues and labels from the ResourceManager's web service, which Skein's driver lacks."""

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
    """The limits of a queue. `maximum`: those of one container, by "memory" (MiB), "vcores" and
    "gpus"; a missing key has no known limit. `children`: the queues below it. `queue`: the queue by
    its whole path; None where YARN has yet to make it, where several have the name, or where the
    scheduler does not tell (the fair one). `missing`: there is no such queue, and YARN makes
    none."""

    maximum: Mapping[str, int]
    children: tuple[str, ...] = ()
    queue: Queue | None = None
    missing: bool = False


def queue_rules(name: str, ask: Ask) -> QueueRules:
    """Of the queue `name` ("default", "root.default"); of one that YARN may make when it is
    submitted to, as the nearest one above has them. OSError when the ResourceManager does not
    say."""
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
    return QueueRules(_maximum(found, root, ask), children, _facts(paths[0], found))


def exclusive_labels(ask: Ask) -> frozenset[str]:
    """The node labels whose nodes take nothing but what asks for them. The nodes of the others
    take, while they are idle, what asks for no label. OSError when the ResourceManager does not
    say."""
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
    """Of the queues that `name` may mean: a whole path, with or without the root, or a queue's
    own name, of which only the capacity scheduler knows the path."""
    named = (name, f"{_ROOT}.{name}")
    own = () if fair else (name,)
    return [path for path, queue in queues.items() if path in named or _name(queue) in own]


def _above(name: str, queues: Mapping[str, _Queue], fair: bool) -> list[_Queue]:
    """The nearest queue above one that is not there; several where its name means several."""
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
