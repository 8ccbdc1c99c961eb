"""What must not happen on S3, each a row. Those of HDFS are in
`tests/clusters/yarn/test_storage.py`."""

import pytest

from tests.storage import programs, s3_server

pytestmark = pytest.mark.trains
ROWS = (
    "a_busy_server a_slow_server a_broken_connection an_upload_whose_end_is_lost refusals "
    "a_quota_that_ends_in_the_middle a_wrong_secret no_bucket two_writers many_files "
    "five_gigabytes names checkpoints a_store_that_is_away_at_the_start"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The variables for a program that uses it, and the folder with its buckets."""
    folder = tmp_path_factory.mktemp("s3") / "buckets"
    with s3_server.running(folder, ("tests", "killed")) as environ:
        yield environ, folder


@pytest.fixture(scope="module")
def wrong(server):
    """What went wrong in each row; one program for all."""
    environ, folder = server
    return programs.wrong("faults", str(folder), environ=environ)


@pytest.mark.parametrize("row", ROWS.split())
def test_s3(wrong, row):
    assert wrong[row] == "", wrong[row]


def test_each_row_is_a_test(wrong):
    assert list(wrong) == ROWS.split()


def test_programs_that_are_killed_while_they_write(server):
    programs.check_killed("s3://killed/programs", server[0])
