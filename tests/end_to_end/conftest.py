import pytest

from tests.end_to_end.command_line import CommandLine


@pytest.fixture
def tfapp(tmp_path, tfapp_home):
    """`tfapp` in an empty folder; afterwards nothing of its applications lives."""
    work = tmp_path / "work"
    work.mkdir()
    command_line = CommandLine(work, tfapp_home)
    yield command_line
    assert command_line.kill_living() == []
