"""What is said of a run that ended, when its coordinator said it, and when it could not. Pure."""

from __future__ import annotations

import dataclasses
import signal

from tfapp.contract.diagnostics import parse_diagnostics
from tfapp.contract.exit import Exit
from tfapp.contract.states import FAILED, FINAL_STATES, KILLED, LOST, SUCCEEDED
from tfapp.contract.status import ApplicationStatus
from tfapp.contract.verdict import Cause, Verdict
from tfapp.engines.local.state import Ending
from tfapp.engines.verdict import conclude
from tfapp.errors import ExitCode

_EXIT_CODES = {
    SUCCEEDED: ExitCode.SUCCESS,
    FAILED: ExitCode.FAILED,
    KILLED: ExitCode.KILLED,
}


@dataclasses.dataclass(frozen=True)
class Driver:
    """How the master script ended. `code`: its exit code, or minus the signal's number."""

    code: int
    last_lines: str

    @property
    def exit(self) -> Exit:
        if self.code < 0:
            return Exit(None, -self.code, "signal", f"killed by {signal_name(-self.code)}")
        return Exit(self.code, None, "exit", f"exit code {self.code}")


def signal_name(number: int) -> str:
    """ "SIGKILL (9)", "signal 99"."""
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


def ending(
    final_status: str,
    diagnostics: str,
    last_known: ApplicationStatus,
    now: float,
    driver: Driver | None = None,
) -> Ending:
    """The end of a run whose master saw it. `last_known`: the status published last. `driver`:
    given when the run ended because the master script did."""
    status = parse_diagnostics(diagnostics)
    if status is None and last_known.verdict is not None:
        status = last_known  # it came to a verdict, and ended before it could say so here
    if status is None:
        state = final_status if final_status in FINAL_STATES else FAILED
        verdict = Verdict(state, int(_EXIT_CODES[state]), diagnostics)
        if driver is not None and state != SUCCEEDED:
            verdict = _coordinator_lost(driver, last_known.generation)
        status = conclude(last_known, verdict, now, KILLED)
    return Ending(final_status, diagnostics, status)


def master_lost(last_known: ApplicationStatus, now: float, state: str = FAILED) -> Ending:
    """The end of a run whose master died without a word. `state` KILLED: somebody killed it."""
    summary = (
        "The application master was lost: its process has ended without a verdict. "
        "All processes of the application have been ended."
    )
    if state == KILLED:
        summary = "The application master did not answer and was killed with the application."
    exit = Exit(None, None, "lost", "the application master was lost")
    cause = Cause("", last_known.generation, "", "", exit)
    verdict = Verdict(state, int(_EXIT_CODES[state]), summary, cause)
    return Ending(state, summary, conclude(last_known, verdict, now, LOST))


def _coordinator_lost(driver: Driver, generation: int | None) -> Verdict:
    summary = f"The coordinator was lost: it ended with {driver.exit.text} and gave no verdict."
    if driver.code < 0:
        summary = f"The coordinator was lost: {driver.exit.text}, before it gave a verdict."
    cause = Cause("", generation, "", "", driver.exit, driver.last_lines)
    return Verdict(FAILED, int(ExitCode.FAILED), summary, cause)
