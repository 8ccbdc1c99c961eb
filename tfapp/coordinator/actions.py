"""What the policy wants done. The loop carries actions out in their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Union

from tfapp.contract.control import Cluster, Order
from tfapp.contract.flex import FlexReply
from tfapp.contract.verdict import Verdict


@dataclasses.dataclass(frozen=True)
class RequestContainer:
    """Answered by the event Requested or Refused."""

    instance: str
    component: str
    generation: int


@dataclasses.dataclass(frozen=True)
class Announce:
    """Publish the generation, and one key owned by each container (instance -> container),
    whose deletion says that the container ended."""

    generation: int
    containers: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class PublishCluster:
    """Everybody answered: here are all exports."""

    cluster: Cluster


@dataclasses.dataclass(frozen=True)
class PublishReleased:
    """These held components may start their programs now."""

    generation: int
    components: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SendOrders:
    """One order for each instance named."""

    orders: Mapping[str, Order]


@dataclasses.dataclass(frozen=True)
class KillContainer:
    """End a container whose runner can no longer be talked to."""

    container: str


@dataclasses.dataclass(frozen=True)
class ReplyFlex:
    """Tell who asked for another number of instances what comes of it."""

    id: str
    reply: FlexReply


@dataclasses.dataclass(frozen=True)
class ListContainers:
    """Answered by the event Listed. `log_of`: the container whose log may say why it ended."""

    log_of: str = ""


@dataclasses.dataclass(frozen=True)
class Shutdown:
    """The last action: the application is over."""

    verdict: Verdict


Action = Union[
    RequestContainer,
    Announce,
    PublishCluster,
    PublishReleased,
    SendOrders,
    KillContainer,
    ReplyFlex,
    ListContainers,
    Shutdown,
]
