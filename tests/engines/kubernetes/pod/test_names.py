import re

import pytest

from tfapp import __version__
from tfapp.engines.kubernetes.pod import names

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("train", "train"),
        ("my-train-b", "my-train-b"),
        ("my_train", "my-train-2633c6"),
        ("train-1", "train-1-825cd5"),
        ("train-", "train-487dc1"),
        ("a" * 30, "a" * 30),
        ("a" * 100, "a" * 30 + "-281659"),
    ],
)
def test_slugs(name, slug):
    assert names.slug(name) == slug
    assert DNS_LABEL.match(names.run_object(name, 12))


def test_objects_of_a_run_are_not_those_of_another_application():
    assert names.run_object("train", 1) != names.application_object("train-1")


def test_pods_of_components_that_differ_in_case_alone():
    pods = [names.pod_name("train", 1, component, 0) for component in ("ps", "PS", "p_s", "p.s")]
    assert pods[0] == "tfapp-train-1-ps-0"
    assert len(set(pods)) == 4
    assert all(DNS_LABEL.match(pod) for pod in pods)


def test_groups_of_pods_differ_also_from_those_of_an_earlier_application():
    made = [("train", 1, "uid", "p-1"), ("train", 1, "uid", "p-2"), ("train", 1, "other", "p-1")]
    groups = {names.group_name(*each) for each in (*made, ("a" * 100, 12345, "uid", "p-1"))}
    assert len(groups) == 4
    assert all(DNS_LABEL.match(group) for group in groups)


def test_labels_of_a_pod():
    assert names.pod_labels("my_train", 3, "worker", ("lr=3 high", "b")) == {
        "app.kubernetes.io/managed-by": "tfapp",
        "tfapp/application": names.slug("my_train"),
        "tfapp/run": "3",
        "tfapp/component": "worker",
        "app.kubernetes.io/name": "tfapp",
        "app.kubernetes.io/instance": names.slug("my_train"),
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/part-of": names.slug("my_train"),
        "app.kubernetes.io/version": __version__,
    }
    labels = names.pod_labels("train", 1, "worker", tags=("attempt-7",))
    assert labels["training_attempt"] == "attempt-7"


@pytest.mark.parametrize("text", ["_x_", "w" * 70, "ä/0", "-"])
def test_anything_becomes_a_label(text):
    assert re.match(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z", names.label_value(text))
