"""The contract of all engines on a real cluster."""

import pytest

from tests.engines import test_contract
from tests.engines.applications import environ
from tests.engines.test_contract import *  # noqa: F403
from tfapp.engines import open_engine


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def engine(home, spark):
    engine = open_engine("spark", home, environ())
    engine.use(spark)
    yield engine
    for application in engine.list():
        engine.stop(application.name, "the test is over", force=True)


def test_logs_outlive_the_application(engine):
    """As that of all engines; here a task is of the instance that its container was made for."""
    test_contract.logs_of_fixed_containers_stay(engine)
