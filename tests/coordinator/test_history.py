"""What the coordinator keeps of a run in the history."""

import json

import pytest

from tests.coordinator.world import job
from tests.page.applications import embedded, instance
from tfapp.contract.history import MAX_LOGS, PastRun, past_runs
from tfapp.contract.status import ApplicationStatus, Verdict
from tfapp.coordinator.history import MOST_REMOVED, NOT_TOLD, Limits, keep
from tfapp.errors import UnavailableError
from tfapp.frozen import replace
from tfapp.storage.place import place_at

DAY = 86400
END = 1_800_000_000
JOB = replace(job("chief=1 worker=2"), name="app", user="ann", tags=("nightly",))
STATUS = ApplicationStatus(
    *("app", "FAILED", 2, END - 60.7, END + 0.9),
    (instance("chief/0", "KILLED"), instance("worker/0", "FAILED"), instance("worker/1", "LOST")),
    Verdict("FAILED", 65, "Failed: worker/0: exit code 3"),
)
LOGS = {"chief/0": "steps", "worker/0": "boom"}


def test_a_run_is_kept_whole(tmp_path):
    keep(place_at(str(tmp_path)), JOB, STATUS, LOGS, "id_1", Limits())
    (folder,) = tmp_path.iterdir()
    found = PastRun.of(folder.name)
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert found == PastRun(END, END - 61, "FAILED", "ann", "app", "id_1", size, ("nightly",)), (
        "times are whole seconds"
    )
    told = json.loads((folder / "status.json").read_bytes())
    assert ApplicationStatus.from_dict(told) == STATUS
    assert json.loads((folder / "logs.json").read_bytes()) == LOGS
    shown = embedded((folder / "report.html").read_text())
    assert [(log["instance"], log["text"], log["missing"]) for log in shown["logs"]] == [
        ("worker/0", "boom", ""),
        ("worker/1", "", NOT_TOLD),
        ("chief/0", "steps", ""),
    ]
    assert (shown["id"], shown["tags"], shown["live"]) == ("id_1", ["nightly"], False)


def test_logs_have_a_bound_and_those_that_failed_come_first(tmp_path):
    logs = {"chief/0": "c" * MAX_LOGS, "worker/0": "boom"}
    keep(place_at(str(tmp_path)), JOB, STATUS, logs, "id_1", Limits())
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "logs.json").read_bytes()) == {"worker/0": "boom"}
    shown = embedded((folder / "report.html").read_text())["logs"]
    assert "longer than 4 MiB" in shown[2]["missing"]


def test_old_runs_of_the_same_user_go(tmp_path):
    """By age and by size, a few at each end, and the one that has just ended never."""
    place = place_at(str(tmp_path))

    def old(days: int, user: str = "ann") -> PastRun:
        at = END - days * DAY
        run = PastRun(at, at - 5, "FAILED", user, f"old{days}", f"id{days}", 1 << 20)
        place.write(run.folder, "status.json", b"{}")
        return run

    for days in range(1, 41):
        old(days)
    others = old(100, "bob")

    def left(**limits) -> list[str]:
        keep(place, JOB, STATUS, LOGS, "new", Limits(**limits))
        found = past_runs(place.names())
        assert others in found
        return [run.name for run in found if run.user == "ann"]

    assert len(left()) == 41
    assert left(age=30.5 * DAY) == ["app", *(f"old{n}" for n in range(1, 31))]
    beyond = left(size=5 << 20)
    assert beyond == ["app", *(f"old{n}" for n in range(1, 31 - MOST_REMOVED))]
    assert left(size=5 << 20) == ["app", "old1", "old2", "old3", "old4"]
    assert left(size=1) == ["app"]


def test_a_failure_says_whether_the_run_is_there(tmp_path):
    place = place_at(str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / PastRun(5, 0, "FAILED", "ann", "old", "id").folder).write_text("no folder")
    with pytest.raises(UnavailableError, match="older runs stay in it: .*Not a directory"):
        keep(place, JOB, STATUS, LOGS, "id_1", Limits(age=DAY))
    assert [run.name for run in past_runs(place.names())] == ["app", "old"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="the run is not in it: "):
        keep(place_at(str(tmp_path / "file")), JOB, STATUS, LOGS, "id_1", Limits())
