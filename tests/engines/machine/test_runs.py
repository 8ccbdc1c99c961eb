import pytest

from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.machine.runs import master_lost

KNOWN = ApplicationStatus(
    "app",
    "RUNNING",
    2,
    1.0,
    2.0,
    tuple(
        InstanceStatus(f"w/{number}", "w", "worker", state)
        for number, state in enumerate(("RUNNING", "SUCCEEDED"))
    ),
)


@pytest.mark.parametrize(("state", "code"), [("FAILED", 65), ("KILLED", 66)])
def test_a_lost_master(state, code):
    found = master_lost(KNOWN, 50.0, state)
    verdict = found.status.verdict
    assert (found.final_status, found.status.state, verdict.exit_code) == (state, state, code)
    assert [i.state for i in found.status.instances] == ["LOST", "SUCCEEDED"]
    assert verdict.cause.exit.reason == "lost"
