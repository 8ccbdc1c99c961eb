from __future__ import annotations

import dataclasses

import pytest

from tests.engines.yarn.test_verdict import LAST, REPORT
from tfapp.contract.status import InstanceStatus
from tfapp.engines.base import Link
from tfapp.engines.yarn.cluster import YarnReport
from tfapp.engines.yarn.layout import YarnRunFolder
from tfapp.engines.yarn.run import YarnRun, links
from tfapp.errors import UnreachableError
from tfapp.protocol.connection import ContainerReport

BOARD = InstanceStatus(
    "tensorboard/0",
    "tensorboard",
    "tensorboard",
    "RUNNING",
    container="tensorboard_3",
    exports={"tensorboard": {"url": "http://node:6006"}},
)
CONTAINER = ContainerReport(
    "tensorboard_3", "tensorboard", "RUNNING", "node", "", "c_03", "node:8042"
)


def test_where_an_instance_is_to_be_seen():
    report = dataclasses.replace(REPORT, tracking_url="https://manager/proxy/application_1_0001/")
    status = dataclasses.replace(LAST, instances=(*LAST.instances, BOARD))
    assert links(report, status, [CONTAINER]) == (
        Link("", "page", "https://manager/proxy/application_1_0001/pages/application/"),
        Link(
            "tensorboard/0",
            "page",
            "https://manager/proxy/application_1_0001/pages/tensorboard-0/",
        ),
        Link("tensorboard/0", "log", "https://node:8042/node/containerlogs/c_03/me"),
    )


class Silent:
    """A client whose master does not answer. Meanwhile YARN's report becomes `then`."""

    def __init__(self, run: YarnRun, then: YarnReport):
        self._run = run
        self._then = then

    def ask(self, call):
        self._run.report = self._then
        raise UnreachableError("no answer")


@pytest.fixture
def run(tmp_path):
    """One whose master serves at node:1, as YARN has said last."""
    report = dataclasses.replace(REPORT, state="RUNNING", address="node:1")

    class Register:
        def accepted(self, report: YarnReport, fetch: bool):
            return LAST

        def note(self, report: YarnReport) -> None:
            pass

        def note_stop(self, report: YarnReport, message: str) -> None:
            pass

    return YarnRun(report, 1, YarnRunFolder(tmp_path), None, {}, Register(), None)


@pytest.mark.parametrize("address", ["", "other:2"])
def test_a_master_that_was_lost_is_said_to_be_followed_by_another(run, address):
    run.client = Silent(run, dataclasses.replace(run.report, address=address))
    run.ask()
    assert run.application().waits == "its master was lost, and YARN starts another one"


def test_a_master_that_does_not_answer_is_an_error(run):
    run.client = Silent(run, run.report)
    with pytest.raises(UnreachableError, match="no answer"):
        run.ask()


class Stopping:
    """A client that is heard at all masters that there are while it stops the run."""

    def __init__(self, run: YarnRun):
        self._run = run
        self.told: list[tuple[str, str]] = []

    def stop(self, message: str, force: bool, timeout: float | None) -> None:
        self.ask_to_stop(message)
        while not self._run.wait_for_end(0):
            pass

    def ask_to_stop(self, message: str) -> None:
        self.told.append((self._run.report.address, message))


def test_each_master_is_asked_to_stop_once(run):
    addresses = ["node:1", "", "", "other:2", "other:2"]
    ended = dataclasses.replace(run.report, state="KILLED")

    class Cluster:
        def application(self, id: str) -> YarnReport:
            if not addresses:
                return ended
            return dataclasses.replace(run.report, address=addresses.pop(0))

    run._cluster, run.client = Cluster(), Stopping(run)
    run.stop("enough", False, None)
    assert run.client.told == [("node:1", "enough"), ("other:2", "enough")]
