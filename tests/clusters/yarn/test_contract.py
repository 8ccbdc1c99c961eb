"""The contract of all engines on a real cluster, for a user of its own."""

import subprocess

import pytest

from tests.clusters.yarn.conftest import User
from tests.engines.test_contract import *  # noqa: F403
from tfapp.engines import open_engine

WHO = "carol"


@pytest.fixture(scope="module")
def carol(cluster, tmp_path_factory):
    folder = f"/user/{WHO}"
    for words in (("-mkdir", "-p", folder), ("-chown", WHO, folder)):
        subprocess.run(["hdfs", "dfs", *words], env=cluster.environ(), check=True, timeout=180)
    environ = {**cluster.environ(), "HADOOP_USER_NAME": WHO}
    carol = User(tmp_path_factory.mktemp(WHO), environ)
    yield carol
    carol.end_drivers()


@pytest.fixture
def home(carol):
    return carol.home


@pytest.fixture
def engine(carol):
    engine = open_engine("yarn", carol.home, carol.environ)
    yield engine
    for application in engine.list():
        engine.stop(application.name, "the test is over", force=True)
        engine.destroy(application.name)
