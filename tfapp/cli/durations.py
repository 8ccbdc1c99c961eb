"""When an application ended, and how long it has run."""

from __future__ import annotations

import time

from tfapp.cli.console import how_long
from tfapp.contract.names import FINAL_STATES
from tfapp.engines.base import DAMAGED, Application


def ended(application: Application) -> float | None:
    """The time of its end in seconds since 1970. None while it runs, and when the time is not
    known."""
    status = application.status
    return status.updated if not application.live and status.state in FINAL_STATES else None


def duration(application: Application) -> str:
    """How long its run took, or has taken up to now; "-" where that is not known."""
    begin, end = application.status.started, ended(application) or time.time()
    return how_long(end - begin) if begin and application.status.state != DAMAGED else "-"
