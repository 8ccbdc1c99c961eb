from __future__ import annotations

from pathlib import Path

from tests.cli.played_engine import instance, status
from tfapp.cli.outputs import LineTail, Tail, primary_instance, select_logs
from tfapp.engines.base import LogFile


def test_a_tail_gives_what_is_new(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path)
    assert list(tail.read_new()) == []
    path.write_bytes(b"one")
    assert list(tail.read_new()) == [b"one"]
    with path.open("ab") as file:
        file.write(b"\xfftwo\n")
    assert list(tail.read_new()) == [b"\xfftwo\n"]
    assert list(tail.read_new()) == []
    tail.close()


def test_a_line_tail_waits_for_whole_lines(tmp_path):
    path = tmp_path / "log"
    tail = LineTail(path)
    path.write_bytes(b"a\nb")
    assert tail.read_lines() == [b"a\n"]
    with path.open("ab") as file:
        file.write(b"c\nd")
    assert tail.read_lines() == [b"bc\n"]
    assert tail.read_lines(final=True) == [b"d\n"]
    assert tail.read_lines(final=True) == []
    tail.close()


def test_the_primary_instance_is_the_chief_else_the_first_worker_else_the_first():
    chief, worker, ps = (instance(f"{name}/0", "RUNNING") for name in ("chief", "worker", "ps"))
    assert primary_instance(status("RUNNING", ps, worker, chief)) == chief
    assert primary_instance(status("RUNNING", ps, worker)) == worker
    assert primary_instance(status("RUNNING", ps)) == ps
    assert primary_instance(status("ACCEPTED")) is None


def test_logs_are_selected_by_instance_or_component():
    logs = tuple(
        LogFile(name, Path(name)) for name in ("worker/0", "worker/1", "ps/0", "coordinator")
    )
    selected = {
        what: [log.instance for log in select_logs(logs, what)]
        for what in ("", "worker", "worker/1", "coordinator", "work")
    }
    assert selected == {
        "": ["worker/0", "worker/1", "ps/0", "coordinator"],
        "worker": ["worker/0", "worker/1"],
        "worker/1": ["worker/1"],
        "coordinator": ["coordinator"],
        "work": [],
    }
