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
    """Publish the exports of all instances: all of them have answered."""

    cluster: Cluster


@frozen
class PublishReleased:
    """Publish the held components that may start their programs now."""

    generation: int
    components: tuple[str, ...]


@frozen
class SendOrders:
    """Send one order to each instance named."""

    orders: Mapping[str, Order]


@frozen
class KillContainer:
    """End a container whose runner does not answer any more."""

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
