"""The logs of an application that has ended, as far as YARN has gathered them."""

from __future__ import annotations

import dataclasses
import json
import threading
from types import SimpleNamespace

import pytest

from tests.engines.yarn.test_aggregated_logs import entry
from tests.waiting import wait
from tfapp.contract.status import ApplicationStatus, InstanceStatus
from tfapp.engines.yarn import aggregated_logs, live_logs
from tfapp.engines.yarn.cluster import YarnReport
from tfapp.engines.yarn.layout import YarnHome
from tfapp.engines.yarn.logs import YarnLogs
from tfapp.errors import UnavailableError, UnreachableError

ID = "application_1_0001"
REPORT = YarnReport(
    ID, "app", "ann", (), "FINISHED", "SUCCEEDED", "", "", "http://m/proxy/x", 1.0, 2.0
)
WHERE = f"it is in {ID}/ below yarn.nodemanager.log-dirs there"


def instance(name: str, host: str) -> InstanceStatus:
    return InstanceStatus(name, "worker", "worker", "LOST", name.replace("/", "_"), host)


INSTANCES = (instance("worker/0", "h0"), instance("worker/1", "h1"))
STATUS = ApplicationStatus("app", "SUCCEEDED", None, 1.0, 2.0, INSTANCES)


@dataclasses.dataclass
class Played:
    """A cluster: what it gathers of each container, its lost hosts, how far the gathering is."""

    folder: object
    lost: frozenset[str] = frozenset()
    state: str = "SUCCEEDED"

    def __post_init__(self):
        self.gathered = self.folder / "gathered"
        self.gathered.mkdir()
        yarn = self.folder / "yarn"
        # yarn logs -applicationId ID -out FOLDER
        yarn.write_text(f'#!/bin/sh\ncp -r {self.gathered}/. "$5"\necho no logs found\n')
        yarn.chmod(0o755)
        self.home = YarnHome(self.folder / "home")

    def gather(self, container: str, name: str, text: str, returned: str = "") -> None:
        logs = entry("tfapp-instance", name) + entry("worker.log", text)
        if returned:
            logs += entry("tfapp-returned.json", returned)
        (self.gathered / container).write_text(logs)

    def lost_hosts(self) -> frozenset[str]:
        return self.lost

    def application(self, tracking_url: str, application: str) -> dict[str, str]:
        return {"logAggregationStatus": self.state}

    def open(self) -> YarnLogs:
        environ = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        web = SimpleNamespace(application=self.application)
        return YarnLogs(self.home, self, environ, web, connect=None)

    def logs(self):
        return self._texts(self.open().of(REPORT, INSTANCES))

    def returned(self, status=STATUS):
        return self._texts(self.open().returned(REPORT, status))

    def _texts(self, found):
        texts = {}
        for log in found:
            text = log.path.read_text() if log.path.exists() else None
            texts[log.instance] = (text, log.missing)
        return texts


@pytest.fixture
def played(tmp_path, monkeypatch):
    monkeypatch.setattr(aggregated_logs, "GATHER_LIMIT", 0.0)
    for limit in ("LOST_LIMIT", "RETURNED_LIMIT"):
        monkeypatch.setattr(f"tfapp.engines.yarn.logs.{limit}", 0.0)
    played = Played(tmp_path)
    played.gather("container_1", "worker/0", "zero\n")
    return played


def test_they_are_fetched_once(played):
    played.gather("container_2", "worker/1", "one\n")
    whole = {"worker/0": ("zero\n", ""), "worker/1": ("one\n", "")}
    assert played.logs() == whole
    played.folder.joinpath("yarn").unlink()
    assert played.logs() == whole


def test_instances_come_first_in_job_order_then_the_coordinator_and_the_master(played):
    played.gather("container_2", "worker/1", "one\n")
    played.logs()
    own = played.home.run(ID).logs / "container_3"
    own.mkdir()
    for log in ("application.driver.log", "application.master.log"):
        (own / log).write_text("")
    assert list(played.logs()) == ["worker/0", "worker/1", "coordinator", "master"]


@pytest.mark.parametrize("state", ["RUNNING", "TIME_OUT"])
def test_the_log_of_a_lost_node_is_missed_until_the_node_is_back(played, state):
    played.lost, played.state = frozenset({"h1", "h7"}), state
    why = f"its node h1 is lost, and YARN has not gathered it; {WHERE}"
    assert played.logs() == {"worker/0": ("zero\n", ""), "worker/1": (None, why)}
    # What was copied while it ran is there.
    copy = played.home.run(ID).logs / "container_2"
    copy.mkdir()
    (copy / "tfapp-instance").write_text("worker/1")
    (copy / "worker.log").write_text("on")
    assert played.logs() == {"worker/0": ("zero\n", ""), "worker/1": ("on", why)}
    played.lost, played.state = frozenset(), "SUCCEEDED"
    played.gather("container_2", "worker/1", "one\n")
    assert played.logs()["worker/1"] == ("one\n", "")


