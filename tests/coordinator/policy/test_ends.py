"""The master's report of a container that ended without one of its runner."""

import pytest

from tfapp.contract.exit import Exit
from tfapp.coordinator.policy import ends
from tfapp.coordinator.policy.events import ContainerInfo

PREEMPTED = "Container preempted by scheduler"
NODE_LOST = "Container released on a *lost* node"
FAILED = "Container failed during execution, see logs for more information."
MEASURED = "1.0 GB of 256 MB physical memory used"


@pytest.mark.parametrize(
    ("message", "reason", "text"),
    [
        (PREEMPTED, "preempted", f"{ends.UNREPORTED}: {PREEMPTED}"),
        (NODE_LOST, "node-lost", f"{ends.UNREPORTED}: {NODE_LOST}"),
        (FAILED, "lost", f"{ends.UNREPORTED}: {FAILED}"),
        (MEASURED, "memory", f"killed for its memory ({MEASURED})"),
        ("python3 lacks grpcio", "start", "python3 lacks grpcio"),
    ],
)
def test_the_end_of_a_container(message, reason, text):
    info = ContainerInfo("FAILED", message=message, reason=reason if reason != "lost" else "")
    assert ends.explained(info) == Exit(None, None, reason, text)


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
    silence = ends.silence(40)
    info = ContainerInfo("FAILED", message=message, reason=reason if more else "")
    told = ends.completed(silence, info)
    assert told == Exit(None, None, reason, f"nothing was heard of it for 40 s{more}")


def test_what_is_explained_already_stays():
    failed = Exit(3, None, "exit", "exit code 3")
    info = ContainerInfo("FAILED", message=NODE_LOST, reason="node-lost")
    assert ends.completed(failed, info) == failed
