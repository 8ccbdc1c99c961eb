"""Whether nodes and quotas could ever take pods."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tfapp.engines.kubernetes.capacity import (
    Demand,
    Excess,
    Lack,
    excesses,
    lacks,
    limits,
    quantity,
    ready,
    requests,
    shown,
)


@pytest.mark.parametrize(
    "text, value",
    [
        ("100m", "0.1"),
        ("2", "2"),
        (2, "2"),
        ("1.5Gi", "1610612736"),
        ("2k", "2000"),
        ("1e3", "1000"),
    ],
)
def test_quantities(text, value):
    assert quantity(text) == Decimal(value)


def test_what_is_no_quantity():
    with pytest.raises(ValueError, match="'much' is no quantity"):
        quantity("much")


def pod(spec=None, **asked) -> dict:
    named = {name.replace("_", "."): amount for name, amount in asked.items()}
    resources = {"requests": dict(named)}
    containers = [{"name": "tfapp", "resources": resources}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, **(spec or {})}}


def container(requests=None, limits=None, **more) -> dict:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def test_a_pod_needs_all_its_containers_or_its_largest_first_one():
    spec = {
        "initContainers": [
            container({"cpu": "5", "memory": "1Gi"}),
            container({"cpu": "1"}, restartPolicy="Always"),
            container({"cpu": "2"}),
        ],
        "containers": [
            container({"cpu": "1"}, {"memory": "2Gi", "nvidia.com/gpu": "1"}),
            container({"cpu": "500m", "memory": "1Gi"}, {"cpu": "4"}),
        ],
    }
    found = {"metadata": {}, "spec": spec}
    assert requests(found) == {
        "cpu": Decimal(5),
        "memory": Decimal(3 * 2**30),
        "nvidia.com/gpu": Decimal(1),
    }
    assert limits(found) == {
        "cpu": Decimal(4),
        "memory": Decimal(2 * 2**30),
        "nvidia.com/gpu": Decimal(1),
    }


def node(name: str, labels=None, taints=(), unschedulable=False, **has) -> dict:
    amounts = {
        "cpu": "4",
        "memory": "8Gi",
        **{k.replace("gpus", "nvidia.com/gpu"): v for k, v in has.items()},
    }
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
AWAY = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
NODES = (
    node("a", {"zone": "1"}, taints=[AWAY]),
    node("b", {"zone": "2"}, taints=[GPU], gpus="2", memory="4Gi"),
)
TOLERATES = {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes"}]}
ANY = {"tolerations": [{"operator": "Exists"}]}


def affinity(key: str, operator: str, *values: str) -> dict:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {name: required}}}


WAITS = "It would wait for ever. Ask for less."
CASES = {
    "fits": (pod(cpu="4", memory="8Gi"), []),
    "says-nothing": (pod(), []),
    "too-much-memory": (
        pod(memory="9Gi"),
        [
            Lack(
                "resources.memory",
                "a pod of worker asks for 9216 MiB of memory, and the largest node that it may run "
                "on has 8192 MiB of memory",
                WAITS,
            )
        ],
    ),
    "gpus-behind-a-taint": (
        pod(**{"nvidia.com/gpu": "1"}),
        [
            Lack(
                "resources.nvidia.com/gpu",
                "worker asks for nvidia.com/gpu, and no node that it may run on has any",
                WAITS,
            )
        ],
    ),
    "gpus": (pod(TOLERATES, **{"nvidia.com/gpu": "2"}), []),
    "too-many-gpus": (
        pod(ANY, **{"nvidia.com/gpu": "3"}),
        [
            Lack(
                "resources.nvidia.com/gpu",
                "a pod of worker asks for 3 nvidia.com/gpu, and the largest node that it may run "
                "on has 2 nvidia.com/gpu",
                WAITS,
            )
        ],
    ),
    "not-together": (
        pod(ANY, memory="6Gi", **{"nvidia.com/gpu": "1"}),
        [
            Lack(
                "resources",
                "no single node that worker may run on has all that its pod asks for: "
                "6144 MiB of memory, 1 nvidia.com/gpu",
                WAITS,
            )
        ],
    ),
    "selector": (
        pod({"nodeSelector": {"zone": "3"}}),
        [Lack("spec.nodeSelector", "no node has the labels of worker, zone=3")],
    ),
    "tainted-zone": (
        pod({"nodeSelector": {"zone": "2"}}),
        [
            Lack(
                "spec.tolerations",
                "all nodes that worker may run on keep its pods away: gpu=yes:NoSchedule",
                "Name the taints in site.global.kubernetes.tolerations.",
            )
        ],
    ),
    "host": (
        pod(affinity("kubernetes.io/hostname", "In", "c", "d")),
        [
            Lack(
                "spec.affinity",
                "no node is as worker asks: kubernetes.io/hostname In c, d",
                "Nodes: a, b.",
            )
        ],
    ),
    "known-host": (pod(affinity("kubernetes.io/hostname", "In", "a", "d")), []),
    "label": (pod(affinity("zone", "Exists")), []),
    "other-zone": (pod(affinity("zone", "NotIn", "2")), []),
    "no-zone": (
        pod(affinity("zone", "DoesNotExist")),
        [Lack("spec.affinity", "no node is as worker asks: zone DoesNotExist", "Nodes: a, b.")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_pods_and_nodes(case):
    asked, expected = CASES[case]
    assert lacks("worker", asked, NODES) == expected


def quota(name: str = "q", spec=None, **hard) -> dict:
    named = {key.replace("__", "."): value for key, value in hard.items()}
    return {"metadata": {"name": name}, "spec": {"hard": named, **(spec or {})}}


def test_quotas_count_all_pods():
    demands = [
        Demand("master", 1, pod(cpu="100m", memory="1Gi")),
        Demand("worker", 3, pod(cpu="2", memory="2Gi", **{"nvidia.com/gpu": "1"})),
    ]
    enough = quota(pods="4", cpu="6100m", requests__memory="7Gi", secrets="0")
    scoped = quota(spec={"scopes": ["BestEffort"]}, pods="1")
    small = quota("small", pods="3", cpu="6", **{"requests.nvidia.com/gpu": "2"})
    assert list(excesses(demands, [enough, scoped])) == []
    assert list(excesses(demands, [small])) == [
        Excess(
            "worker", "cpu", "all pods together ask for 6.1 cpu, and the quota 'small' allows 6 cpu"
        ),
        Excess(
            "worker",
            "pods",
            "all pods together ask for 4 pods, and the quota 'small' allows 3 pods",
        ),
        Excess(
            "worker",
            "nvidia.com/gpu",
            "all pods together ask for 3 requests.nvidia.com/gpu, and the quota 'small' allows "
            "2 requests.nvidia.com/gpu",
        ),
    ]


def test_nodes_that_take_pods():
    cordoned, lost = node("a", unschedulable=True), node("b")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert [ready(each) for each in (NODES[0], cordoned, lost)] == [True, False, False]


def test_amounts_are_shown_as_users_write_them():
    assert shown("memory", Decimal(2**31)) == "2048 MiB of memory"
    assert shown("requests.memory", Decimal(2**20)) == "1 MiB of requests.memory"
    assert shown("cpu", Decimal("0.5")) == "0.5 cpu"
    assert shown("memory", quantity("90000128Mi")) == "90000128 MiB of memory"
    assert shown("nvidia.com/gpu", Decimal(8)) == "8 nvidia.com/gpu"
