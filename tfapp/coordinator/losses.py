"""Why a container ended without a report, from what its master says of it.

The exit status does not reach a Skein client; its message does. Those of YARN's own statuses are
YARN's, that of a memory limit is Skein's.
"""

from __future__ import annotations

from tfapp.contract.exit import Exit
from tfapp.contract.log_lines import CANNOT_START
from tfapp.coordinator.events import ContainerInfo
from tfapp.coordinator.verdicts import duration

UNREPORTED = "its container ended without a report"

MEMORY = "memory"
_LOST, _SILENT = "lost", "silent"
UNEXPLAINED = (_LOST, _SILENT)  # reasons that stand until a master says more

# Part of a message -> the reason that it stands for.
_REASONS = {
    "preempted by scheduler": "preempted",
    "lost* node": "node-lost",
    "lost node": "node-lost",
    "memory used": MEMORY,
    "exceeding memory limits": MEMORY,
}


def unreported() -> Exit:
    """The loss of a container that has ended without a report, until its master says why."""
    return Exit(None, None, _LOST, UNREPORTED)


def silence(seconds: float) -> Exit:
    """The loss of a runner that was not heard of for so long."""
    return Exit(None, None, _SILENT, f"nothing was heard of it for {duration(seconds)}")


def explained(message: str, log: str = "") -> Exit:
    """The end of a container of which the master says `message`; `log` is the end of its log."""
    for line in log.splitlines():
        if line.startswith(CANNOT_START):
            return Exit(None, None, "start", line[len(CANNOT_START) :])
    lower = message.lower()
    reason = next((_REASONS[part] for part in _REASONS if part in lower), _LOST)
    if reason == MEMORY:
        return Exit(None, None, MEMORY, f"killed for its memory ({message})")
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")
    return Exit(None, None, reason, f"{UNREPORTED}: {last or message}")


def completed(exit: Exit, info: ContainerInfo) -> Exit:
    """`exit` with what the master says of its container."""
    if exit.text == UNREPORTED:
        return explained(info.message, info.log)
    found = explained(info.message)
    if exit.reason != _SILENT or found.reason in UNEXPLAINED:
        return exit
    return Exit(None, None, found.reason, f"{exit.text}: {info.message}")
