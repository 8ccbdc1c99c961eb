import pytest

from tests.runner.application import Application


@pytest.fixture
def application(tmp_path):
    application = Application(tmp_path)
    yield application
    application.end()
