"""The names of the folders in a history."""

import dataclasses

import pytest

from tfapp.contract.history import PastRun, past_runs, surplus

RUN = PastRun(
    *(1_795_817_151, 1_795_817_149, "SUCCEEDED", "ann", "mnist"),
    *("application_1795817149320_0001", 24310, ("nightly", "a b,c+d/é%")),
)
HOSTILE = [
    "",
    "notes.txt",
    ".20261127T220551Z,2,FAILED,ann,mnist,1,,id.0a1b2c3d.unfinished",
    "20261127T220551Z,2,RUNNING,ann,mnist,1,,id",  # no end
    "20261127T220551Z,two,FAILED,ann,mnist,1,,id",
    "20261327T220551Z,2,FAILED,ann,mnist,1,,id",
    "20261127T220551Z,2,FAILED,ann=1B[2J,mnist,1,,id",  # would clear a terminal
    "20261127T220551Z,2,FAILED,ann,mnist,1,,id,more",
]


def test_a_name_tells_all_that_is_listed():
    assert RUN.folder == (
        "20261127T220551Z,2,SUCCEEDED,ann,mnist,24310,"
        "nightly+a=20b=2Cc=2Bd=2F=C3=A9=25,application_1795817149320_0001"
    )
    assert PastRun.of(RUN.folder) == RUN


@pytest.mark.parametrize("name", HOSTILE)
def test_other_names_are_none(name):
    assert PastRun.of(name) is None
    assert past_runs([name, RUN.folder]) == [RUN]


def test_a_name_has_room_on_every_file_system():
    long = dataclasses.replace(RUN, name="n" * 100, user="u" * 32, tags=("t" * 30,) * 9)
    assert len(long.folder.encode()) <= 250
    found = PastRun.of(long.folder)
    assert found is not None
    assert (found.name, found.user, set(found.tags)) == (long.name, long.user, {"t" * 30})


def test_the_newest_comes_first_and_the_oldest_goes():
    runs = [dataclasses.replace(RUN, ended=RUN.ended + n, size=10) for n in range(5)]
    newest_first = [*reversed(runs)]
    assert past_runs(run.folder for run in runs) == newest_first
    now = RUN.ended + 10.0
    assert surplus(newest_first, now, 0, 0) == []
    assert surplus(newest_first, now, 8.5, 0) == [runs[1], runs[0]]
    assert surplus(newest_first, now, 0, 39) == [runs[1], runs[0]]
    assert surplus(newest_first, now, 0, 9) == newest_first
