"""All that tests/engines/kubernetes/golden expects, as a real API server takes it: a dry run that
refuses unknown fields, with admission."""

import re

import pytest
import yaml

from tests.clusters.kubernetes.namespace import Namespace
from tests.engines.kubernetes.golden import CASES, compiled_case
from tests.readme import README
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.objects import objects
from tfapp.engines.kubernetes.pods import pods
from tfapp.errors import TfappError

CREDENTIALS = (b"the certificate", b"the key")


@pytest.fixture
def client(cluster, namespace) -> KubernetesCluster:
    return KubernetesCluster.open({"KUBECONFIG": str(cluster.kubeconfig)}, namespace.name)


def manifests(case, folder, namespace: Namespace):
    """What is created for the case in a namespace, but for owners; pods with a name."""
    compiled, at = compiled_case(case, folder, namespace.name)
    yield from objects(compiled, at, {"definition": "{}"}, CREDENTIALS)
    for component, pod in pods(compiled.plan, at).items():
        yield {**pod, "metadata": {**pod["metadata"], "name": f"tfapp-digits-1-{component}-1"}}


def refused(client, bodies):
    """{name: the API server's words} of what it does not take."""
    found = {}
    for body in bodies:
        try:
            client.create(body, dry_run=True)
        except TfappError as error:
            found[f"{body['kind']} {body['metadata']['name']}"] = error.message
    return found


def test_the_api_server_takes_everything(client, namespace, tmp_path):
    for name in ("trainer", "viewer"):
        client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    namespace.api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
                       {"metadata": {"name": "research"}, "value": 7})  # fmt: skip
    try:
        found = {
            case: refused(client, manifests(case, tmp_path / case, namespace)) for case in CASES
        }
    finally:
        namespace.api.call("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/research")
    assert found == dict.fromkeys(CASES, {})


def test_the_api_server_takes_the_network_policies_of_the_page(cluster, namespace):
    page = (README.parent / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    texts = re.findall(r"```yaml\n(apiVersion: networking.*?)```", page, re.S)
    bodies = [body for text in texts for body in yaml.safe_load_all(text)]
    for body in bodies:
        namespace.add("networking.k8s.io/v1", "networkpolicies?fieldValidation=Strict", body)
    assert len(bodies) == 2


def test_pods_with_a_user_pass_the_standard_restricted(client, namespace, tmp_path):
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace.api.call("PATCH", f"/api/v1/namespaces/{namespace.name}",
                       {"metadata": {"labels": label}}, "application/merge-patch+json")  # fmt: skip
    bodies = {case: [*manifests(case, tmp_path / case, namespace)] for case in CASES}
    template = next(b for b in bodies["restricted"] if b["kind"] == "Job")["spec"]["template"]
    master = {"apiVersion": "v1", "kind": "Pod", **template}
    master["metadata"] = {**template["metadata"], "name": "master"}
    of_a_user = [b for b in bodies["restricted"] if b["kind"] == "Pod"]
    assert of_a_user
    account = master["spec"]["serviceAccountName"]
    client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    assert refused(client, [*of_a_user, master]) == {}
    of_any_user = [b for b in bodies["minimal"] if b["kind"] == "Pod"]
    (words,) = refused(client, of_any_user).values()
    assert "runAsNonRoot" in words and "seccompProfile" not in words, words
