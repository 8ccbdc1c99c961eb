"""What a master says of a container that ended without a report. Word for word what YARN 3.4 and
Skein 0.8.2 say: tests/yarn/test_faults.py has them say it."""

from __future__ import annotations

import pytest

from tfapp.contract.exit import Exit
from tfapp.coordinator import losses
from tfapp.coordinator.events import ContainerInfo

PREEMPTED = "Container preempted by scheduler"
NODE_LOST = "Container released on a *lost* node"
FAILED = "Container failed during execution, see logs for more information."
MEASURED = "1.0 GB of 256 MB physical memory used"
MEMORY = "Container killed by YARN for exceeding memory limits"


@pytest.mark.parametrize(
    ("message", "reason", "text"),
    [
        (PREEMPTED, "preempted", f"{losses.UNREPORTED}: {PREEMPTED}"),
        (NODE_LOST, "node-lost", f"{losses.UNREPORTED}: {NODE_LOST}"),
        (FAILED, "lost", f"{losses.UNREPORTED}: {FAILED}"),
        (MEASURED, "memory", f"killed for its memory ({MEASURED})"),
        (MEMORY, "memory", f"killed for its memory ({MEMORY})"),
    ],
)
def test_the_reason_that_a_message_stands_for(message, reason, text):
    assert losses.explained(message) == Exit(None, None, reason, text)


@pytest.mark.parametrize(
    ("message", "reason", "more"),
    [
        (NODE_LOST, "node-lost", f": {NODE_LOST}"),
        (PREEMPTED, "preempted", f": {PREEMPTED}"),
        # What the end of the silent container looks like tells nothing.
        (FAILED, "silent", ""),
        ("", "silent", ""),
    ],
)
def test_what_the_master_knows_of_a_silence(message, reason, more):
    silence = losses.silence(40)
    told = losses.completed(silence, ContainerInfo("FAILED", message=message))
    assert told == Exit(None, None, reason, f"nothing was heard of it for 40 s{more}")


def test_what_is_explained_already_stays():
    failed = Exit(3, None, "exit", "exit code 3")
    assert losses.completed(failed, ContainerInfo("FAILED", message=NODE_LOST)) == failed
