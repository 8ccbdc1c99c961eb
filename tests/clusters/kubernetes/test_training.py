"""Training with TensorFlow across nodes."""

from pathlib import Path

import pytest

from tests.clusters.kubernetes.pod_images import TENSORFLOW
from tests.end_to_end.trainings import Digits

pytestmark = pytest.mark.trains


def flags(folder: Path) -> tuple[str, ...]:
    """For pods with TensorFlow that see `folder` under its own path."""
    return (
        *("--option", "site.global.docker.image", TENSORFLOW),
        *("--option", "site.global.kubernetes.volumes", f"hostPath:{folder}:{folder}"),
        *("--option", "site.global.kubernetes.cpu.request", "10m"),
    )


def test_two_workers_train_on_two_nodes(tfapp, shared_volume):
    """What a lost node means for them: test_engine.py, and tests/clusters/yarn/test_faults.py for
    TensorFlow."""
    digits = Digits(tfapp, shared_volume, "digits-multiworker", *flags(shared_volume))
    digits.trains()
    pods = tfapp.pods("digits")
    nodes = {tfapp.node(pod) for name, pod in pods.items() if name}
    assert nodes == {1, 2}
    status = digits.enough()
    assert (status["generation"], status["restarts"], status["losses"]) == (1, 0, 0)
