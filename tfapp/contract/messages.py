"""Messages between the coordinator, the runners and clients, except for the status."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfapp.contract.encoding import Coded
from tfapp.contract.exit import Exit
from tfapp.contract.metrics import Measure
from tfapp.contract.status import Outputs
from tfapp.contract.usage import Usage
from tfapp.frozen import frozen

# ---- What the coordinator tells the runners ---------------------------------------------------


@frozen
class Member:
    instance: str
    component: str
    index: int
    role: str
    host: str
    exports: Mapping[str, Mapping[str, str]]
    container: str = ""  # a runner in another one is not this member


@frozen
class Cluster(Coded):
    """The cluster spec of one generation: all members, in job order and then by index. Components
    in `held` start only when they are named in KEY_RELEASED (commandOrders)."""

    generation: int
    members: tuple[Member, ...]
    held: tuple[str, ...] = ()


@frozen
class Order(Coded):
    """A command from the coordinator to one runner. `action`:

    - "stop": end the program (SIGTERM, `grace` seconds, SIGKILL), then report
    - "exit": the report was received; exit
    - "restart": the report was received; start the program again as attempt number `attempt`, with
      the same ports and cluster

    A runner that has reported waits for one of these, or for a new generation.
    """

    generation: int
    action: str
    grace: float = 0.0
    attempt: int = 0


# ---- What a runner tells the coordinator ------------------------------------------------------


@frozen
class Answer(Coded):
    """A runner's answer to a new generation: no program of an older generation runs here. With its
    exports."""

    generation: int
    instance: str
    host: str  # advertised
    container: str  # SKEIN_CONTAINER_ID
    exports: Mapping[str, Mapping[str, str]]  # group -> name -> value
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # site key -> held port
    pid: int = 0
    node: str = ""  # ENV_NODE
    # Name -> version of what its program runs with.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)


@frozen
class Beat(Coded):
    """The heartbeat of a runner. `state`: "waiting", "running", "hanging", "leaving" or "stopping".
    The first heartbeat in a new state is sent at once."""

    generation: int
    sequence: int
    state: str
    docker: str = ""  # id of the Docker container that the program runs in
    container: str = ""  # SKEIN_CONTAINER_ID
    host: str = ""  # advertised
    preparing: str = ""  # what its answer waits for: "pulling image mine:1: 1 of 2 layers, ..."
    saves: bool = False  # whether its program saves before a planned stop, if it is asked
    # What its program has reported last; `metrics.cut` bounds it.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None
    epoch: int | None = None  # counted from 1; known where no step is
    total: int | None = None  # the step at which the training ends, as the program says
    usage: Usage | None = None  # of its machine, by its program
    # The whole course of up to 8 metrics, by name, from the first instance of a component.
    points: Mapping[str, tuple[tuple[float, int | None, Measure], ...]] = dataclasses.field(
        default_factory=dict
    )


@frozen
class ExitReport(Coded):
    """A runner's report that all processes of its program have ended."""

    generation: int
    instance: str
    container: str
    host: str
    exit: Exit
    stopped: bool  # it ended because it was ordered to
    last_lines: str  # redacted, at most MAX_LAST_LINES
    seconds: float  # how long the program ran
    attempt: int = 0  # how often it was restarted before, in this generation and container
    # Whether a new checkpoint or its TFAPP_PROGRESS_FILE shows that it got on. False only where
    # that is certain.
    progressed: bool = True
    outputs: Outputs | None = None
    # As in `Beat`, up to the program's end.
    metrics: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    step: int | None = None
    steps_per_second: float | None = None
    epoch: int | None = None
    total: int | None = None
    usage: Usage | None = None
    points: Mapping[str, tuple[tuple[float, int | None, Measure], ...]] = dataclasses.field(
        default_factory=dict
    )


# ---- A client's request for another number of instances, and the coordinator's reply ----------


@frozen
class FlexRequest(Coded):
    """A request to change a number of instances. `count`: "3" for 3 instances, "+1" or "-1" for a
    change."""

    id: str
    component: str
    count: str


@frozen
class FlexReply(Coded):
    """Whether the coordinator accepts a request, with a sentence for the user."""

    accepted: bool
    text: str
