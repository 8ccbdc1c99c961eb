"""What can happen to a runner, and what it can do about it: the policy's events and actions."""

from __future__ import annotations

import dataclasses
from typing import Union

from tfapp.contract.control import Cluster, Order
from tfapp.contract.exit import Exit
from tfapp.script import Program


# ---- events ----------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Prepared:
    """The script is loaded and has looked around; `refusal` says why it will not start."""

    refusal: Exit | None = None


@dataclasses.dataclass(frozen=True)
class GenerationSeen:
    number: int


@dataclasses.dataclass(frozen=True)
class ClusterFormed:
    cluster: Cluster


@dataclasses.dataclass(frozen=True)
class ComponentsReleased:
    generation: int
    components: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class OrderGiven:
    order: Order


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The package's script has said what to run."""

    program: Program


@dataclasses.dataclass(frozen=True)
class Failed:
    """No program runs, and this is why."""

    exit: Exit


@dataclasses.dataclass(frozen=True)
class Unwell:
    """The program runs, but the package's script has no hope for it."""

    exit: Exit


@dataclasses.dataclass(frozen=True)
class Ended:
    """The program is dead, with all that it has started. `killed`: by this runner."""

    exit: Exit
    killed: bool = False


@dataclasses.dataclass(frozen=True)
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
@dataclasses.dataclass(frozen=True)
class Answer:
    """Take ports, export, and say so."""

    generation: int


@dataclasses.dataclass(frozen=True)
class Choose:
    """Ask the package's script what to run."""

    cluster: Cluster


@dataclasses.dataclass(frozen=True)
class Launch:
    program: Program


@dataclasses.dataclass(frozen=True)
class Stop:
    """Let the script ask the program to end."""


@dataclasses.dataclass(frozen=True)
class Kill:
    """End the program and all that it has started, now."""


@dataclasses.dataclass(frozen=True)
class Report:
    generation: int
    exit: Exit
    stopped: bool
    attempt: int = 0


@dataclasses.dataclass(frozen=True)
class Restart:
    """Forget the program that has ended, and keep its ports for the next one."""


@dataclasses.dataclass(frozen=True)
class Leave:
    """Nothing is left to do here."""


Action = Union[Answer, Choose, Launch, Stop, Kill, Report, Restart, Leave]
