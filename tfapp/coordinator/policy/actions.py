"""The actions of the policy. The loop carries them out in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from tfapp.contract.messages import Cluster, FlexReply, Order
from tfapp.contract.status import Verdict
from tfapp.frozen import frozen


@frozen
class RequestContainer:
    """Answered by the event Requested or Refused."""

    instance: str
    component: str
    generation: int


@frozen
class Announce:
    """Publish the generation, and one key owned by each container (instance -> container),
    whose deletion says that the container ended."""

    generation: int
    containers: Mapping[str, str]


@frozen
class PublishCluster:
    """All instances have answered: here are their exports."""

    cluster: Cluster


@frozen
class PublishReleased:
    """These held components may start their programs now."""

    generation: int
    components: tuple[str, ...]


@frozen
class SendOrders:
    """One order for each instance named."""

    orders: Mapping[str, Order]


@frozen
class KillContainer:
    """End a container whose runner can no longer be talked to."""

    container: str


@frozen
class ReplyFlex:
    """Answer a request for another number of instances."""

    id: str
    reply: FlexReply


@frozen
class ListContainers:
    """Answered by the event Listed. `log_of`: the container whose log may say why it ended."""

    log_of: str = ""


@frozen
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
