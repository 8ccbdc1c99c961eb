import dataclasses

import pytest

from tests.coordinator.world import job


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("/mnt/models/", "/mnt/models/j"),
        ("hdfs:///models", "hdfs:///models/j"),
        ("${AGENT_WORK_ROOT}/models", ""),  # each container has its own
        ("", ""),
    ],
)
def test_the_folder_of_checkpoints_follows_from_the_prefix(prefix, folder):
    (worker,) = job("worker=1").components
    worker = dataclasses.replace(worker, site={"site.global.user.checkpoint.prefix": prefix})
    assert dataclasses.replace(job("worker=1"), components=(worker,)).checkpoint_dir == folder
