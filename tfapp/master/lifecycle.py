"""The containers of one application and when the application ends, by the rules of Skein's master.

Pure: no process, no clock. What has to happen goes to `Effects`; what has happened is told by
calling `granted` and `finished`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from tfapp.frozen import frozen
from tfapp.master.store import Owner, RequestError

WAITING, REQUESTED, RUNNING = "WAITING", "REQUESTED", "RUNNING"
SUCCEEDED, FAILED, KILLED = "SUCCEEDED", "FAILED", "KILLED"
LIVE_STATES = (WAITING, REQUESTED, RUNNING)

EXIT_MESSAGES = {
    SUCCEEDED: "Completed successfully.",
    FAILED: "Container failed during execution, see logs for more information.",
    KILLED: "Killed by user request.",
}


@frozen
class ServiceRules:
    """The rules of a service. `max_restarts` -1: without limit."""

    instances: int
    max_restarts: int = 0
    allow_failures: bool = False
    depends: frozenset[str] = frozenset()


@dataclasses.dataclass
class ContainerRecord:
    """The master's record of one container. `engine_id`: its id at the launcher. Times: seconds
    since 1970, 0 when not yet."""

    service: str
    instance: int
    env: Mapping[str, str]
    state: str = REQUESTED
    engine_id: str = ""
    host: str = ""  # where it runs
    started: float = 0.0
    ended: float = 0.0
    message: str = ""

    @property
    def id(self) -> str:
        return f"{self.service}_{self.instance}"

    @property
    def live(self) -> bool:
        return self.state in LIVE_STATES


class Effects(Protocol):
    """The effects of the lifecycle. None of these may call back before it returns."""

    def launch(self, container: ContainerRecord) -> None:
        """Start a REQUESTED container; then call `granted`, later `finished`."""

    def kill(self, container: ContainerRecord) -> None:
        """End a container that was launched and has not ended."""

    def changed(self, container: ContainerRecord) -> None:
        """A container, or what is counted of services, is another than before."""

    def drop_keys(self, owner: Owner) -> None:
        """Delete what a finished container owns."""

    def end(self, status: str, message: str) -> None:
        """The application is over. May be called more than once: the first one counts."""


class _Service:
    def __init__(self, name: str, rules: ServiceRules):
        self.name = name
        self.rules = rules
        self.unmet = set(rules.depends)
        self.containers: list[ContainerRecord] = []
        self.failed = 0
        self.restarted = 0
        self.was_running = False

    def live(self, state: str | None = None) -> list[ContainerRecord]:
        """Live containers, those in `state` if given, oldest first."""
        return [c for c in self.containers if c.live and state in (None, c.state)]

    @property
    def is_failed(self) -> bool:
        return self.failed > self.restarted and not self.rules.allow_failures

    @property
    def may_restart(self) -> bool:
        return self.rules.max_restarts == -1 or self.restarted < self.rules.max_restarts


class Lifecycle:
    """`has_driver`: there is a master script, and the application does not end by itself when
    no container is left. `clock`: seconds since 1970."""

    def __init__(
        self,
        services: Mapping[str, ServiceRules],
        effects: Effects,
        clock: Callable[[], float],
        has_driver: bool,
    ):
        self._services = {name: _Service(name, rules) for name, rules in services.items()}
        self._effects = effects
        self._clock = clock
        self._has_driver = has_driver

    def start(self) -> None:
        """Requests the instances that each service begins with."""
        for service in self._services.values():
            for _ in range(service.rules.instances):
                self._add(service, {})

    # -- from one master to the next --
    def counted(self) -> dict[str, dict[str, Any]]:
        """What the next master has to know of each service beside its containers."""
        return {
            name: {
                "unmet": sorted(service.unmet),
                "failed": service.failed,
                "restarted": service.restarted,
                "was_running": service.was_running,
            }
            for name, service in self._services.items()
        }

    def restore(
        self, containers: Iterable[ContainerRecord], counted: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Begins, in place of `start`, with the containers and counters of an earlier master."""
        for container in sorted(containers, key=lambda one: one.instance):
            self._services[container.service].containers.append(container)
        for name, values in counted.items():
            vars(self._services[name]).update({**values, "unmet": set(values["unmet"])})

    def all(self) -> list[ContainerRecord]:
        """All containers, also those that have ended."""
        return [c for service in self._services.values() for c in service.containers]

    # -- requests of clients --
    def add(self, service: str, env: Mapping[str, str]) -> ContainerRecord:
        """Adds a container, with `env` added to the service's."""
        return self._add(self._service(service), env)

    def scale(self, service: str, count: int, delta: int) -> list[ContainerRecord]:
        """To `count`, or by `delta` when that is not 0. Returns what was added or killed. The
        protocol cannot tell delta=0 from count=0: both mean no container."""
        tracker = self._service(service)
        if delta and count:
            raise RequestError("Can't specify both count and delta")
        if count < 0:
            raise RequestError("count must be >= 0")
        active = tracker.live()
        delta = max(delta, -len(active)) if delta else count - len(active)
        if delta >= 0:
            return [self._add(tracker, {}) for _ in range(delta)]
        victims = [c for state in LIVE_STATES for c in active if c.state == state][:-delta]
        for container in victims:
            self.finished(container, KILLED, EXIT_MESSAGES[KILLED])
        return victims

    def kill(self, owner: Owner) -> None:
        """Ends a container; nothing happens when it has ended already."""
        self.finished(self.container(owner), KILLED, EXIT_MESSAGES[KILLED])

    def containers(self, services: Iterable[str], states: Iterable[str]) -> list[ContainerRecord]:
        """By service and state; no service given means all, no state the live ones."""
        wanted = set(states) or set(LIVE_STATES)
        names = dict.fromkeys(services) or self._services
        found = [c for name in names for c in self._service(name).containers]
        return [c for c in found if c.state in wanted]

    def container(self, owner: Owner) -> ContainerRecord:
        """RequestError when there is no such container."""
        containers = self._service(owner.service).containers
        if not 0 <= owner.instance < len(containers):
            raise RequestError(
                f"Service '{owner.service}' has no container instance {owner.instance}"
            )
        return containers[owner.instance]

    def check_owner(self, owner: Owner) -> None:
        """RequestError unless the container can own keys."""
        if not self.container(owner).live:
            raise RequestError(f"Container '{owner}' has already completed")

    # -- what happened --
    def granted(self, container: ContainerRecord, host: str) -> bool:
        """The container is about to start. False when it was killed meanwhile: it must not."""
        if container.state != REQUESTED:
            return False
        container.state = RUNNING
        container.host = host
        container.started = self._clock()
        service = self._services[container.service]
        if not service.was_running and not service.live(REQUESTED):
            service.was_running = True
            self._release_dependents(service.name)
        self._effects.changed(container)
        return True

    def not_started(self, container: ContainerRecord, reason: str) -> None:
        self.finished(container, FAILED, f"Failed to start, exception raised: {reason}")

    def finished(self, container: ContainerRecord, state: str, message: str) -> None:
        """The container has ended by itself (SUCCEEDED or FAILED), or is to end (KILLED)."""
        if not container.live:
            return
        before = container.state
        container.state, container.message = state, message
        if before == RUNNING:
            container.ended = self._clock()
        if before != WAITING and state == KILLED:
            self._effects.kill(container)
        self._effects.drop_keys(Owner(container.service, container.instance))
        service = self._services[container.service]
        if state == FAILED:
            service.failed += 1
            if service.may_restart:
                service.restarted += 1
                self._add(service, container.env)
        self._effects.changed(container)
        if service.is_failed or not service.live():
            self._end_if_over()

    # -- inside --
    def _service(self, name: str) -> _Service:
        try:
            return self._services[name]
        except KeyError:
            raise RequestError(f"Unknown service '{name}'") from None

    def _add(self, service: _Service, env: Mapping[str, str]) -> ContainerRecord:
        container = ContainerRecord(service.name, len(service.containers), dict(env))
        service.containers.append(container)
        if service.unmet:
            container.state = WAITING
        else:
            self._effects.launch(container)
        self._effects.changed(container)
        return container

    def _release_dependents(self, dependency: str) -> None:
        for service in self._services.values():
            if dependency in service.unmet:
                service.unmet.discard(dependency)
                if not service.unmet:
                    for container in service.live(WAITING):
                        container.state = REQUESTED
                        self._effects.launch(container)
                        self._effects.changed(container)

    def _end_if_over(self) -> None:
        for service in self._services.values():
            if service.is_failed:
                message = f"Failure in service {service.name}, see logs for more information."
                self._effects.end(FAILED, message)
                return
        if not self._has_driver and not any(s.live() for s in self._services.values()):
            self._effects.end(SUCCEEDED, "Application completed successfully.")
