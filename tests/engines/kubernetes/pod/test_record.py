from tfapp.contract.names import KILLED
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.kubernetes.pod import record
from tfapp.master.ending import Ending

ACCEPTED = ApplicationStatus(
    "train", "ACCEPTED", 0, 7.0, 7.0, (InstanceStatus("w/0", "w", "worker", "REQUESTED"),)
)
RUNNING = ApplicationStatus("train", "RUNNING", 1, 7.0, 9.0, ACCEPTED.instances)
FIRST = record.RunRecord("application_7000_0001", 1, ACCEPTED, 7.0, "default")


def test_a_run_is_read_as_it_was_written():
    state = record.RunState("tfapp-train-1-abcde", "10.1.2.3:55", "10.1.2.3:56", ("ab",))
    ending = Ending(KILLED, "enough", RUNNING)
    data = {"definition": "{}", record.run_key(1): record.text(FIRST)}
    assert record.read_run(data, 1) == record.RecordedRun(FIRST)
    assert record.read_run(data, 1).last_known == ACCEPTED
    data[record.state_key(1)] = record.text(state)
    data[record.status_key(1)] = record.text(RUNNING)
    assert record.read_run(data, 1) == record.RecordedRun(FIRST, state, RUNNING)
    assert record.read_run(data, 1).last_known == RUNNING
    data[record.ending_key(1)] = record.text(ending)
    assert record.read_run(data, 1).ending == ending


def test_runs_are_numbered():
    data = {"definition": "{}", "run-10": "", "run-9": "", "run-9.status": "", "run-10.ending": ""}
    assert record.run_numbers(data) == [9, 10]
