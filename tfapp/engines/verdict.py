"""What is said of a run that ended without its coordinator's word, on any engine. Pure."""

from __future__ import annotations

import dataclasses

from tfapp.contract.states import FINAL_STATES, LOST
from tfapp.contract.status import ApplicationStatus
from tfapp.contract.verdict import Verdict


def conclude(
    status: ApplicationStatus, verdict: Verdict, now: float, unfinished: str
) -> ApplicationStatus:
    """`status` with a verdict; instances without an end of their own become `unfinished`."""
    finals = (*FINAL_STATES, LOST)
    instances = tuple(
        i if i.state in finals else dataclasses.replace(i, state=unfinished)
        for i in status.instances
    )
    return dataclasses.replace(
        status, state=verdict.state, updated=now, instances=instances, verdict=verdict
    )
