import dataclasses

from tests.engines.yarn.test_verdict import LAST, REPORT
from tfapp.contract.status import InstanceStatus
from tfapp.engines.base import Link
from tfapp.engines.yarn.run import links
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
