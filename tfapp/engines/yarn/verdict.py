"""The verdict on an application that has ended, from YARN's report. Pure."""

from __future__ import annotations

import dataclasses
import re

from tfapp.contract.names import CANNOT_START_CODE, FAILED, KILLED
from tfapp.contract.status import ApplicationStatus, conclude, parse_diagnostics
from tfapp.contract.status import Verdict as _Verdict
from tfapp.engines.yarn.cluster import Report, first_line
from tfapp.errors import ExitCode

# YARN puts a time stamp before some of its sentences.
_STAMP = re.compile(r"\A\[[^\]]*\]\s*")


# The words of a NodeManager that unpacks an archive, and of one that cannot fetch files.
_UNPACKING = re.compile(r"/([^/']+)' && tar -x")
_UNFETCHED = "exitCode: -1000"
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+(?:Exception|Error): )?(.+)$", re.MULTILINE)


def is_unstarted(report: Report) -> bool:
    """Whether its coordinator has not started, so that its log has the reason."""
    return f"exit code {CANNOT_START_CODE}," in first_line(report.diagnostics)


def ended(
    report: Report, last_known: ApplicationStatus, cause: str = "its log says why"
) -> ApplicationStatus:
    """The verdict of the coordinator, or else one from YARN's report. `cause`: why the coordinator
    has not started."""
    status = parse_diagnostics(report.diagnostics)
    if status is None and last_known.verdict is not None:
        status = last_known  # it came to a verdict, and was ended before it could say so
    if status is None:
        status = conclude(last_known, _verdict(report, cause), report.finished, KILLED)
        if not (last_known.generation or _never_began(report)):  # nor was any status published
            status = dataclasses.replace(status, generation=None, restarts=None, losses=None)
    return status


def waiting(report: Report) -> str:
    """YARN's reason why the application has no master container yet; "" for none."""
    if report.ended or report.address:
        return ""
    return re.split(r"\s*Details\s*:", _STAMP.sub("", first_line(report.diagnostics)))[0]


def _verdict(report: Report, cause: str) -> _Verdict:
    cause = _unfetched(report.diagnostics) or cause
    if _never_began(report):
        summary = f"Failed: its coordinator could not be started: {cause.rstrip('.')}."
        return _Verdict(FAILED, int(ExitCode.FAILED), summary)
    words = _STAMP.sub("", first_line(report.diagnostics)) or "it gave no reason"
    if report.final_status == KILLED and report.state != KILLED:
        return _Verdict(KILLED, int(ExitCode.KILLED), words)  # what its master was told
    if report.state == KILLED:
        return _Verdict(KILLED, int(ExitCode.KILLED), f"Stopped through YARN: {words}")
    # Also where YARN says SUCCEEDED: only the coordinator may say that, and it leaves a verdict.
    summary = (
        f"It ended without a verdict: {words.rstrip('.')}. "
        f"`tfapp logs {report.name} coordinator --engine yarn` may say why."
    )
    return _Verdict(FAILED, int(ExitCode.FAILED), summary)


def _never_began(report: Report) -> bool:
    return is_unstarted(report) or bool(_unfetched(report.diagnostics))


def _unfetched(diagnostics: str) -> str:
    """The reason why a node could not download the files of the master; "" if it could."""
    if _UNFETCHED not in first_line(diagnostics):
        return ""
    archive = _UNPACKING.search(diagnostics)
    if archive:
        return f"its node could not unpack {archive[1]}: it is no whole .tar.gz archive"
    causes = _CAUSE.findall(diagnostics)
    return f"its node could not fetch its files: {causes[-1].rstrip('.')}" if causes else ""
