"""TensorFlow on a real HDFS."""

import pytest

from tests.clusters.yarn.conftest import program
from tests.storage import programs


@pytest.mark.trains
def test_tensorflow_uses_hdfs_as_its_own_file_system(cluster):
    base = f"{cluster.storage}/user/{program.user()}/operations"
    programs.check_operations(base, cluster.environ())


@pytest.mark.trains
def test_what_must_not_happen(cluster):
    """Each row of the program. Its NameNode is stopped for a while."""
    base = f"{cluster.storage}/user/{program.user()}/faults"
    namenode = cluster._processes()["namenode"].pid
    wrong = programs.wrong("hdfs_faults", base, str(namenode), environ=cluster.environ())
    assert {row: words for row, words in wrong.items() if words} == {}
    assert len(wrong) == 8


@pytest.mark.trains
def test_programs_that_are_killed_while_they_write(cluster):
    base = f"{cluster.storage}/user/{program.user()}/killed"
    programs.check_killed(base, cluster.environ())
