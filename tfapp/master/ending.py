"""The verdict on a run that ended: its coordinator's, or one for a coordinator that died. Pure."""

from __future__ import annotations

import dataclasses
import signal

from tfapp.contract.encoding import Coded
from tfapp.contract.exit import Exit
from tfapp.contract.names import FAILED, FINAL_STATES, KILLED, REQUESTED, SUCCEEDED, SUSPENDED
from tfapp.contract.status import (
    SUSPENDS,
    ApplicationStatus,
    Cause,
    InstanceStatus,
    Moment,
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
class Ending(Coded):
    """The end of a run: Skein's final status and diagnostics, and the verdict made of them. With
    the final status SUSPENDED it is the end of this master alone, and there is no verdict."""

    final_status: str
    diagnostics: str
    status: ApplicationStatus


def signal_name(number: int) -> str:
    """ "SIGKILL (9)", "signal 99"."""
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


def no_more(masters: int) -> str:
    """What the verdict on a run says whose last of `masters` was lost; "" if there was one."""
    if masters < 2:
        return ""
    return f" It had {masters} masters, and gets no more: site.global.master.attempts."


def ending(
    final_status: str,
    diagnostics: str,
    last_known: ApplicationStatus,
    now: float,
    driver: Exit | None = None,
    last_lines: str = "",
) -> Ending:
    """The end of a run whose master saw it. `last_known`: the status published last. `driver`: the
    end of the master script, when the run ended because of it. `last_lines`: of its log."""
    status = parse_diagnostics(diagnostics)
    if status is None and last_known.verdict is not None:
        status = last_known  # it came to a verdict, and ended before it could say so here
    if status is None and final_status == SUSPENDED:
        status = _suspended(last_known, diagnostics, now)
    if status is None:
        state = final_status if final_status in FINAL_STATES else FAILED
        verdict = Verdict(state, int(_EXIT_CODES[state]), diagnostics)
        if driver is not None and state != SUCCEEDED:
            verdict = _coordinator_lost(driver, last_lines, last_known.generation)
        status = conclude(last_known, verdict, now, KILLED)
    return Ending(final_status, diagnostics, status)


def _suspended(last_known: ApplicationStatus, why: str, now: float) -> ApplicationStatus:
    """What the next master goes on from. All instances start again then."""
    instances = (
        InstanceStatus(
            *(i.instance, i.component, i.role, REQUESTED), metrics=i.metrics, step=i.step
        )
        for i in last_known.instances
    )
    return dataclasses.replace(
        last_known,
        state=SUSPENDED,
        updated=now,
        instances=tuple(instances),
        timeline=(*last_known.timeline, Moment(now, why, SUSPENDS, "", last_known.generation)),
    )


def _coordinator_lost(driver: Exit, last_lines: str, generation: int | None) -> Verdict:
    summary = f"The coordinator was lost: it ended with {driver.text} and gave no verdict."
    if driver.code is None:
        summary = f"The coordinator was lost: {driver.text}, before it gave a verdict."
    cause = Cause("", generation, "", "", driver, last_lines)
    return Verdict(FAILED, int(ExitCode.FAILED), summary, cause)
