"""TensorFlow on a real HDFS."""

import pytest

from tests.clusters.yarn.conftest import program
from tests.storage import programs


@pytest.mark.trains
def test_tensorflow_uses_hdfs_as_its_own_file_system(cluster):
    base = f"{cluster.storage}/user/{program.user()}/operations"
    programs.check_operations(base, cluster.environ())