def test_a_node_from_which_nothing_has_come_yet(played):
    played.state = "RUNNING"
    why = f"YARN has not gathered it from h1 (log aggregation: RUNNING); {WHERE}"
    assert played.logs()["worker/1"] == (None, why)


def test_yarn_has_none_at_all(played):
    for path in played.gathered.iterdir():
        path.unlink()
    with pytest.raises(UnavailableError, match=f"YARN has no logs of {ID}: no logs found"):
        played.logs()
    played.lost = frozenset({"h0"})
    why = f"its node h0 is lost, and YARN has not gathered it; {WHERE}"
    assert played.logs()["worker/0"] == (None, why)


def record(generation: int, **outcome) -> str:
    return json.dumps({"generation": generation, **outcome})


def test_what_functions_returned_is_gathered_with_the_logs(played):
    newer, older = record(2, value=[2]), record(1, value=[1])
    played.gather("container_1", "worker/0", "", newer)
    played.gather("container_2", "worker/1", "", record(1))  # None
    played.gather("container_3", "worker/0", "", older)
    assert played.returned() == {"worker/0": (newer, "")}
    assert played.returned(dataclasses.replace(STATUS, generation=3)) == {}
    assert played.logs().keys() == {"worker/0", "worker/1"}


def test_what_was_returned_on_a_lost_node_is_missing_and_the_others_come(played):
    played.gather("container_1", "worker/0", "", record(1, value=0))
    played.lost, played.state = frozenset({"h1"}), "TIME_OUT"
    why = f"its node h1 is lost, and YARN has not gathered it; {WHERE}"
    assert played.returned() == {"worker/0": (record(1, value=0), ""), "worker/1": (None, why)}
    # A record that was copied while it ran is whole.
    copy = played.home.run(ID).logs / "container_2"
    copy.mkdir()
    (copy / "tfapp-instance").write_text("worker/1")
    (copy / "tfapp-returned.json").write_text(record(1, value=1))
    assert played.returned()["worker/1"] == (record(1, value=1), "")


def test_what_was_returned_where_yarn_gathers_nothing(played):
    for path in played.gathered.iterdir():
        path.unlink()
    why = f"YARN has no logs of {ID}: no logs found"
    assert played.returned() == {"worker/0": (None, why), "worker/1": (None, why)}


def test_what_was_copied_at_the_end_waits_for_nothing(played):
    run = played.home.run(ID)
    copy = run.logs / "container_1"
    copy.mkdir(parents=True)
    (copy / "tfapp-instance").write_text("worker/0")
    (copy / "tfapp-returned.json").write_text(record(1, value=5))
    logs = played.open()
    for whole in (False, True):
        logs._live[ID] = SimpleNamespace(copy_at_end=lambda whole=whole: whole)
        logs.copy_at_end(ID)
        assert run.returned_complete.exists() == whole
    played.folder.joinpath("yarn").unlink()
    assert played.returned() == {"worker/0": (record(1, value=5), "")}


class Running:
    """A run whose master does not answer. `asked`: the states in which it was connected to."""

    def __init__(self, folder):
        self.report = dataclasses.replace(REPORT, state="RUNNING", final_status="UNDEFINED")
        self.asked = []
        cluster = SimpleNamespace(application=lambda application: self.report)
        self.logs = YarnLogs(YarnHome(folder), cluster, {}, None, self.connect)

    def connect(self, report):
        self.asked.append(report.state)
        raise UnreachableError("no answer")


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.setattr(live_logs, "COPY_EVERY", 0.01)
    return Running(tmp_path)


def test_a_run_that_nobody_follows_to_its_end_is_copied_no_more(running):
    assert running.logs.of(running.report, ()) == ()
    wait_until(lambda: len(running.asked) > 2)
    assert running.logs.growing(ID) == ()
    running.report = REPORT
    wait_until(lambda: running.logs.growing(ID) is None)
    wait_until(nothing_is_copied)
    assert running.asked.count("FINISHED") == 1


@pytest.mark.slow
def test_a_run_whose_logs_nobody_asks_for_is_copied_no_more_until_somebody_does(
    running, monkeypatch
):
    monkeypatch.setattr(live_logs, "IDLE_LIMIT", 1.0)
    for _ in range(2):
        running.asked.clear()
        running.logs.of(running.report, ())
        wait_until(lambda: len(running.asked) > 1)
        wait_until(nothing_is_copied)
    running.report = REPORT
    assert running.logs.growing(ID) is None


def nothing_is_copied():
    return "tfapp-logs" not in [thread.name for thread in threading.enumerate()]


def wait_until(ready):
    wait(ready, "", 60, every=0.01)
