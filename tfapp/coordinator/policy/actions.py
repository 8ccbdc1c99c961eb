"""The actions of the policy. The loop carries them out in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from tfapp.contract.messages import Cluster, FlexReply, Order
from tfapp.contract.saving import SaveRequest
from tfapp.contract.sessions import SessionRequest
from tfapp.contract.stacks import StacksRequest
from tfapp.contract.status import Verdict
from tfapp.frozen import frozen


@frozen
class RequestContainer:
    """Ask the master for a container; answered by the event Requested or Refused. `avoid`: the
    machines on which it should not be, where there are others."""

    instance: str
    component: str
    generation: int
    avoid: tuple[str, ...] = ()


@frozen
class Announce:
    """Publish the generation, and one key for each container, which owns it (instance ->
    container): the key is deleted when the container ends."""

    generation: int
    containers: Mapping[str, str]


@frozen
class PublishCluster:
    """Publish the exports of all instances, after all of them have answered."""

    cluster: Cluster


@frozen
class PublishReleased:
    """Publish the held components that may start their programs now."""

    generation: int
    components: tuple[str, ...]


@frozen
class SendOrders:
    orders: Mapping[str, Order]


@frozen
class PublishStacks:
    """Ask the runners for stacks, or tell them that this is over."""

    request: StacksRequest


@frozen
class PublishSave:
    """Ask the runners to let their programs save before a planned stop."""

    request: SaveRequest


@frozen
class LetSuspend:
    """Tell the master that programs have saved, or are not waited for any more."""


@frozen
class PublishSession:
    """Ask a runner for a session."""

    request: SessionRequest


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
    """Ask the master for all containers; answered by the event Listed. `log_of`: the container
    whose log is read too, because it may say why the container ended."""

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
    PublishStacks,
    PublishSave,
    LetSuspend,
    PublishSession,
    KillContainer,
    ReplyFlex,
    ListContainers,
    Shutdown,
]
