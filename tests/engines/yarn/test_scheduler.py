"""Answers of the web services of real schedulers, cut to the parts that are read."""

import pytest

from tfapp.engines.yarn.cluster import Queue
from tfapp.engines.yarn.scheduler import QueueRules, asking, exclusive_labels, queue_rules
from tfapp.engines.yarn.web import Web

NO_LIMIT = 2**63 - 1


def amounts(memory, vcores, gpus):
    named = [{"name": "vcores", "value": vcores}, {"name": "yarn.io/gpu", "value": gpus}]
    resources = {"resourceInformation": named}
    return {"memory": memory, "vCores": vcores, "resourceInformations": resources}


def queue(name, *children, **facts):
    queues = {"queues": {"queue": list(children)}} if children else {}
    return {"queueName": name, **queues, **facts}


CAPACITY = queue(
    "root",
    queue("default", maximumAllocation=amounts(8192, 8, NO_LIMIT), autoCreationEligibility="off"),
    queue("batch", maximumAllocation=amounts(4096, 8, 2)),
    queue("team", queue("ours"), maximumAllocation=amounts(2048, 2, 0)),
    queue("users", queue("ann"), autoCreationEligibility="flexible"),
    queue("a", queue("jobs", state="STOPPED"), maximumAllocation=amounts(2048, 2, 0)),
    queue("b", queue("jobs", state="RUNNING", nodeLabels=["*"], defaultNodeLabelExpression="fast")),
    maximumAllocation=amounts(8192, 8, NO_LIMIT),
)
ROOT_MOST = {"memory": 8192, "vcores": 8, "gpus": NO_LIMIT}
MISSING = QueueRules({}, missing=True)


def fair_queue(name, memory, vcores, gpus, *children):
    queues = {"childQueues": {"queue": list(children)}} if children else {}
    most = amounts(memory, vcores, gpus)
    return {"queueName": name, **queues, "maxContainerAllocation": most}


FAIR = {
    "type": "fairScheduler",
    "rootQueue": fair_queue(
        *("root", 8192, 8, 2),
        fair_queue("root.team", 8192, 8, 2, fair_queue("root.team.ours", 2048, 2, 0)),
        fair_queue("root.capped", 1024, 1, 0),
    ),
}
# Of a version that does not tell what a queue gives a container.
SILENT = queue("root", queue("default"))
SETTINGS = {
    "yarn.scheduler.maximum-allocation-mb": "6000",
    "yarn.scheduler.maximum-allocation-vcores": "4",
}


def answers(info):
    def ask(path):
        if path == "/ws/v1/cluster/scheduler":
            return {"scheduler": {"schedulerInfo": info}}
        return {"property": {"value": SETTINGS[path.removeprefix("/conf?name=")]}}

    return ask


@pytest.mark.parametrize(
    ("info", "name", "rules"),
    [
        (CAPACITY, "default", QueueRules({"memory": 8192, "vcores": 8, "gpus": NO_LIMIT})),
        (CAPACITY, "root.batch", QueueRules({"memory": 4096, "vcores": 8, "gpus": 2})),
        (CAPACITY, "ours", QueueRules({"memory": 8192, "vcores": 8, "gpus": NO_LIMIT})),
        (CAPACITY, "team", QueueRules({"memory": 2048, "vcores": 2, "gpus": 0}, ("ours",))),
        (CAPACITY, "users.bob", QueueRules({"memory": 8192, "vcores": 8, "gpus": NO_LIMIT})),
        (CAPACITY, "users", QueueRules({"memory": 8192, "vcores": 8, "gpus": NO_LIMIT})),
        # Of flexible creation YARN makes the queues between as well.
        (CAPACITY, "root.users.new.bob", QueueRules(ROOT_MOST)),
        (CAPACITY, "team.theirs", MISSING),
        (CAPACITY, "nowhere", MISSING),
        (CAPACITY, "root.nope.default", MISSING),
        (
            *(CAPACITY, "root.a.jobs"),
            QueueRules(ROOT_MOST, (), Queue("root.a.jobs", False, frozenset())),
        ),
        (
            *(CAPACITY, "root.b.jobs"),
            QueueRules(ROOT_MOST, (), Queue("root.b.jobs", True, frozenset({"*"}), "fast")),
        ),
        # YARN says that it may be either.
        (CAPACITY, "jobs", QueueRules(ROOT_MOST)),
        (FAIR, "root.capped", QueueRules({"memory": 1024, "vcores": 1, "gpus": 0})),
        (FAIR, "capped", QueueRules({"memory": 1024, "vcores": 1, "gpus": 0})),
        (FAIR, "team", QueueRules({"memory": 8192, "vcores": 8, "gpus": 2}, ("ours",))),
        (FAIR, "team.ours", QueueRules({"memory": 2048, "vcores": 2, "gpus": 0})),
        # Its placement rules may make these.
        (FAIR, "root.team.new", QueueRules({"memory": 8192, "vcores": 8, "gpus": 2})),
        (FAIR, "ours", QueueRules({"memory": 8192, "vcores": 8, "gpus": 2})),
        (FAIR, "new", QueueRules({"memory": 8192, "vcores": 8, "gpus": 2})),
        (FAIR, "new.er", QueueRules({"memory": 8192, "vcores": 8, "gpus": 2})),
        (SILENT, "default", QueueRules({"memory": 6000, "vcores": 4})),
    ],
)
def test_rules_of_queues(info, name, rules):
    assert queue_rules(name, answers(info)) == rules


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ({}, set()),
        ({"nodeLabelInfo": {"name": "fast", "exclusivity": "true"}}, {"fast"}),
        ({"nodeLabelInfo": {"name": "idle", "exclusivity": "false"}}, set()),
        (
            {
                "nodeLabelInfo": [
                    {"name": "fast", "exclusivity": "true"},
                    {"name": "idle", "exclusivity": "false"},
                    {"name": "gpu", "exclusivity": True},
                ]
            },
            {"fast", "gpu"},
        ),
    ],
    ids=["none", "one", "one-shared", "several"],
)
def test_labels_whose_nodes_are_for_them_alone(answer, labels):
    assert exclusive_labels({"/ws/v1/cluster/get-node-labels": answer}.__getitem__) == labels


def test_no_manager_that_answers():
    with pytest.raises(OSError, match="refused"):
        asking(["http://127.0.0.99:9"], Web({}))("/ws/v1/cluster/scheduler")
    with pytest.raises(OSError, match="names no"):
        asking([], Web({}))("/ws/v1/cluster/scheduler")


@pytest.mark.parametrize(
    ("facts", "share"),
    [
        ({}, 1.0),
        ({"absoluteMaxCapacity": 100.0, "absoluteCapacity": 60.0, "userLimitFactor": 10.0}, 1.0),
        ({"absoluteMaxCapacity": 100.0, "absoluteCapacity": 60.0, "userLimitFactor": 1.0}, 0.6),
        ({"absoluteMaxCapacity": 50.0, "absoluteCapacity": 40.0, "userLimitFactor": 2.0}, 0.5),
        ({"absoluteMaxCapacity": 50.0, "absoluteCapacity": 40.0, "userLimitFactor": -1.0}, 0.5),
        ({"absoluteMaxCapacity": 100.0, "absoluteCapacity": 0.0, "userLimitFactor": 1.0}, 1.0),
    ],
)
def test_how_much_of_the_cluster_one_user_of_a_queue_can_have(facts, share):
    found = queue("root", queue("own", maximumAllocation=amounts(1, 1, 1), **facts))
    assert queue_rules("own", answers(found)).share == share
