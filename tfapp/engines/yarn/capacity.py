"""The capacity of a cluster: its largest container, and requests that no node can fulfil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfapp.engines.yarn.cluster import Cluster
from tfapp.engines.yarn.configuration import manager_addresses, read_configuration
from tfapp.engines.yarn.preflight import Request, check
from tfapp.engines.yarn.scheduler import Ask, QueueRules, asking, exclusive_labels, queue_rules
from tfapp.engines.yarn.web import Web
from tfapp.problems import Problem

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled


class Capacity:
    """The capacity of the cluster that `environ` selects. If the web service of the ResourceManager
    is not available (Kerberos, network), the less detailed data of Skein's driver are used."""

    def __init__(self, cluster: Cluster, environ: Mapping[str, str], web: Web):
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
        package, spec = compiled.package, compiled.spec
        if package is None:
            return ()
        size = spec.master.resources
        master = Request(
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
