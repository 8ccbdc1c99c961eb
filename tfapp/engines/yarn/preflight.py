"""Finds requests that a cluster can never fulfil, before submission: pure, but for Capacity, which
asks the cluster."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tfapp.close_match import did_you_mean
from tfapp.engines.yarn.cluster import ANY_LABEL, Queue, YarnCluster, YarnNode
from tfapp.engines.yarn.configuration import manager_addresses, read_configuration
from tfapp.engines.yarn.scheduler import Ask, QueueRules, asking, exclusive_labels, queue_rules
from tfapp.engines.yarn.web import Web
from tfapp.frozen import frozen
from tfapp.package.model import AppPackage, ComponentResources
from tfapp.problems import WARNING, Position, Problem

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled
    from tfapp.contract.job import Job


_LABEL = "yarn.label.expression"
_NODES = "yarn.nodes"
_RACKS = "yarn.racks"


@frozen
class ContainerRequest:
    """Requests for `count` containers of one size. `asked`: where the size was written.
    `default_of`: the queue whose default label is `label`; "" if the package names the label, or
    there is none."""

    asked: ComponentResources
    label: str
    memory: int
    vcores: int
    gpus: int
    default_of: str = ""
    count: int = 1


@frozen
class Most:
    """The largest container of `queue`, by the field of Request. `share`: see QueueRules."""

    queue: str
    of: Mapping[str, int]
    share: float = 1.0


def check(
    package: AppPackage,
    job: Job,
    master: ContainerRequest,
    queue: str,
    queues: Sequence[Queue],
    nodes: Sequence[YarnNode],
    rules: QueueRules | None,
    exclusive: Callable[[], Collection[str] | None],
) -> Iterator[Problem]:
    """An error for each request that would wait or fail for ever: because of the queue, a label or
    a size. `rules` of the queue: None if the ResourceManager does not report them. `exclusive`:
    returns the exclusive labels, and is called only if they matter; or None. A warning where only
    all requests together are too much: a cluster may grow."""
    yield from check_queue(queue, queues, rules)
    requests = [master]
    for component in job.components:
        asked = package.resources[component.name]
        wanted = component.container
        label = wanted.label or master.label
        size = (wanted.memory, wanted.vcores, wanted.gpus)
        if component.instances:
            requests.append(ContainerRequest(asked, label, *size, count=component.needed))
    facts = queue_facts(queue, queues, rules)
    defaults = {found.default_label for found in facts}
    exclusive = functools.cache(exclusive)
    requests = [_labelled(one, queue, defaults) for one in requests]
    most = Most(queue, rules.maximum if rules else {}, rules.share if rules else 1.0)
    problems: list[Problem] = []
    for number, request in enumerate(requests):
        within = nodes if request.label or defaults == {""} else _without_labels(nodes)
        forbidden = facts and not any(q.labels & {request.label, ANY_LABEL} for q in facts)
        if request.label and forbidden and any(request.label in node.labels for node in nodes):
            message = f"queue {queue!r} may not use nodes of label {request.label!r}"
            hint = "Name another queue or label."
            problems.append(Problem(_at(request, _LABEL), "node-label", message, hint=hint))
        else:
            problems += _check_nodes(request, within, most, exclusive if number else None)
    yield from problems
    if not problems:
        for label in sorted({request.label for request in requests}):
            alike = [request for request in requests if request.label == label]
            within = nodes if label or defaults == {""} else _without_labels(nodes)
            yield from _check_sum(alike, within, most, exclusive)


def _labelled(request: ContainerRequest, queue: str, defaults: Collection[str]) -> ContainerRequest:
    """The request with the default label of the queue, if it names none. `defaults`: the possible
    labels."""
    if request.label or len(defaults) != 1:
        return request
    (default,) = defaults
    return dataclasses.replace(request, label=default, default_of=queue if default else "")


def _without_labels(nodes: Sequence[YarnNode], keep: Collection[str] = ()) -> Sequence[YarnNode]:
    """`nodes` as they are for a request without a label: all labels but `keep` are removed."""
    return [dataclasses.replace(node, labels=node.labels.intersection(keep)) for node in nodes]


def _check_nodes(
    request: ContainerRequest,
    nodes: Sequence[YarnNode],
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


def _check_request(
    request: ContainerRequest, nodes: Sequence[YarnNode], most: Most
) -> Iterator[Problem]:
    labelled = [node for node in nodes if request.label in (node.labels or {""})]
    known = sorted({label for node in nodes for label in node.labels})
    if request.label and not labelled:
        message = f"no node that works has the {_label(request)}"
        none = "The nodes there have no labels."
        hint = offer(request.label, known, "Labels") if known else none
        yield Problem(_at(request, _LABEL), "node-label", message, hint=hint)
        return
    if not labelled:
        message = f"no node that works is free of labels, and {request.asked.name} asks for none"
        hint = f"Set {_LABEL}. {offer('', known, 'Labels')}" if known else ""
        yield Problem(request.asked.at, "no-nodes", message, hint=hint)
        return
    misplaced = tuple(_check_places(request, nodes, labelled))
    yield from misplaced or _check_size(request, _placed(request, labelled), most)


def _check_places(
    request: ContainerRequest, nodes: Sequence[YarnNode], labelled: Sequence[YarnNode]
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


def _placed(request: ContainerRequest, nodes: Sequence[YarnNode]) -> Sequence[YarnNode]:
    """The nodes on which the request may run."""
    asked = request.asked.container
    if asked.relax_locality or not (asked.nodes or asked.racks):
        return nodes
    return [node for node in nodes if node.host in asked.nodes or node.rack in asked.racks]


def _check_size(
    request: ContainerRequest, nodes: Sequence[YarnNode], allowed: Most
) -> Iterator[Problem]:
    tight = False
    for field, key, unit in (
        ("memory", "yarn.memory", " MiB"),
        ("vcores", "yarn.vcores", ""),
        ("gpus", "yarn.gpus", ""),
    ):
        wanted, most = getattr(request, field), max(getattr(node, field) for node in nodes)
        limit = min(most, allowed.of.get(field, most))
        if wanted <= limit:
            continue
        tight = True
        gives = f"the largest node{_where(request)} has"
        hint = "Such a container would never be given. Ask for less."
        if limit < most:
            gives = f"queue {allowed.queue!r} gives a container at most"
            hint = "Ask for less, or name another queue."
        message = f"{key} of {request.asked.name} is {wanted}{unit}, and {gives} {limit}{unit}"
        if field == "gpus" and not most:
            message = f"{request.asked.name} asks for GPUs, and no node{_where(request)} has any"
        yield Problem(_at(request, key), "never-fits", message, hint=hint)
    if not tight and not any(_fits(request, node) for node in nodes):
        message = (
            f"no single node{_where(request)} has all that {request.asked.name} asks for: "
            f"{request.memory} MiB, {request.vcores} vcores, {request.gpus} GPUs"
        )
        yield Problem(request.asked.at, "never-fits", message, hint=_sizes(nodes))


def _check_sum(
    requests: Sequence[ContainerRequest],
    nodes: Sequence[YarnNode],
    most: Most,
    exclusive: Callable[[], Collection[str] | None],
) -> Iterator[Problem]:
    """Warnings if the nodes, or the queue, have too little for all requests of one label together.
    Vcores are not among them: by default the capacity scheduler does not count them."""
    label = requests[0].label
    usable = [node for node in nodes if label in (node.labels or {""})]
    for field, key, unit in (("memory", "yarn.memory", " MiB"), ("gpus", "yarn.gpus", " GPUs")):
        wanted = sum(request.count * getattr(request, field) for request in requests)
        have = sum(getattr(node, field) for node in usable)
        if wanted > have and not label and any(node.labels for node in nodes):
            idle = _without_labels(nodes, keep=exclusive() or ())
            have = sum(getattr(node, field) for node in idle if not node.labels)
        limit = have if label or field == "gpus" else int(have * most.share)
        if wanted <= limit:
            continue
        largest = max(requests, key=lambda request: request.count * getattr(request, field))
        has = f"all nodes{label and f' of {_label(largest)}'} together have"
        if limit < have:
            has = f"queue {most.queue!r} gives one user at most"
        message = f"all containers together ask for {wanted}{unit}, and {has} {limit}{unit}"
        hint = "Until there is more, the application waits. Ask for fewer instances, or for less."
        yield Problem(_at(largest, key), "never-fits", message, WARNING, hint)


def _fits(request: ContainerRequest, node: YarnNode) -> bool:
    return (
        request.memory <= node.memory
        and request.vcores <= node.vcores
        and request.gpus <= node.gpus
    )


def _sizes(nodes: Iterable[YarnNode]) -> str:
    sizes = sorted({(node.memory, node.vcores, node.gpus) for node in nodes})
    listed = ", ".join(f"{m} MiB/{v} vcores/{g} GPUs" for m, v, g in sizes)
    return f"Nodes there: {listed}."


def _at(request: ContainerRequest, key: str) -> Position:
    return request.asked.place(key)


def _where(request: ContainerRequest) -> str:
    if request.asked.container.nodes or request.asked.container.racks:
        return " that it names" if not request.asked.container.relax_locality else ""
    comma = "," if request.default_of else ""
    return f" of {_label(request)}{comma}" if request.label else ""


def _label(request: ContainerRequest) -> str:
    """The label of a request, and the queue whose default it is."""
    of_queue = f", the default of queue {request.default_of!r}" if request.default_of else ""
    return f"label {request.label!r}{of_queue}"


_SHOWN = 20  # names in one message


def check_queue(
    name: str, queues: Sequence[Queue], rules: QueueRules | None = None
) -> Iterator[Problem]:
    """An error if the queue does not exist or accepts no applications."""
    at = Position(f"--queue {name}")
    found = queue_facts(name, queues, rules)
    missing = not found and not _may_be_made(name, queues) if rules is None else rules.missing
    if rules is not None and rules.children:
        message = f"queue {name!r} takes no applications: it consists of other queues"
        yield Problem(at, "queue", message, hint=f"Name one of {', '.join(rules.children)}.")
    elif missing:
        names = sorted(queue.name for queue in queues)
        message = f"there is no queue {name!r} on the cluster"
        yield Problem(at, "queue", message, hint=offer(name, names, "Queues"))
    elif found and not any(queue.running for queue in found):
        message = f"queue {name!r} is stopped: it takes no applications"
        names = sorted(queue.name for queue in queues if queue.running)
        yield Problem(at, "queue", message, hint=f"Queues that do: {', '.join(names)}.")


def queue_refused(name: str, user: str, reason: str) -> Problem:
    """The error if the ResourceManager refuses an application for its queue: the user lacks the
    right, or the queue is full, or something else that only YARN's own `reason` says."""
    message = f"queue {name!r} does not take the application of {user}: {reason}"
    return Problem(Position(f"--queue {name}"), "queue", message, hint="Name another queue.")


