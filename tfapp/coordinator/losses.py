"""Why a container ended without a report, from what its master says of it.

The exit status does not reach a Skein client; its message does. Those of YARN's own statuses are
YARN's, that of a memory limit is Skein's.
"""

from __future__ import annotations

from tfapp.contract import Exit

UNREPORTED = "its container ended without a report"

# Part of a message -> the reason that it stands for.
_REASONS = {
    "preempted by scheduler": "preempted",
    "lost* node": "node-lost",
    "lost node": "node-lost",
    "memory used": "memory",
}


def explained(message: str) -> Exit:
    """The loss of a container of which the master says `message`."""
    lower = message.lower()
    reason = next((_REASONS[part] for part in _REASONS if part in lower), "lost")
    return Exit(None, None, reason, f"{UNREPORTED}: {message}")
