"""Requests against clusters of all shapes."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from tests.contract_values import make_job
from tfapp.contract.job import Resources
from tfapp.engines.yarn.cluster import Queue, YarnNode
from tfapp.engines.yarn.preflight import ContainerRequest, check, check_queue
from tfapp.engines.yarn.scheduler import QueueRules
from tfapp.package.model import ComponentResources
from tfapp.problems import Position

FILE = "resources.yaml"
MASTER = ComponentResources(
    name="slider-appmaster",
    instances=1,
    container=Resources(1024, 1),
    priority=0,
    failure_threshold=5,
    failure_window=3600.0,
    at=Position(FILE, 1, 1),
    positions={
        key: Position(FILE, line, 3)
        for line, key in enumerate(("yarn.memory", "yarn.gpus", "yarn.nodes", "yarn.racks"), 2)
    },
)
QUEUES = (Queue("default", True, frozenset({"fast"})), Queue("closed", False, frozenset()))
# Of one name and two parents, as Skein's driver tells them.
TWINS = (Queue("jobs", False, frozenset()), Queue("jobs", True, frozenset({"fast"})))
FAIR = (Queue("root.default", True, frozenset()),)
# Whose applications get labelled nodes when they name no label.
QUICK = Queue("root.quick", True, frozenset({"*"}), "fast")
STOPPED = Queue("root.a.jobs", False, frozenset())
SMALL = YarnNode("a01", frozenset(), 4096, 4, 0, rack="/r1")
LARGE = YarnNode("b02", frozenset(), 8192, 2, 0, rack="/r2")
FAST = YarnNode("c03", frozenset({"fast"}), 8192, 8, 4, rack="/r2")


def findings(
    memory=1024,
    vcores=1,
    gpus=0,
    label="",
    nodes=(SMALL, LARGE, FAST),
    rules=None,
    on=None,
    queue="default",
    queues=QUEUES,
    exclusive=lambda: {"fast"},
    count=1,
) -> list[str]:
    job = make_job()
    asked = dataclasses.replace(MASTER, container=Resources(1024, 1, **(on or {})))
    request = ContainerRequest(asked, label, memory, vcores, gpus, count=count)
    problems = check(None, job, request, queue, queues, nodes, rules, exclusive)
    return [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"memory": 4096, "count": 3}, None),
        (
            {"memory": 4096, "count": 4},
            "2:3: warning: all containers together ask for 16384 MiB, and all nodes together have "
            "12288 MiB",
        ),
        # Idle nodes of a label that is not exclusive serve others, too.
        ({"memory": 4096, "count": 4, "exclusive": lambda: set()}, None),
        (
            {"gpus": 2, "count": 3, "label": "fast"},
            "3:3: warning: all containers together ask for 6 GPUs, and all nodes of label 'fast' "
            "together have 4 GPUs",
        ),
        ({"vcores": 2, "count": 9}, None),  # they may not count
        ({"memory": 4096, "count": 3, "rules": QueueRules({}, queue=QUEUES[0])}, None),
        (
            {"memory": 4096, "count": 2, "rules": QueueRules({}, queue=QUEUES[0], share=0.6)},
            "2:3: warning: all containers together ask for 8192 MiB, and queue 'default' gives one "
            "user at most 7372 MiB",
        ),
    ],
)
def test_what_is_too_much_only_together_is_a_warning(wanted, said):
    """A cluster may grow."""
    assert findings(**wanted) == ([f"resources.yaml:{said} [never-fits]"] if said else [])


def test_what_fits_is_let_through():
    assert findings(8192, 2) == []
    assert findings(8192, 8, 4, "fast") == []
    assert findings(4096, on={"nodes": ("a01",), "racks": ("/r2",)}) == []
    assert findings(8192, on={"nodes": ("a01",), "relax_locality": True}) == []
    assert findings(8192, 2, rules=QueueRules({"memory": 8192, "vcores": 100})) == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            {"memory": 8193},
            "resources.yaml:2:3: error: yarn.memory of slider-appmaster is 8193 MiB, and the "
            "largest node has 8192 MiB [never-fits]",
        ),
        (
            {"gpus": 1},
            "resources.yaml:3:3: error: slider-appmaster asks for GPUs, and no node has any "
            "[never-fits]",
        ),
        (
            {"gpus": 5, "label": "fast"},
            "resources.yaml:3:3: error: yarn.gpus of slider-appmaster is 5, and the largest node "
            "of label 'fast' has 4 [never-fits]",
        ),
        (
            {"memory": 8192, "vcores": 4},
            "resources.yaml:1:1: error: no single node has all that slider-appmaster asks for: "
            "8192 MiB, 4 vcores, 0 GPUs [never-fits]",
        ),
        (
            {"memory": 4097, "rules": QueueRules({"memory": 4096, "vcores": 1})},
            "resources.yaml:2:3: error: yarn.memory of slider-appmaster is 4097 MiB, and queue "
            "'default' gives a container at most 4096 MiB [never-fits]",
        ),
        (
            {"memory": 9000, "rules": QueueRules({"memory": 16384})},
            "resources.yaml:2:3: error: yarn.memory of slider-appmaster is 9000 MiB, and the "
            "largest node has 8192 MiB [never-fits]",
        ),
        (
            {"on": {"nodes": ("a01", "bO2")}},
            "resources.yaml:4:3: error: no node that works is called 'bO2' [place]",
        ),
        (
            {"on": {"racks": ("/r3",)}},
            "resources.yaml:5:3: error: no node that works is in the rack '/r3' [place]",
        ),
        (
            {"on": {"nodes": ("c03",)}},
            "resources.yaml:4:3: error: YARN gives node 'c03' only to who asks for its label "
            "'fast' [place]",
        ),
        (
            {"memory": 8192, "on": {"racks": ("/r1",)}},
            "resources.yaml:2:3: error: yarn.memory of slider-appmaster is 8192 MiB, and the "
            "largest node that it names has 4096 MiB [never-fits]",
        ),
        (
            {"label": "fats"},
            "resources.yaml:1:1: error: no node that works has the label 'fats' [node-label]",
        ),
        (
            {"nodes": (FAST,)},
            "resources.yaml:1:1: error: no node that works is free of labels, and "
            "slider-appmaster asks for none [no-nodes]",
        ),
    ],
    ids=[
        *("memory", "no-gpus", "gpus", "all-at-once", "queue", "node-below-queue"),
        *("node", "rack", "labelled-node", "memory-of-rack", "label", "no-nodes"),
    ],
)
def test_what_never_fits_is_found(wanted, said):
    assert findings(**wanted) == [said]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"memory": 8192, "vcores": 8, "gpus": 4}, []),
        ({"nodes": (FAST,)}, []),
        (
            {"memory": 8193},
            [
                "resources.yaml:2:3: error: yarn.memory of slider-appmaster is 8193 MiB, and the "
                "largest node of label 'fast', the default of queue 'quick', has 8192 MiB "
                "[never-fits]"
            ],
        ),
        (
            {"nodes": (SMALL, LARGE)},
            [
                "resources.yaml:1:1: error: no node that works has the label 'fast', the default "
                "of queue 'quick' [node-label]"
            ],
        ),
        (
            {"on": {"nodes": ("a01",)}},
            [
                "resources.yaml:4:3: error: node 'a01' does not have the label 'fast', the "
                "default of queue 'quick' [place]"
            ],
        ),
        ({"on": {"nodes": ("c03",)}}, []),
    ],
    ids=["fits", "no-others", "memory", "no-nodes", "node", "labelled-node"],
)
def test_the_queues_label_counts_where_none_is_named(wanted, said):
    assert findings(**wanted, queue="quick", rules=QueueRules({}, queue=QUICK)) == said
    told = dataclasses.replace(QUICK, name="quick")
    assert findings(**wanted, queue="quick", queues=(told,)) == said


@pytest.mark.parametrize(
    ("queues", "rules"),
    [
        (QUEUES, QueueRules({})),
        ((QUICK, dataclasses.replace(QUICK, default_label="")), None),
    ],
    ids=["yet-to-be-made", "one-of-two"],
)
def test_any_node_counts_where_nobody_knows_the_queues_label(queues, rules):
    assert findings(gpus=4, queue="root.quick", queues=queues, rules=rules) == []


def worker_findings(cluster=(SMALL, LARGE, FAST), exclusive=set, **container) -> list[str]:
    """Those on a worker beside a small master, none of which names a label."""
    asked = dataclasses.replace(
        MASTER, name="worker", container=Resources(memory=1024, vcores=1, **container)
    )
    worker = SimpleNamespace(name="worker", container=asked.container, instances=1, needed=1)
    package = SimpleNamespace(resources={"worker": asked})
    job = SimpleNamespace(components=(worker,))
    master = ContainerRequest(MASTER, "", 1024, 1, 0)
    problems = check(package, job, master, "default", QUEUES, cluster, None, exclusive)
    return [str(problem) for problem in problems]


def test_nodes_that_are_not_for_their_label_alone_take_what_names_none():
    assert worker_findings(gpus=4) == []
    assert worker_findings(nodes=("c03",), relax_locality=False) == []
    assert worker_findings(gpus=5) == [
        "resources.yaml:3:3: error: yarn.gpus of worker is 5, and the largest node has 4 "
        "[never-fits]"
    ]
    assert worker_findings(gpus=4, exclusive=lambda: None) == []  # nobody tells


def test_a_master_without_a_label_is_started_on_none_of_them():
    """YARN: "AM container allocation doesn't support non-exclusive allocation"."""
    assert worker_findings(cluster=(FAST,)) == [
        "resources.yaml:1:1: error: no node that works is free of labels, and slider-appmaster "
        "asks for none [no-nodes]"
    ]
    assert findings(gpus=4, exclusive=set) == [
        "resources.yaml:3:3: error: slider-appmaster asks for GPUs, and no node has any "
        "[never-fits]"
    ]


@pytest.mark.parametrize(
    "wanted",
    [
        {"memory": 8192},
        {"gpus": 4},
        {"gpus": 5, "label": "fast"},
        {"gpus": 1, "nodes": (SMALL, LARGE)},
        {"gpus": 5, "queue": "quick", "rules": QueueRules({}, queue=QUICK)},
    ],
    ids=["fits", "master", "label", "no-labels", "label-of-queue"],
)
def test_nobody_is_asked_whether_labels_are_exclusive_where_it_does_not_matter(wanted):
    findings(**wanted, exclusive=lambda: pytest.fail("asked"))


def test_labels_of_queues_of_one_name():
    assert findings(label="fast", queue="root.b.jobs", queues=TWINS) == []
    dull = QueueRules({}, queue=Queue("root.a.jobs", True, frozenset()))
    assert findings(label="fast", queue="root.a.jobs", queues=TWINS, rules=dull) == [
        "resources.yaml:1:1: error: queue 'root.a.jobs' may not use nodes of label 'fast' "
        "[node-label]"
    ]


@pytest.mark.parametrize(
    ("name", "queues", "rules", "said"),
    [
        ("default", QUEUES, None, []),
        ("root.default", QUEUES, None, []),
        ("root.default.made", QUEUES, QueueRules({}), []),
        ("closed", QUEUES, None, ["queue 'closed' is stopped: it takes no applications"]),
        ("defualt", QUEUES, None, ["there is no queue 'defualt' on the cluster"]),
        (
            *("root.nope.default", QUEUES, QueueRules({}, missing=True)),
            ["there is no queue 'root.nope.default' on the cluster"],
        ),
        ("root.new.closed", QUEUES, QueueRules({}), []),  # YARN makes it
        ("root.users.ann", QUEUES, None, []),  # YARN may make it
        ("root.b.jobs", TWINS, None, []),
        (
            *("root.a.jobs", TWINS, QueueRules({}, queue=STOPPED)),
            ["queue 'root.a.jobs' is stopped: it takes no applications"],
        ),
        ("default", FAIR, None, []),
        ("new", FAIR, None, []),
        ("default", (), None, []),  # the fair scheduler has none before the first application
        (
            *("root", QUEUES),
            QueueRules({}, ("default", "closed")),
            ["queue 'root' takes no applications: it consists of other queues"],
        ),
    ],
)
def test_queues(name, queues, rules, said):
    assert [problem.message for problem in check_queue(name, queues, rules)] == said
