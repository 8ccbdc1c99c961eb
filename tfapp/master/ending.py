"""The verdict on a run that ended: its coordinator's, or one for a coordinator that died. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, FINAL_STATES, KILLED, SUCCEEDED
from tfapp.contract.status import (
    ApplicationStatus,
    Cause,
    Verdict,
    conclude,
    parse_diagnostics,
)
from tfapp.errors import ExitCode
from tfapp.frozen import frozen

_EXIT_CODES = {
    SUCCEEDED: ExitCode.SUCCESS,
    FAILED: ExitCode.FAILED,
    KILLED: ExitCode.KILLED,
}


@frozen
class Ending:
    """The end of a run: Skein's final status and diagnostics, and the verdict made of them."""

    final_status: str
    diagnostics: str
    status: ApplicationStatus

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ending:
        status = ApplicationStatus.from_dict(data["status"])
        return cls(data["final_status"], data["diagnostics"], status)


@frozen
class Driver:
    """The end of the master script. `code`: its exit code, or minus the signal's number; None where
    it is unknown: then `message` and `reason` tell more."""

    code: int | None
    last_lines: str
    message: str = ""
    reason: str = ""

    @property
    def exit(self) -> Exit:
        if self.code is None:
            return Exit(None, None, self.reason or "lost", self.message)
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


def _coordinator_lost(driver: Driver, generation: int | None) -> Verdict:
    summary = f"The coordinator was lost: it ended with {driver.exit.text} and gave no verdict."
    if driver.code is None or driver.code < 0:
        summary = f"The coordinator was lost: {driver.exit.text}, before it gave a verdict."
    cause = Cause("", generation, "", "", driver.exit, driver.last_lines)
    return Verdict(FAILED, int(ExitCode.FAILED), summary, cause)
