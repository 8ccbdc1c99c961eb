"""What a login has to be allowed."""

import pytest

from tests.engines.kubernetes.api_server import Answer
from tests.engines.kubernetes.test_api import review
from tfapp.engines.kubernetes import configuration
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.rights import Right, covered, missing, refusal


def allows(verbs, resources, groups=("",), **more) -> dict:
    return {"verbs": verbs, "resources": resources, "apiGroups": list(groups), **more}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (allows(["get"], ["pods/log"]), True),
        (allows(["*"], ["*"], ["*"]), True),
        (allows(["get"], ["*/log"]), True),
        (allows(["get"], ["pods"]), False),
        (allows(["list"], ["pods/log"]), False),
        (allows(["get"], ["pods/log"], ["batch"]), False),
        (allows(["get"], ["pods/log"], resourceNames=["a"]), False),
    ],
)
def test_rules_that_cover_a_right(rule, expected):
    assert covered([rule], "get", Right(("get",), "pods/log")) is expected


@pytest.fixture
def cluster(server, kubeconfig):
    path = kubeconfig(server.address, namespace="team")
    return KubernetesCluster(configuration.load({"KUBECONFIG": str(path)}))


def test_a_right_that_no_rule_shows_is_asked_for(server, cluster):
    rules = [allows(["get", "list"], ["pods"])]
    shown = Answer({"status": {"resourceRules": rules, "incomplete": True}}, 201)
    server.answers = [shown, review(True), review(False), review(False)]
    needed = (
        Right(("get", "watch", "delete"), "pods"),
        Right(("create",), "jobs", "batch"),
    )
    assert missing(cluster, needed) == (
        Right(("delete",), "pods"),
        Right(("create",), "jobs", "batch"),
    )
    asked = [request.body["spec"].get("resourceAttributes") for request in server.requests]
    assert [each and (each["verb"], each["resource"], each["group"]) for each in asked] == [
        None,
        ("watch", "pods", ""),
        ("delete", "pods", ""),
        ("create", "jobs", "batch"),
    ]


def test_what_is_missing_is_told_in_one_sentence(cluster):
    lacking = (Right(("get", "list"), "pods"), Right(("create",), "jobs", "batch"))
    error = refusal(cluster, lacking)
    assert error.message == (
        f"{cluster.source} may not, in namespace 'team': get, list pods; create jobs"
    )
    assert error.hint == (
        "Ask its owner for a Role in namespace 'team' with the rules "
        '{apiGroups: [""], resources: [pods], verbs: [get, list]}, '
        '{apiGroups: ["batch"], resources: [jobs], verbs: [create]}.'
    )
    assert refusal(cluster, lacking, "Or ask again.").hint == f"{error.hint} Or ask again."
