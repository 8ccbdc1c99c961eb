"""Which returned value counts of an instance that had several containers, and the order of logs."""

import json
from pathlib import Path

from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.base import LogFile
from tfapp.engines.container_files import log_order, newest_returned


def test_the_newest_generation_counts_and_in_it_the_newest_container(tmp_path):
    def record(instance, **content):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(content))
        return LogFile(instance, path)

    records = [
        record("w/0", generation=1, value=1),
        older := record("w/1", generation=2, error="too large"),
        record("w/2", generation=1, value=1),
        record("w/3", generation=1, value=1),
        newer := record("w/0", generation=1, value=2),
        record("w/1", generation=1, value=1),
        record("w/2", generation=2),  # None
        large := record("w/3", generation=2, file={}),
        record("w/3"),
        damaged := record("w/4"),
        gone := LogFile("w/5", tmp_path / "gone"),
    ]
    assert newest_returned(records, status(None)) == (newer, older, large, damaged, gone)


def status(generation, *instances):
    return ApplicationStatus("app", "RUNNING", generation, 5.0, 6.0, instances)


def test_a_value_of_a_generation_that_is_over_or_of_a_failed_program_is_none(tmp_path):
    def record(instance, missing="", **content):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(content))
        return LogFile(instance, path, missing)

    def instance(name, state):
        return InstanceStatus(name, "w", "worker", state)

    records = [
        record("w/0", generation=1, value=1),
        record("w/1", generation=1, value=1),
        on_lost_node := LogFile("w/1", tmp_path / "gone", "its node h is lost"),
        record("w/2", generation=2, value=1),
        lost := record("w/3", generation=2, value=1),
        good := record("w/4", generation=2, value=1),
        damaged := record("w/5"),
    ]
    states = (instance("w/2", "FAILED"), instance("w/3", "LOST"), instance("w/4", "SUCCEEDED"))
    assert newest_returned(records, status(2, *states)) == (on_lost_node, lost, good, damaged)


IN_ORDER = [
    LogFile("worker/1", Path("worker_2")),
    LogFile("worker/1", Path("worker_10")),
    LogFile("worker/0", Path("worker_1")),
    LogFile("ps/2", Path("ps_3")),  # from here on: not in the job's order
    LogFile("ps/10", Path("ps_1")),
    LogFile("coordinator", Path("a")),
    LogFile("master", Path("a")),
]


def test_instances_are_in_job_order_and_numbers_in_theirs():
    found = sorted(set(IN_ORDER), key=log_order(["worker/1", "worker/0"]))
    assert found == IN_ORDER
