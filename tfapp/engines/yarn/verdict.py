"""The verdict on an application that has ended, from YARN's report. Pure."""

from __future__ import annotations

import dataclasses
import re

from tfapp.contract.names import CANNOT_START_CODE, FAILED, KILLED
from tfapp.contract.status import ApplicationStatus, conclude, parse_diagnostics
from tfapp.contract.status import Verdict as _Verdict
from tfapp.engines.yarn.attempts import MEMORY_USED, OF_MEMORY
from tfapp.engines.yarn.cluster import FORGOTTEN, YarnReport, first_line
from tfapp.errors import ExitCode

# YARN puts a time stamp before some of its sentences.
_STAMP = re.compile(r"\A\[[^\]]*\]\s*")


# The words of a NodeManager that unpacks an archive, and of one that cannot fetch files.
_UNPACKING = re.compile(r"/([^/']+)' && tar -x")
_UNFETCHED = "exitCode: -1000"
# How YARN numbers the ends of a container that have no exit code of a program
# (org.apache.hadoop.yarn.api.records.ContainerExitStatus).
_CODES = {
    r"exitCode: -100\b": "Its master was lost with its node (exit code -100). ",
    r"exitCode: -101\b": "The disks of its master's node have failed (exit code -101). ",
    r"exitCode: -102\b": "Its master was preempted for another queue (exit code -102). ",
    OF_MEMORY.pattern: f"Its master was killed: {MEMORY_USED}. ",
    r"exitCode: 137\b": "Its master was killed by SIGKILL (exit code 137). ",
}
_MASTERS = re.compile(r"\bfailed (\d+) times due to\b")
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+(?:Exception|Error): )?(.+)$", re.MULTILINE)


UNKNOWN = "its log says why"


def is_unstarted(report: YarnReport) -> bool:
    """Whether its coordinator has not started, so that its log has the reason."""
    return f"exit code {CANNOT_START_CODE}," in first_line(report.diagnostics)


def ended(
    report: YarnReport,
    last_known: ApplicationStatus,
    cause: str = UNKNOWN,
    asked: str = "",
) -> ApplicationStatus:
    """The verdict of the coordinator, or else one from YARN's report. `cause`: why the coordinator
    has not started; `asked`: why YARN was asked to kill it from here."""
    status = parse_diagnostics(report.diagnostics)
    if status is None and last_known.verdict is not None:
        status = last_known  # it came to a verdict, and was ended before it could say so
    if status is None:
        status = conclude(
            last_known, _verdict(report, cause, last_known, asked), report.finished, KILLED
        )
        if not (last_known.generation or _never_began(report)):  # nor was any status published
            status = dataclasses.replace(status, generation=None, restarts=None, losses=None)
    return status


def waiting(report: YarnReport) -> str:
    """YARN's reason why the application has no master container yet; "" for none."""
    if report.ended or report.address:
        return ""
    return re.split(r"\s*Details\s*:", _STAMP.sub("", first_line(report.diagnostics)))[0]


def _verdict(report: YarnReport, cause: str, last_known: ApplicationStatus, asked: str) -> _Verdict:
    cause = _unfetched(report.diagnostics) or cause
    if _never_began(report):
        summary = f"Failed: its coordinator could not be started: {cause.rstrip('.')}."
        return _Verdict(FAILED, int(ExitCode.FAILED), summary)
    if report.state == FORGOTTEN:
        summary = (
            f"It ended without a verdict: the ResourceManager does not know {report.id} any more, "
            "since it was restarted without recovery, or keeps no more of the ended applications. "
            f"How it ended was not seen from here. {_goes_on(report, last_known)}"
        )
        return _Verdict(FAILED, int(ExitCode.FAILED), summary)
    words = _STAMP.sub("", first_line(report.diagnostics)) or "it gave no reason"
    if report.final_status == KILLED and report.state != KILLED:
        return _Verdict(KILLED, int(ExitCode.KILLED), words)  # what its master was told
    if report.state == KILLED:
        return _Verdict(KILLED, int(ExitCode.KILLED), asked or f"Stopped through YARN: {words}")
    # Also where YARN says SUCCEEDED: only the coordinator may say that, and it leaves a verdict.
    code = next((told for code, told in _CODES.items() if re.search(code, words)), "")
    masters = _MASTERS.search(words)
    if masters and masters[1] != "1":
        code += (
            f"It had {masters[1]} masters, and gets no more: site.global.master.attempts, or "
            "YARN's own limit. "
        )
    summary = (
        f"It ended without a verdict: {words.rstrip('.')}. {code}"
        f"`tfapp logs {report.name} coordinator --engine yarn` may say why. "
        f"{_goes_on(report, last_known)}"
    )
    return _Verdict(FAILED, int(ExitCode.FAILED), summary)


def _goes_on(report: YarnReport, last_known: ApplicationStatus) -> str:
    folder = last_known.checkpoint_dir
    where = f"goes on from the checkpoints in {folder}" if folder else "runs it again"
    return f"`tfapp start {report.name} --engine yarn` {where}."


def _never_began(report: YarnReport) -> bool:
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
