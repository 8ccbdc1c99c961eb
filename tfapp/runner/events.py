"""The events and actions of a runner's policy."""

from __future__ import annotations

from typing import NamedTuple, Union

from tfapp.contract.exit import Exit
from tfapp.contract.messages import Cluster, Order
from tfapp.frozen import frozen
from tfapp.script import Program


class Attempt(NamedTuple):
    """One start of the program: its generation, and the number of restarts in that before it.
    Results that may come back late carry the attempt that they are about."""

    generation: int
    number: int = 0


# ---- events ----------------------------------------------------------------------------------
@frozen
class Prepared:
    """The script is loaded, and its `prepare` has ended. `refusal`: why the program will not start,
    None if it will."""

    refusal: Exit | None = None


@frozen
class GenerationSeen:
    number: int


@frozen
class ClusterFormed:
    cluster: Cluster


@frozen
class ComponentsReleased:
    generation: int
    components: tuple[str, ...]


@frozen
class OrderGiven:
    order: Order


@frozen
class Chosen:
    """The package's script has returned the program to run."""

    program: Program


@frozen
class Failed:
    """No program runs, for this reason."""

    exit: Exit


@frozen
class Unwell:
    """The program runs, but it makes no progress, or the script's `status` says that it has
    failed."""

    attempt: Attempt
    exit: Exit


@frozen
class Hangs:
    """The program makes no progress."""

    attempt: Attempt
    exit: Exit


@frozen
class StacksOver:
    """The coordinator waits for stacks no longer."""


@frozen
class Ended:
    """The program and all processes that it started have ended. `killed`: this runner killed it.
    `remains`: see Running.remains."""

    exit: Exit
    killed: bool = False
    remains: str = ""


@frozen
class Terminated:
    """The container was asked to end, by a signal to its runner. `grace`: the seconds that its
    program has. `saves`: those before it in which it may save, if it takes part in that."""

    grace: float = 0.0
    saves: float = 0.0


@frozen
class SaveAsked:
    """The coordinator asks programs to save. `over`: it waits for that no longer."""

    over: bool = False


@frozen
class Reached:
    """The master was away, and it, or another one, is there again."""


@frozen
class Tick:
    """Time has passed."""


Event = Union[
    Prepared,
    GenerationSeen,
    ClusterFormed,
    ComponentsReleased,
    OrderGiven,
    Chosen,
    Failed,
    Unwell,
    Hangs,
    StacksOver,
    Ended,
    Terminated,
    SaveAsked,
    Reached,
    Tick,
]


# ---- actions ---------------------------------------------------------------------------------
@frozen
class Register:
    """Take ports, make the exports, and send them to the coordinator."""

    generation: int


@frozen
class Choose:
    """Ask the package's script for the program to run."""

    cluster: Cluster


@frozen
class Launch:
    program: Program


@frozen
class Stop:
    """Let the script ask the program to end."""


@frozen
class Kill:
    """End the program and all processes that it started, at once."""


@frozen
class Report:
    generation: int
    exit: Exit
    stopped: bool
    attempt: int = 0


@frozen
class Restart:
    """Forget the program that has ended, and keep its ports for the next one."""


@frozen
class Leave:
    """End this runner: nothing is left to do."""


Action = Union[Register, Choose, Launch, Stop, Kill, Report, Restart, Leave]
