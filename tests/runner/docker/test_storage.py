"""An unmodified program in run mode docker that keeps its checkpoints on S3."""

import pytest

from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.trainings import RUNNER
from tests.runner.docker.flags import in_docker
from tests.storage import s3_server
from tests.storage.programs import check_doctor
from tests.storage.saving import Saving

pytestmark = pytest.mark.trains


@pytest.fixture
def tfapp(engine, tmp_path):
    (tmp_path / "work").mkdir()
    tfapp = CommandLine(tmp_path / "work", tmp_path / "home")
    yield tfapp
    tfapp.ok("destroy", "saving", "--force")


@pytest.mark.weekly
def test_a_lost_container_goes_on_from_s3(tfapp, engine, tmp_path, monkeypatch):
    with s3_server.running(tmp_path / "s3", ("bucket",)) as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        given = [word for name in environ for word in ("-e", name)]
        flags = ("-w", 1, "--checkpoints", "s3://bucket/saved", *given)
        host = ("--option", "site.global.docker.host", engine.host)
        saving = Saving(tfapp, *flags, *host, *in_docker())
        saved = saving.saves()
        saving.check_looks()
        saving.signal("worker/0", RUNNER)
        saving.check_it_goes_on("s3://bucket/saved/saving", saved)
        assert engine.containers() == []
        check_doctor(tfapp, "s3://bucket/checked", *given, *host, *in_docker())
        assert engine.containers() == []
