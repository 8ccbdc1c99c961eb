"""The verdict on a run whose master died without one, on any engine with tfapp's own. Pure."""

from __future__ import annotations

from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, KILLED, LOST
from tfapp.contract.status import ApplicationStatus, Cause, Verdict, conclude
from tfapp.errors import ExitCode
from tfapp.master.ending import Ending


def master_lost(last_known: ApplicationStatus, now: float, state: str = FAILED) -> Ending:
    """The end of a run whose master died without an ending. `state` KILLED: it was killed on
    purpose."""
    summary = (
        "The application master was lost: its process has ended without a verdict. "
        "All processes of the application have been ended."
    )
    if state == KILLED:
        summary = "The application master did not answer and was killed with the application."
    exit = Exit(None, None, "lost", "the application master was lost")
    cause = Cause("", last_known.generation, "", "", exit)
    verdict = Verdict(state, int(ExitCode[state]), summary, cause)
    return Ending(state, summary, conclude(last_known, verdict, now, LOST))
