"""What `tfapp doctor` says of the nodes of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tfapp.engines.diagnosis import OK, WARNING, Finding
from tfapp.engines.kubernetes.doctor import examine_nodes


class Nodes:
    def __init__(self, *nodes: dict[str, Any]):
        self.nodes = nodes

    def list(self, kind: str) -> list[dict[str, Any]]:
        assert kind == "Node"
        return list(self.nodes)


def node(ready: str = "True", spec: dict[str, Any] | None = None, **amounts: str) -> dict[str, Any]:
    amounts = {name.replace("gpus", "nvidia.com/gpu"): text for name, text in amounts.items()}
    conditions = [{"type": "Ready", "status": ready}]
    status = {"conditions": conditions, "allocatable": {"pods": "110", **amounts}}
    return {"metadata": {}, "spec": spec or {}, "status": status}


SMALL, LARGE = node(cpu="3920m", memory="2Gi"), node(cpu="8", memory="1048576Ki", gpus="2")
CORDONED, LOST = node(spec={"unschedulable": True}, cpu="4"), node("Unknown", cpu="4")
HINT = "`kubectl get nodes` says why, unless nodes are added when pods wait."


@pytest.mark.parametrize(
    ("nodes", "level", "text", "hint"),
    [
        (
            (SMALL, CORDONED, LOST, LARGE),
            OK,
            "2 of 4 take pods, together 11.9 cpu, 3072 MiB of memory, 2 nvidia.com/gpu",
            "",
        ),
        ((CORDONED, LOST), WARNING, "none of 2 nodes takes pods", HINT),
    ],
)
def test_the_nodes_that_take_pods_and_their_resources(nodes, level, text, hint):
    assert list(examine_nodes(Nodes(*nodes))) == [Finding("nodes", level, text, hint)]
