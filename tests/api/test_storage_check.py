"""`tfapp doctor --storage` from a container of the local engine, with a real S3 server. On Docker,
YARN, Kubernetes and Spark it is beside what else is tested there with URLs."""

import pytest

from tests.end_to_end.command_line import CommandLine
from tests.storage import s3_server
from tests.storage.programs import check_doctor, doctor

pytestmark = pytest.mark.trains
URL = "s3://bucket/folder"


@pytest.fixture
def tfapp(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    with s3_server.running(tmp_path / "s3", ("bucket",)) as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        given = [word for name in environ for word in ("-e", name)]
        yield CommandLine(tmp_path / "work", tmp_path / "home"), given


def test_a_container_has_other_credentials_than_this_machine(tfapp, tmp_path):
    tfapp, given = tfapp
    check_doctor(tfapp, URL, *given)
    code, (there, credentials, write) = doctor(tfapp, URL, *given, "-e", "S3_SECRET_KEY=wrong")
    assert (code, there["level"], credentials["level"], write["level"]) == (
        *(53, "ok", "ok", "problem"),
    )
    assert write["subject"] == "storage in a container: write"
    assert "SignatureDoesNotMatch" in write["text"]
    assert "A container has the variables of -e and --secret-env-file" in write["mend"]
    assert tfapp.names() == []
    assert not any(one.is_file() for one in (tmp_path / "s3/bucket").rglob("*"))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("site.global.storage", "false"), "cannot open s3://: site.global.storage is false"),
        (("site.global.stop.graze", "1"), "1 error in the package: "),
    ],
)
def test_why_no_container_checks_it(tfapp, option, said):
    tfapp, _ = tfapp
    code, (found,) = doctor(tfapp, URL, "--option", *option)
    assert (code, found["subject"], found["level"]) == (53, "storage in a container", "problem")
    assert said in found["text"]
    assert tfapp.names() == []
