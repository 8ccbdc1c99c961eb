"""The end of a program, and its reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfapp.contract.encoding import known
from tfapp.frozen import frozen

# The reasons for the end of a program or its container (`Exit.reason`) that a rule can name.
PROGRAM_REASONS = ("exit", "signal", "memory", "hang", "script", "start", "timeout")
LOSS_REASONS = ("lost", "silent", "preempted", "node-lost")  # of the container
# Losses that have a budget of their own: no program can bring them about.
INFRASTRUCTURE_REASONS = ("silent", "preempted", "node-lost")
REASONS = (*PROGRAM_REASONS, *LOSS_REASONS)


@frozen
class Exit:
    """The end of a program. `code` is the exit code or None, `signal` its number or None. `reason`
    is one of "exit", "signal", "memory", "hang" (it showed no progress), "script" (the package's
    script failed), "start" (the program could not be started), "timeout" (the script did not start
    it in time), "lost" (its container is gone), "silent" (its runner is), "preempted", "node-lost",
    "deadline", "stopped"."""

    code: int | None
    signal: int | None
    reason: str
    text: str  # one sentence for a person: "exit code 3", "killed by SIGKILL (9)"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exit:
        return cls(**known(cls, data))


# ---- The end of a container, as its master's message tells it ---------------------------------

_TOLD = re.compile(r" \[reason: ([a-z-]+)\]\Z")


def container_message(text: str, reason: str) -> str:
    """A container's exit message in Skein's protocol, which has no other place for a reason.
    `reason` is a member of REASONS, or "" where the engine knows none."""
    return f"{text} [reason: {reason}]" if reason else text


def read_container_message(message: str) -> tuple[str, str]:
    """The text and the reason of a `container_message`; the reason is "" where none is told, and
    where it is not a member of REASONS."""
    told = _TOLD.search(message)
    if told is None or told[1] not in REASONS:
        return message, ""
    return message[: told.start()], told[1]
