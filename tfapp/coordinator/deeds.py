"""Carries the policy's actions out, by calls to the application's master."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from tfapp.contract.container import ENV_GENERATION, ENV_INSTANCE
from tfapp.contract.control import Cluster, Order
from tfapp.contract.encoding import encode
from tfapp.contract.keys import (
    ALIVE_PREFIX,
    FLEXED_PREFIX,
    KEY_CLUSTER,
    KEY_GENERATION,
    KEY_RELEASED,
    ORDER_PREFIX,
)
from tfapp.contract.pages import exported_pages, page_route
from tfapp.coordinator import actions, events
from tfapp.coordinator.actions import Action
from tfapp.coordinator.events import ContainerInfo, Event
from tfapp.coordinator.node_logs import read_log
from tfapp.errors import RefusedError, UnreachableError
from tfapp.skein_calls.connection import Connection
from tfapp.skein_calls.containers import FINISHED_STATES, LIVE_STATES

_ALL_STATES = (*LIVE_STATES, *FINISHED_STATES)


class Deeds:
    """Does everything but the shutdown. Raises UnreachableError when the master has been
    silent for a whole call."""

    def __init__(self, connection: Connection, clock: Callable[[], float]):
        self._connection = connection
        self._clock = clock
        self._containers: set[str] = set()  # all that belong to an instance
        self._pages: dict[str, str] = {}  # route -> address

    def carry_out(self, wanted: Iterable[Action]) -> Iterator[Event]:
        """Carries `wanted` out in order, all orders in one call at the end, and yields what the
        master's answers mean."""
        orders: dict[str, Order] = {}
        for action in wanted:
            if isinstance(action, actions.RequestContainer):
                yield self._request(action)
            elif isinstance(action, actions.Announce):
                yield from self._announce(action)
            elif isinstance(action, actions.PublishCluster):
                self._connection.put(KEY_CLUSTER, encode(action.cluster))
                self._show_pages(action.cluster)
            elif isinstance(action, actions.PublishReleased):
                self._connection.put(KEY_RELEASED, encode(vars(action)))
            elif isinstance(action, actions.SendOrders):
                orders.update(action.orders)
            elif isinstance(action, actions.KillContainer):
                self._connection.kill_container(action.container)
            elif isinstance(action, actions.ReplyFlex):
                self._connection.put(FLEXED_PREFIX + action.id, encode(action.reply))
            elif isinstance(action, actions.ListContainers):
                yield events.Listed(self._clock(), self._list(log_of=action.log_of))
        self._connection.update(
            {ORDER_PREFIX + name: encode(order) for name, order in orders.items()}
        )

    def _request(self, action: actions.RequestContainer) -> Event:
        env = {ENV_INSTANCE: action.instance, ENV_GENERATION: str(action.generation)}
        try:
            container = self._connection.add_container(action.component, env)
        except RefusedError as error:
            return events.Refused(self._clock(), action.instance, error.message)
        except UnreachableError:
            container = self._arrived(action.component) or self._connection.add_container(
                action.component, env
            )
        self._containers.add(container)
        return events.Requested(self._clock(), action.instance, container)

    def _arrived(self, component: str) -> str | None:
        """The container that was requested although the answer got lost, if it was."""
        for container in self._connection.containers(_ALL_STATES):
            if container.service == component and container.id not in self._containers:
                return container.id
        return None

    def _announce(self, action: actions.Announce) -> Iterator[Event]:
        """One call, unless a container has ended already: the master refuses its key."""
        living: Mapping[str, str] = action.containers
        self._containers.update(living.values())
        while True:
            owners = {ALIVE_PREFIX + name: owner for name, owner in living.items()}
            values = {key: owner.encode() for key, owner in owners.items()}
            values[KEY_GENERATION] = encode({"generation": action.generation})
            try:
                return self._connection.update(values, owners)
            except RefusedError:
                found = self._list(FINISHED_STATES)
                ended = {name for name, container in living.items() if container in found}
                if not ended:
                    raise
            for name in sorted(ended):
                yield events.ContainerEnded(self._clock(), name, living[name])
            living = {name: owner for name, owner in living.items() if name not in ended}

    def _show_pages(self, cluster: Cluster) -> None:
        """The web addresses that instances export, as pages of the application's own. Nothing
        depends on them: what the master does not take is not shown there."""
        for member in cluster.members:
            route = page_route(member.instance)
            for address in exported_pages(member.exports)[:1]:
                if self._pages.get(route) == address:
                    continue
                with contextlib.suppress(RefusedError, UnreachableError):
                    if self._pages.pop(route, None):
                        self._connection.remove_page(route)
                    self._connection.add_page(route, address, member.instance)
                    self._pages[route] = address

    def _list(
        self, states: tuple[str, ...] = _ALL_STATES, log_of: str = ""
    ) -> dict[str, ContainerInfo]:
        return {
            container.id: ContainerInfo(
                container.state,
                container.host,
                container.message,
                read_log(container) if container.id == log_of else "",
            )
            for container in self._connection.containers(states)
        }
