"""`tfapp history` over runs that a coordinator has kept."""

import dataclasses
import json
import time

import pytest

from tests.cli.commands.call import call
from tests.cli.test_json_output import document
from tests.coordinator.test_history import JOB, STATUS
from tests.page.applications import embedded, instance
from tfapp.contract.history import PastRun
from tfapp.coordinator.history import Limits, keep
from tfapp.storage.place import place_at

HOUR = 3600.0
NOW = time.time()


@pytest.fixture
def history(tmp_path, utc):
    """Five runs of two users, a folder of somebody else's, and one that is not whole."""
    place = place_at(str(tmp_path / "kept"))
    runs = (
        ("one", "ann", "SUCCEEDED", 40, ("nightly",), {"loss": 0.25}),
        ("two", "ann", "FAILED", 30, (), {"loss": 0.5, "accuracy": 0.75}),
        ("two", "bob", "SUCCEEDED", 20, ("nightly", "x"), {"loss": "nan"}),
        ("hostile", "bob", "KILLED", 10, (), {"\x1b[2J": 1.0}),
        ("one", "ann", "FAILED", 1, (), {"loss": 0.125}),
    )
    for number, (name, user, state, hours, tags, metrics) in enumerate(runs):
        worker = instance("worker/0", state, step=number, seconds=1.5, metrics=metrics)
        ended = NOW - hours * HOUR
        status = dataclasses.replace(
            STATUS, name=name, state=state, started=ended - 90, updated=ended, instances=(worker,)
        )
        job = dataclasses.replace(JOB, name=name, user=user, tags=tags)
        keep(place, job, status, {"worker/0": "last words"}, f"id_{number}", Limits())
    (tmp_path / "kept" / "notes").mkdir()
    broken = PastRun(int(NOW), int(NOW), "FAILED", "eve", "broken", "id_9")
    place.write(broken.folder, "report.html", b"")

    def ask(*words, code=0, environ=None):
        given = ("--dir", "kept") if environ is None else ()
        found, a_shell = call(tmp_path, None, "history", *words, *given, environ=environ or {})
        assert found == code, a_shell.err.text
        return a_shell

    return ask


def ids(shell) -> list[str]:
    return [line.split()[-1] for line in shell.out.text.splitlines()[1:]]


def test_all_are_listed_the_newest_first(history, tmp_path):
    assert ids(history()) == ["id_9", "id_4", "id_3", "id_2", "id_1", "id_0"]
    assert ids(history(environ={"TFAPP_HISTORY": str(tmp_path / "kept")}))[-1] == "id_0"
    line = history("--tag", "x").out.text.splitlines()[1].split()
    assert (line[:3], line[-3:]) == (["two", "SUCCEEDED", "bob"], ["1m30s", "nightly,x", "id_2"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--state", "failed"), "9 4 1"),
        (("--user", "ann"), "4 1 0"),
        (("--name", "two"), "2 1"),
        (("--tag", "nightly"), "2 0"),
        (("--since", "15h"), "9 4 3"),
        (("--older-than", "15h"), "2 1 0"),
        (("--since", "35h", "--older-than", "15h"), "2 1"),
        (("--beyond", "0B", "--user", "bob"), "3 2"),
        (("--beyond", "90KiB"), "3 2 1 0"),
        (("--state", "KILLED", "--user", "ann"), ""),
    ],
    ids=str,
)
def test_filters(history, words, found):
    assert ids(history(*words)) == [f"id_{number}" for number in found.split()]


def test_runs_are_compared(history):
    lines = history("id_0", "two", "id_1").out.text.splitlines()
    assert lines[0].split() == ["METRIC", "id_0", "id_2", "id_1"]
    table = {line[:19].strip(): line[19:].split("  ") for line in lines[1:]}
    rows = {name: [cell.strip() for cell in cells if cell.strip()] for name, cells in table.items()}
    assert rows["user"] == ["ann", "bob", "ann"]
    assert rows["worker/0 loss"] == ["0.25", "nan", "0.5"]
    assert rows["worker/0 accuracy"] == ["-", "-", "0.75"]
    told = document(history("id_0", "two", "--format", "json").out.text, "history")["runs"]
    assert [(run["id"], run["metrics"]["worker/0 loss"]) for run in told] == [
        ("id_0", 0.25),
        ("id_2", "nan"),
    ]


def test_one_run_is_shown_and_its_report_written(history, tmp_path):
    text = history("hostile").out.text
    assert "state  " in text
    assert "KILLED" in text
    assert "\x1b" not in text
    history("id_2", "-o", "two.html")
    shown = embedded((tmp_path / "two.html").read_text())
    assert (shown["name"], shown["logs"][0]["text"]) == ("two", "last words")


def test_what_there_is_not(history):
    assert "has no run 'id_7'" in history("id_7", code=44).err.text
    assert "it is not whole" in history("broken", code=44).err.text
    assert "which history is not known" in history(environ={"A": "b"}, code=2).err.text
    assert "-o writes the report of one run" in history("-o", "x", code=2).err.text


def test_runs_are_removed(history, tmp_path):
    assert "all runs of everybody" in history("--remove", code=2).err.text
    history("--user", "ann", "--older-than", "15h", "--remove")
    history("hostile", "--remove")
    assert ids(history()) == ["id_9", "id_4", "id_2"]
    assert (tmp_path / "kept" / "notes").is_dir()


def test_a_damaged_run_is_told(history, tmp_path):
    (folder,) = (tmp_path / "kept").glob("*,id_0")
    for content in ("{", "[]", json.dumps({"name": 3}), "[" * 100_000):
        (folder / "status.json").write_text(content)
        assert "is damaged" in history("id_0", code=53).err.text
