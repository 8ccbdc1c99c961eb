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
    """The script is loaded and has looked around; `refusal` says why it will not start."""

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
    """The package's script has said what to run."""

    program: Program


@frozen
class Failed:
    """No program runs, and this is why."""

    exit: Exit


@frozen
class Unwell:
    """The program runs, but it hangs, or the package's script has no hope for it."""

    attempt: Attempt
    exit: Exit


@frozen
class Ended:
    """The program is dead, with all that it has started. `killed`: by this runner."""

    exit: Exit
    killed: bool = False


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
    Ended,
    Tick,
]


# ---- actions ---------------------------------------------------------------------------------
@frozen
class Register:
    """Take ports, export, and say so."""

    generation: int


@frozen
class Choose:
    """Ask the package's script what to run."""

    cluster: Cluster


@frozen
class Launch:
    program: Program


@frozen
class Stop:
    """Let the script ask the program to end."""


@frozen
class Kill:
    """End the program and all that it has started, now."""


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
    """Nothing is left to do here."""


Action = Union[Register, Choose, Launch, Stop, Kill, Report, Restart, Leave]
