"""TensorFlow on a real S3 server."""

import pytest

from tests.storage import programs, s3_server

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_server.running(tmp_path_factory.mktemp("s3") / "buckets", ("tests",)) as environ:
        yield environ


def test_tensorflow_uses_s3_as_its_own_file_system(s3):
    programs.check_operations("s3://tests/operations", s3)


@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("raise", 1)])
def test_a_program_ends_in_the_middle_of_a_pipeline_with_its_own_code(s3, how, code):
    done = programs.run("leaving", "s3a://tests/leaving", how, environ=s3)
    assert (done.returncode, done.stdout) == (code, "leaves\n"), done.stderr
    assert how != "raise" or "ValueError: as asked for" in done.stderr