def queue_facts(name: str, queues: Sequence[Queue], rules: QueueRules | None) -> tuple[Queue, ...]:
    """The queues that `name` may denote. With the data of Skein's driver there can be several: of a
    path it knows only the last name with the capacity scheduler, but the whole path with the fair
    scheduler."""
    if rules is not None:
        return () if rules.queue is None else (rules.queue,)
    known = (name, f"root.{name}", name.rpartition(".")[2])
    return tuple(queue for queue in queues if queue.name in known)


def _may_be_made(name: str, queues: Sequence[Queue]) -> bool:
    """Whether YARN may create the queue `name`, as far as Skein's driver tells: below an existing
    queue, or by the placement rules of the fair scheduler, whose queues are paths."""
    return "." in name or all("." in queue.name for queue in queues)


def offer(name: str, known: Iterable[str], what: str) -> str:
    """A hint with the close match to `name` and all of `known`."""
    names = sorted(known)
    more = ", ..." if len(names) > _SHOWN else ""
    listed = f"{what}: {', '.join(names[:_SHOWN])}{more}."
    return f"{did_you_mean(name, names, form='Did you mean {!r}?')} {listed}".strip()


class Capacity:
    """The capacity of the cluster that `environ` selects. If the web service of the ResourceManager
    is not available (Kerberos, network), the less detailed data of Skein's driver are used."""

    def __init__(self, cluster: YarnCluster, environ: Mapping[str, str], web: Web):
        self._cluster = cluster
        self._environ = environ
        self._web = web

    def largest_container(self, queue: str) -> dict[str, int]:
        """The largest container, by "memory" (MiB) and "vcores": limited by the largest node and by
        the queue."""
        nodes, rules = self._cluster.nodes(), self._rules(queue)
        maximum = {
            field: max((getattr(node, field) for node in nodes), default=0)
            for field in ("memory", "vcores")
        }
        if rules is None:
            return maximum
        return {field: min(most, rules.maximum.get(field, most)) for field, most in maximum.items()}

    def check(self, compiled: Compiled) -> tuple[Problem, ...]:
        """An error for each request that this cluster can never fulfil."""
        plan, spec = compiled.plan, compiled.spec
        if plan is None:
            return ()
        package = plan.package
        size = spec.master.resources
        master = ContainerRequest(
            package.master, package.master.container.label, size.memory, size.vcores, size.gpus
        )
        queues, nodes = self._cluster.queues(), self._cluster.nodes()
        facts = (queues, nodes, self._rules(spec.queue), self._exclusive_labels)
        return tuple(sorted(check(package, compiled.job, master, spec.queue, *facts)))

    def _rules(self, queue: str) -> QueueRules | None:
        try:
            return queue_rules(queue, self._ask())
        except OSError:
            return None

    def _exclusive_labels(self) -> frozenset[str] | None:
        try:
            return exclusive_labels(self._ask())
        except OSError:
            return None

    def _ask(self) -> Ask:
        return asking(tuple(manager_addresses(read_configuration(self._environ))), self._web)
