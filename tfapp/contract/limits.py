"""The deadlines of an application."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Deadlines of the application, in seconds. 0 switches off `lifetime` and `heartbeat_lost`."""

    gang: float = 600.0  # all instances have exported, counted from the generation's beginning
    lifetime: float = 0.0  # of the application
    evaluator: float = 600.0  # an evaluator goes on so long after success
    stop_grace: float = 30.0  # between SIGTERM and SIGKILL
    heartbeat: float = 5.0  # a runner's heartbeat interval
    heartbeat_lost: float = 30.0  # silence after which a runner ends its own program
    settle: float = 0.5  # a program's failure waits so long for a loss that caused it
