"""What must not happen on S3, each a row. Those of HDFS are in
`tests/clusters/yarn/test_storage.py`."""

import time
from pathlib import Path

import pytest

from tests.debian import Packages, UnavailableError
from tests.lacking import lacking, needs_storage
from tests.programs import printed
from tests.storage import programs, s3_server

pytestmark = [needs_storage, pytest.mark.trains]
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


@pytest.fixture(scope="module")
def clock():
    """The variable of a process whose clock FAKETIME moves."""
    packages = Packages(s3_server.cache_folder() / "faketime", ("libfaketime",), ("faketime",))
    try:
        packages.prepare()
    except UnavailableError as error:
        lacking(f"this machine has no libfaketime: {error}")
    folders = (packages.root, Path("/"))
    found = (path for root in folders for path in root.glob("usr/lib/*/faketime/libfaketime.so.1"))
    return {"LD_PRELOAD": str(next(found)), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


SAVES = """
import os, time
from tfapp.storage import base, folders, objects
store, url = objects.Objects(os.environ), "s3://tests/clock"
try:
    folders.put(store, [b"abc"], url)
    print(int(time.time()), store.stat(url).length)
except base.Failed as error:
    print(int(time.time()), error.code, error)
"""


@pytest.mark.parametrize("minutes", [-10, 10, -20, 20])
def test_a_clock_that_is_wrong(server, clock, minutes):
    """By 10 minutes it does not matter; by more than 15 the server refuses, and the error says what
    to do."""
    environ = {**server[0], **clock, "FAKETIME": f"{60 * minutes:+d}"}
    told = printed("-c", SAVES, environ=environ, without="AWS_", cwd=programs.ROOT)
    seen, _, said = told.strip().partition(" ")
    assert abs(int(seen) - time.time() - 60 * minutes) < 60
    if abs(minutes) == 10:
        assert said == "3"
    else:
        assert said.startswith("7 ") and "RequestTimeTooSkewed" in said
        assert "Set the clock of this machine" in said
