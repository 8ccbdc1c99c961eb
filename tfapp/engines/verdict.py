"""The verdict on a run whose master has died without one, for all engines with tfapp's own master.
Pure."""

from __future__ import annotations

from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, KILLED, LOST
from tfapp.contract.status import ApplicationStatus, Cause, Verdict, conclude
from tfapp.errors import ExitCode
from tfapp.master.ending import Ending


def master_lost(last_known: ApplicationStatus, now: float, state: str = FAILED) -> Ending:
    """The ending of a run whose master has died. `state` KILLED: it was killed deliberately."""
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
