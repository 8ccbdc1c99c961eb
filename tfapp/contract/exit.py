"""The end of a program, and the reasons for it."""

from __future__ import annotations

import re

from tfapp.contract.encoding import Coded
from tfapp.frozen import frozen

# The reasons for the end of a program or its container (`Exit.reason`) that a rule can name.
PROGRAM_REASONS = ("exit", "signal", "memory", "hang", "script", "start", "timeout")
REQUEUED = "requeued"  # by the queue that had admitted it: it is nobody's failure
LOSS_REASONS = ("lost", "silent", "preempted", "node-lost", REQUEUED)  # of the container
# Losses that no program can bring about. They have a budget of their own, but for REQUEUED.
INFRASTRUCTURE_REASONS = ("silent", "preempted", "node-lost", REQUEUED)
# Losses for which the machine may be to blame.
MACHINE_REASONS = ("lost", "silent", "node-lost")
REASONS = (*PROGRAM_REASONS, *LOSS_REASONS)
SHELL_SIGNAL = 128  # a shell exits with 128 + n when its program was killed by signal n


@frozen
class Exit(Coded):
    """The end of a program. `code`: the exit code, or None. `signal`: the number of the signal, or
    None. `reason`: one of

    - "exit": the program exited
    - "signal": it was killed by a signal
    - "memory": it exceeded its memory limit
    - "hang": it made no progress
    - "script": the package's script failed
    - "start": it could not be started
    - "timeout": the script did not start it in time
    - "lost": its container is gone
    - "silent": its runner does not answer
    - "preempted", "node-lost": the cluster took the container away
    - "requeued": its queue took it away, and lets it wait again
    - "deadline": a deadline of the application is over
    - "stopped": the application stopped it
    """

    code: int | None
    signal: int | None
    reason: str
    text: str  # one sentence for a person: "exit code 3", "killed by SIGKILL (9)"
    # The path of a file, or of a module without its suffix, that the program says it has not found:
    # in TFAPP_MISSED_FILE, which tfapp's part of a function or a module writes. "" for none.
    missed: str = ""


# ---- The end of a container, as its master's message tells it ---------------------------------

_TOLD = re.compile(r" \[reason: ([a-z-]+)\]\Z")


def container_message(text: str, reason: str) -> str:
    """Encodes the exit message of a container and its reason as one text, because Skein's protocol
    has no field for a reason. `reason` is a member of REASONS, or "" if unknown."""
    return f"{text} [reason: {reason}]" if reason else text


def read_container_message(message: str) -> tuple[str, str]:
    """Decodes `container_message` into text and reason. The reason is "" if there is none or it is
    unknown."""
    told = _TOLD.search(message)
    if told is None or told[1] not in REASONS:
        return message, ""
    return message[: told.start()], told[1]
