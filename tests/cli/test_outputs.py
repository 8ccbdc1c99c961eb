from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.played_engine import instance, status
from tfapp.cli.outputs import LineTail, OwnLines, Tail, primary_instance, select_logs
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


@pytest.mark.parametrize(
    ("pieces", "program", "own"),
    [
        ([b"a\ntfapp: b\nc\n"], b"a\nc\n", b"tfapp: b\n"),
        ([b"tf", b"app", b": b", b"\nc"], b"c", b"tfapp: b\n"),
        ([b"tf", b"app\n", b"tfapp"], b"tfapp\ntfapp", b""),
        ([b"10%", b"\r20%\ntfapp", b": b\n"], b"10%\r20%\n", b"tfapp: b\n"),
        ([b"not tfapp: a\n\ntfapp:b\n"], b"not tfapp: a\n\ntfapp:b\n", b""),
    ],
)
def test_own_lines_are_told_from_the_programs(pieces, program, own):
    lines = OwnLines()
    parts = [part for piece in pieces for part in lines.split(piece)]
    assert b"".join(text for is_own, text in parts if not is_own) + lines.rest() == program
    assert b"".join(text for is_own, text in parts if is_own) == own


def test_only_what_may_be_an_own_line_is_held_back():
    lines = OwnLines()
    assert list(lines.split(b"10%")) == [(False, b"10%")]
    assert list(lines.split(b" tf")) == [(False, b" tf")]
    assert list(lines.split(b"\ntf")) == [(False, b"\n")]
    assert list(lines.split(b"x")) == [(False, b"tfx")]


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
