"""Training with TensorFlow across nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.trainings import EXAMPLES, Digits
from tests.end_to_end.trainings import TENSORFLOW as TENSORFLOW_PACKAGE
from tests.kubernetes.command import OnKubernetes
from tests.kubernetes.pod_images import TENSORFLOW

pytestmark = pytest.mark.trains


ACCURACY = re.compile(r"^test accuracy (0\.\d+)$", re.MULTILINE)


def flags(folder: Path) -> tuple[str, ...]:
    """For pods with TensorFlow that see `folder` under its own path."""
    return (
        *("--option", "site.global.docker.image", TENSORFLOW),
        *("--option", "site.global.kubernetes.volumes", f"hostPath:{folder}:{folder}"),
        *("--option", "site.global.kubernetes.cpu.request", "10m"),
    )


@pytest.fixture
def tfapp(cluster, namespace, tmp_path):
    tfapp = OnKubernetes(tmp_path, tmp_path / "home", cluster, namespace)
    yield tfapp
    for name in tfapp.names():
        tfapp.ok("destroy", name, "--force")


def test_a_node_crashes_in_the_middle(tfapp, shared_volume):
    """Its instance gets another pod on the other node, and the digits are learned."""
    digits = Digits(tfapp, shared_volume, "digits-multiworker", *flags(shared_volume))
    digits.trains()
    pods = tfapp.pods("digits")
    nodes = {name: tfapp.node(pod) for name, pod in pods.items()}
    assert {nodes["worker-0"], nodes["worker-1"]} == {1, 2}
    lost = 3 - nodes[""]  # not the master's
    tfapp.cluster.kill_node(lost)
    try:
        digits.forms(2)
        digits.trains()
        status = digits.enough()
    finally:
        tfapp.cluster.start_node(lost)
    assert (status["restarts"], status["losses"]) == (0, 1)


def test_a_chief_a_parameter_server_and_an_evaluator_on_two_nodes(tfapp, shared_volume):
    example = EXAMPLES / "digits-parameter-server"
    done = tfapp(
        *("create", "servers", "--appdef", TENSORFLOW_PACKAGE),
        *("--template", example / "appConfig.yaml", "--resources", example / "resources.yaml"),
        *("--files", example / "train.py", *flags(shared_volume)),
        *("--option", "site.global.user.checkpoint.prefix", shared_volume),
    )
    assert done.code == 0, done.err
    assert float(ACCURACY.findall(tfapp.ok("logs", "servers", "chief/0"))[-1]) > 0.9
    assert {tfapp.node(pod) for pod in tfapp.pods("servers").values()} == {1, 2}
