"""Carries out the policy's actions, by calls to the application's master."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from tfapp.contract.encoding import encode
from tfapp.contract.messages import Cluster, Order
from tfapp.contract.names import (
    ALIVE_PREFIX,
    ENV_AVOID,
    ENV_GENERATION,
    ENV_INSTANCE,
    FLEXED_PREFIX,
    KEY_CLUSTER,
    KEY_GENERATION,
    KEY_RELEASED,
    KEY_SAVE,
    KEY_SAVED,
    KEY_SESSION,
    KEY_STACKS,
    ORDER_PREFIX,
    exported_pages,
    page_route,
)
from tfapp.coordinator.nodes import LOG_LIMIT, Ends, NodeLogs, Nodes
from tfapp.coordinator.policy import actions, events
from tfapp.coordinator.policy.actions import Action
from tfapp.coordinator.policy.events import ContainerInfo, Event
from tfapp.coordinator.policy.state import Stage, State
from tfapp.errors import RefusedError, UnreachableError
from tfapp.frozen import replace
from tfapp.protocol.connection import FINISHED_STATES, LIVE_STATES, Connection, ContainerReport

LATE = 1.0  # seconds that a log which was read may take to reach the loop
# What is asked of runners, by the key.
_REQUESTS: Mapping[type[Action], str] = {
    actions.PublishStacks: KEY_STACKS,
    actions.PublishSave: KEY_SAVE,
    actions.PublishSession: KEY_SESSION,
}
_ALL_STATES = (*LIVE_STATES, *FINISHED_STATES)


class Executor:
    """Carries out every action but the shutdown. Raises UnreachableError if the master does not
    answer within the deadline of a call. `nodes` reads logs in other threads; their last lines go
    to `deliver`. `attempt`: of the master, from 1."""

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float],
        deliver: Callable[[Ends], None],
        nodes: Nodes | None = None,
        attempt: int = 1,
    ):
        self._connection = connection
        self._clock = clock
        self._nodes = nodes
        self._attempt = attempt
        self._node_logs = NodeLogs(deliver, nodes)
        self._listed: tuple[ContainerReport, ...] = ()  # the master's last list
        self._ends: dict[str, str] = {}  # container -> last lines of its log, if they were read
        self._reading: dict[str, float] = {}  # container -> deadline for reading its log
        self.containers: set[str] = set()  # ids of all containers that belong to an instance
        self.pages: dict[str, str] = {}  # route -> address

    def take_over(self, containers: Iterable[str], pages: Mapping[str, str]) -> None:
        """Goes on for a coordinator that has known these when it was lost."""
        self.containers, self.pages = set(containers), dict(pages)

    def carry_out(self, wanted: Iterable[Action], again: bool = False) -> Iterator[Event]:
        """Carries out `wanted` in order, except that all orders are sent together in one call, and
        the containers are listed once, at the end. Yields the events that result. `again`: a
        coordinator that was lost may have done some of it: a container that has arrived for it is
        not requested a second time."""
        orders: dict[str, Order] = {}
        wanted = tuple(wanted)
        listings = [action for action in wanted if isinstance(action, actions.ListContainers)]
        for action in wanted:
            if isinstance(action, actions.RequestContainer):
                yield self._request(action, again)
            elif isinstance(action, actions.Announce):
                yield from self._announce(action)
            elif isinstance(action, actions.PublishCluster):
                self._connection.put(KEY_CLUSTER, encode(action.cluster))
                self._show_pages(action.cluster)
            elif isinstance(action, actions.PublishReleased):
                self._connection.put(KEY_RELEASED, encode(vars(action)))
            elif isinstance(
                action, (actions.PublishStacks, actions.PublishSave, actions.PublishSession)
            ):
                self._connection.put(_REQUESTS[type(action)], encode(action.request))
            elif isinstance(action, actions.LetSuspend):
                self._connection.put(KEY_SAVED, b"")
            elif isinstance(action, actions.SendOrders):
                orders.update(action.orders)
            elif isinstance(action, actions.KillContainer):
                self._connection.kill_container(action.container)
            elif isinstance(action, actions.ReplyFlex):
                self._connection.put(FLEXED_PREFIX + action.id, encode(action.reply))
        self._connection.update(
            {ORDER_PREFIX + name: encode(order) for name, order in orders.items()}
        )
        if listings:
            yield self._list({listing.log_of for listing in listings})

    def read(self, ends: Ends) -> Event:
        """The event with the logs `ends`, which other threads have read."""
        for container in ends.of:
            self._reading.pop(container, None)
        self._ends.update(ends.of)
        return self._told()

    def _request(self, action: actions.RequestContainer, again: bool) -> Event:
        env = {ENV_INSTANCE: action.instance, ENV_GENERATION: str(action.generation)}
        if action.avoid:
            env[ENV_AVOID] = ",".join(action.avoid)
        until = self._clock() + self._connection.deadline
        container = self._arrived(action.component) if again else None
        while container is None:
            try:
                container = self._connection.add_container(action.component, env)
            except RefusedError as error:
                return events.Refused(self._clock(), action.instance, error.message)
            except UnreachableError:
                # The request may have arrived: the master knows, if it can be reached again.
                container = self._arrived(action.component)
                if container is None and self._clock() >= until:
                    raise
        self.containers.add(container)
        return events.Requested(self._clock(), action.instance, container)

    def ended(self, state: State) -> Iterator[events.ContainerEnded]:
        """The ends of containers that `state` takes for alive, as the master knows them."""
        over = {container.id for container in self._connection.containers(FINISHED_STATES)}
        living = [
            (i.container, i.id) for i in state.instances.values() if i.stage is not Stage.GONE
        ]
        leaving = [(container, one.instance) for container, one in state.leaving.items()]
        for container, instance in (*living, *leaving):
            if container in over:
                yield events.ContainerEnded(self._clock(), instance, container)

    def _arrived(self, component: str) -> str | None:
        """The id of the requested container, if the master has created it although its answer was
        lost; otherwise None."""
        for container in self._connection.containers(_ALL_STATES):
            if container.service == component and container.id not in self.containers:
                return container.id
        return None

    def _announce(self, action: actions.Announce) -> Iterator[Event]:
        """Announces the generation in one call. If a container has ended already, the master
        refuses its key, and the call is repeated without it."""
        living: Mapping[str, str] = action.containers
        self.containers.update(living.values())
        while True:
            owners = {ALIVE_PREFIX + name: owner for name, owner in living.items()}
            values = {key: owner.encode() for key, owner in owners.items()}
            values[KEY_GENERATION] = encode(
                {"generation": action.generation, "attempt": self._attempt}
            )
            try:
                return self._connection.update(values, owners)
            except RefusedError:
                found = {c.id for c in self._connection.containers(FINISHED_STATES)}
                ended = {name for name, container in living.items() if container in found}
                if not ended:
                    raise
            for name in sorted(ended):
                yield events.ContainerEnded(self._clock(), name, living[name])
            living = {name: owner for name, owner in living.items() if name not in ended}

    def _show_pages(self, cluster: Cluster) -> None:
        """Adds the web addresses that instances export to the master's pages. An address that the
        master does not take is left out; nothing depends on it."""
        for member in cluster.members:
            route = page_route(member.instance)
            for address in exported_pages(member.exports)[:1]:
                if self.pages.get(route) == address:
                    continue
                with contextlib.suppress(RefusedError, UnreachableError):
                    if self.pages.pop(route, None):
                        self._connection.remove_page(route)
                    self._connection.add_page(route, address, member.instance)
                    self.pages[route] = address

    def _list(self, log_of: set[str]) -> Event:
        """Asks the master for all containers, and begins to read the logs of those in `log_of`."""
        found = self._connection.containers(_ALL_STATES)
        self._listed = tuple(self._with_reason(container) for container in found)
        ended = [c for c in self._listed if c.id in log_of and self._node_logs.can_tell(c)]
        if ended:
            by = self._clock() + LOG_LIMIT + LATE
            self._reading.update(dict.fromkeys((c.id for c in ended), by))
            self._node_logs.ask(ended)
        return self._told()

    def _with_reason(self, container: ContainerReport) -> ContainerReport:
        """`container`, with the reason that its message means if the master gave none."""
        if self._nodes is None or container.reason:
            return container
        reason = self._nodes.reason_of(container.message)
        return replace(container, reason=reason)

    def _told(self) -> Event:
        """The event with the present state of all containers."""
        return events.Listed(
            self._clock(),
            {
                container.id: ContainerInfo(
                    container.state,
                    container.host,
                    container.message,
                    self._ends.get(container.id, ""),
                    container.reason,
                    self._reading.get(container.id, -math.inf),
                )
                for container in self._listed
            },
        )
