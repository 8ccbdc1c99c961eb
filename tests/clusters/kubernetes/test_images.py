"""The images of the tests' pods, and the registry from which pods pull theirs."""

from __future__ import annotations

import dataclasses

import pytest
from kubernetes_cluster.images import PYTHON, python_image

from tests.clusters.kubernetes.namespace import wait_for
from tests.clusters.kubernetes.pod_images import GRPC, SHELL, TENSORFLOW

LOOK = """
import importlib.util as u, os
names = "tensorflow", "sklearn", "grpc", "google.protobuf", "pytest"
def found(name):
    try: return u.find_spec(name) is not None
    except ModuleNotFoundError: return False
print(os.getuid(), *[name for name in names if found(name)])
"""
ADD = "import tensorflow as tf, grpc\nprint(int(tf.constant(20) + 22))"


@pytest.mark.weekly
def test_what_each_image_has_for_a_user_who_is_not_root(namespace):
    user = {"securityContext": {"runAsUser": 1000, "runAsNonRoot": True}}
    images = {"bare": PYTHON, "grpc": GRPC, "tensorflow": TENSORFLOW}
    for name, image in images.items():
        namespace.run(name, LOOK, container={"image": image}, **user)
    namespace.run("adds", ADD, container={"image": TENSORFLOW}, node=2, **user)
    words = ["sh", "-c", "command -v python3 || echo none"]
    namespace.run("shell", "", container={"image": SHELL, "command": words}, **user)
    for name in (*images, "adds", "shell"):
        namespace.wait(name, "Succeeded")
    assert {name: namespace.log(name) for name in (*images, "shell")} == {
        "bare": "1000\n",
        "grpc": "1000 grpc google.protobuf\n",
        "tensorflow": "1000 tensorflow sklearn grpc google.protobuf\n",
        "shell": "none\n",
    }
    assert namespace.log("adds").splitlines()[-1] == "42"


def waiting(pod: dict) -> dict:
    """Why its container has not begun, {} where that is not said."""
    [status] = pod["status"].get("containerStatuses", [{"state": {}}])
    return status["state"].get("waiting", {})


def test_a_pod_pulls_its_image_by_name_and_a_wrong_name_is_told(cluster, cache, namespace):
    image = dataclasses.replace(python_image(cache, {}), name="mine/train:1")
    name = cluster.publish(image)
    assert name == "registry.test/mine/train:1"
    namespace.run("right", "print('pulled')", container={"image": name})
    namespace.wait("right", "Succeeded")
    assert namespace.log("right") == "pulled\n"
    namespace.run("wrong", "", container={"image": "registry.test/mine/train:2"})
    wait_for(lambda: waiting(namespace.pod("wrong")).get("reason") == "ErrImagePull", "error")
    namespace.run("unknown", "", container={"image": "elsewhere.test/mine/train:1"})
    events = f"{namespace.path}/events"
    for pod, words in (
        ("wrong", "registry.test/mine/train:2: not found"),
        ("unknown", "elsewhere.test"),
    ):

        def told(pod=pod, words=words) -> bool:
            found = namespace.api.call("GET", events)["items"]
            messages = [e["message"] for e in found if e["involvedObject"]["name"] == pod]
            return any("Failed to pull image" in text and words in text for text in messages)

        wait_for(told, f"words about the image of {pod}")
