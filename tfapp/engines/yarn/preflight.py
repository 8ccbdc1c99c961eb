"""Finds requests that a cluster can never fulfil, before submission. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tfapp.engines.yarn.cluster import ANY_LABEL, Node, Queue
from tfapp.engines.yarn.preflight_queue import check_queue, offer, queue_facts
from tfapp.engines.yarn.scheduler import QueueRules
from tfapp.frozen import frozen
from tfapp.package.model import AppPackage, ComponentResources
from tfapp.problems import Position, Problem

if TYPE_CHECKING:
    from tfapp.contract.job import Job

_LABEL = "yarn.label.expression"
_NODES = "yarn.nodes"
_RACKS = "yarn.racks"


@frozen
class Request:
    """Requests for containers of one size. `asked`: where the size was written. `default_of`: the
    queue whose default label is `label`; "" if the package names the label, or there is none."""

    asked: ComponentResources
    label: str
    memory: int
    vcores: int
    gpus: int
    default_of: str = ""


@frozen
class Most:
    """The largest container of `queue`, by the field of Request."""

    queue: str
    of: Mapping[str, int]


def check(
    package: AppPackage,
    job: Job,
    master: Request,
    queue: str,
    queues: Sequence[Queue],
    nodes: Sequence[Node],
    rules: QueueRules | None,
    exclusive: Callable[[], Collection[str] | None],
) -> Iterator[Problem]:
    """An error for each request that would wait or fail for ever: because of the queue, a label or
    a size. `rules` of the queue: None if the ResourceManager does not report them. `exclusive`:
    returns the exclusive labels, and is called only if they matter; or None."""
    yield from check_queue(queue, queues, rules)
    requests = [master]
    for component in job.components:
        asked = package.resources[component.name]
        wanted = component.container
        label = wanted.label or master.label
        size = (wanted.memory, wanted.vcores, wanted.gpus)
        if component.instances:
            requests.append(Request(asked, label, *size))
    facts = queue_facts(queue, queues, rules)
    defaults = {found.default_label for found in facts}
    exclusive = functools.cache(exclusive)
    for number, request in enumerate(_labelled(one, queue, defaults) for one in requests):
        within = nodes if request.label or defaults == {""} else _without_labels(nodes)
        forbidden = facts and not any(q.labels & {request.label, ANY_LABEL} for q in facts)
        if request.label and forbidden and any(request.label in node.labels for node in nodes):
            message = f"queue {queue!r} may not use nodes of label {request.label!r}"
            hint = "Name another queue or label."
            yield Problem(_at(request, _LABEL), "node-label", message, hint=hint)
        else:
            most = Most(queue, rules.maximum if rules else {})
            yield from _check_nodes(request, within, most, exclusive if number else None)


def _labelled(request: Request, queue: str, defaults: Collection[str]) -> Request:
    """The request with the default label of the queue, if it names none. `defaults`: the possible
    labels."""
    if request.label or len(defaults) != 1:
        return request
    (default,) = defaults
    return dataclasses.replace(request, label=default, default_of=queue if default else "")


def _without_labels(nodes: Sequence[Node], keep: Collection[str] = ()) -> Sequence[Node]:
    """`nodes` as they are for a request without a label: all labels but `keep` are removed."""
    return [dataclasses.replace(node, labels=node.labels.intersection(keep)) for node in nodes]


def _check_nodes(
    request: Request,
    nodes: Sequence[Node],
    most: Most,
    exclusive: Callable[[], Collection[str] | None] | None,
) -> Iterable[Problem]:
    """Errors for a request that fits on no node. `exclusive`: called if nodes with non-exclusive
    labels could help a request without a label. None for the master: YARN does not start it on a
    node that it would have to take back."""
    problems = tuple(_check_request(request, nodes, most))
    if problems and exclusive and not request.label and any(node.labels for node in nodes):
        nodes = _without_labels(nodes, keep=exclusive() or ())
        return _check_request(request, nodes, most)
    return problems


def _check_request(request: Request, nodes: Sequence[Node], most: Most) -> Iterator[Problem]:
    labelled = [node for node in nodes if request.label in (node.labels or {""})]
    if request.label and not labelled:
        known = sorted({label for node in nodes for label in node.labels})
        message = f"no node that works has the {_label(request)}"
        yield Problem(_at(request, _LABEL), "node-label", message, hint=_labels(request, known))
        return
    if not labelled:
        message = f"no node that works is free of labels, and {request.asked.name} asks for none"
        known = sorted({label for node in nodes for label in node.labels})
        hint = f"Set {_LABEL}. {offer('', known, 'Labels')}" if known else ""
        yield Problem(request.asked.at, "no-nodes", message, hint=hint)
        return
    misplaced = tuple(_check_places(request, nodes, labelled))
    yield from misplaced or _check_size(request, _placed(request, labelled), most)


def _check_places(
    request: Request, nodes: Sequence[Node], labelled: Sequence[Node]
) -> Iterator[Problem]:
    """Errors for hosts and racks that do not exist or cannot be used."""
    hosts, racks = {n.host: n for n in nodes}, {n.rack for n in nodes}
    for rack in (rack for rack in request.asked.container.racks if rack not in racks):
        message = f"no node that works is in the rack {rack!r}"
        yield Problem(_at(request, _RACKS), "place", message, hint=offer(rack, racks, "Racks"))
    for host in request.asked.container.nodes:
        if host not in hosts:
            message = f"no node that works is called {host!r}"
            hint = offer(host, hosts, "Nodes")
            yield Problem(_at(request, _NODES), "place", message, hint=hint)
        elif hosts[host] not in labelled and request.label:
            message = f"node {host!r} does not have the {_label(request)}"
            hint = "Name other nodes, or another queue."
            yield Problem(_at(request, _NODES), "place", message, hint=hint)
        elif hosts[host] not in labelled:
            label = ", ".join(sorted(hosts[host].labels))
            message = f"YARN gives node {host!r} only to who asks for its label {label!r}"
            hint = f"Write {_LABEL}: {label} in place of {_NODES}."
            yield Problem(_at(request, _NODES), "place", message, hint=hint)


def _placed(request: Request, nodes: Sequence[Node]) -> Sequence[Node]:
    """The nodes on which the request may run."""
    asked = request.asked.container
    if asked.relax_locality or not (asked.nodes or asked.racks):
        return nodes
    return [node for node in nodes if node.host in asked.nodes or node.rack in asked.racks]


def _check_size(request: Request, nodes: Sequence[Node], allowed: Most) -> Iterator[Problem]:
    tight = False
    for field, key, unit in (
        ("memory", "yarn.memory", " MiB"),
        ("vcores", "yarn.vcores", ""),
        ("gpus", "yarn.gpus", ""),
    ):
        wanted, most = getattr(request, field), max(getattr(node, field) for node in nodes)
        limit = allowed.of.get(field, most)
        if wanted > limit < most:
            tight = True
            message = (
                f"{key} of {request.asked.name} is {wanted}{unit}, and queue {allowed.queue!r} "
                f"gives a container at most {limit}{unit}"
            )
            hint = "Ask for less, or name another queue."
            yield Problem(_at(request, key), "never-fits", message, hint=hint)
        elif wanted > most:
            tight = True
            message = (
                f"{key} of {request.asked.name} is {wanted}{unit}, and the largest node"
                f"{_where(request)} has {most}{unit}"
            )
            if field == "gpus" and not most:
                message = (
                    f"{request.asked.name} asks for GPUs, and no node{_where(request)} has any"
                )
            hint = "Such a container would never be given. Ask for less."
            yield Problem(_at(request, key), "never-fits", message, hint=hint)
    if not tight and not any(_fits(request, node) for node in nodes):
        message = (
            f"no single node{_where(request)} has all that {request.asked.name} asks for: "
            f"{request.memory} MiB, {request.vcores} vcores, {request.gpus} GPUs"
        )
        yield Problem(request.asked.at, "never-fits", message, hint=_sizes(nodes))


def _fits(request: Request, node: Node) -> bool:
    return (
        request.memory <= node.memory
        and request.vcores <= node.vcores
        and request.gpus <= node.gpus
    )


def _sizes(nodes: Iterable[Node]) -> str:
    sizes = sorted({(node.memory, node.vcores, node.gpus) for node in nodes})
    listed = ", ".join(f"{m} MiB/{v} vcores/{g} GPUs" for m, v, g in sizes)
    return f"Nodes there: {listed}."


def _at(request: Request, key: str) -> Position:
    return request.asked.place(key)


def _where(request: Request) -> str:
    if request.asked.container.nodes or request.asked.container.racks:
        return " that it names" if not request.asked.container.relax_locality else ""
    comma = "," if request.default_of else ""
    return f" of {_label(request)}{comma}" if request.label else ""


def _label(request: Request) -> str:
    """The label of a request, and the queue whose default it is."""
    of_queue = f", the default of queue {request.default_of!r}" if request.default_of else ""
    return f"label {request.label!r}{of_queue}"


def _labels(request: Request, known: list[str]) -> str:
    return offer(request.label, known, "Labels") if known else "The nodes there have no labels."
