import dataclasses
import itertools
import threading
import time
from pathlib import Path

import pytest

from tests.cli.played_engine import PlayedEngine, instance, shell, status
from tfapp.contract.log_times import TimesWriter
from tfapp.engines.base import LogFile
from tfapp.errors import ForbiddenError, UnavailableError
from tfapp.launch import logs
from tfapp.launch.logs import (
    LIST_EVERY,
    LineTail,
    LogPrinter,
    OwnLines,
    Tail,
    TimedTail,
    primary_instance,
    select_logs,
)


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


@pytest.mark.parametrize("chunk", [1, 2, 3, 64])
@pytest.mark.parametrize(
    ("text", "count", "shown"),
    [
        ("a\nbb\n\nccc\n", 0, ""),
        ("a\nbb\n\nccc\n", 1, "ccc\n"),
        ("a\nbb\n\nccc\n", 3, "bb\n\nccc\n"),
        ("a\nbb\n\nccc\n", 4, "a\nbb\n\nccc\n"),
        ("a\nbb\n\nccc\n", 9, "a\nbb\n\nccc\n"),
        ("a\nbb\nunfinished", 2, "bb\nunfinished"),
        ("\n\n", 1, "\n"),
        ("", 3, ""),
    ],
)
def test_the_last_lines(tmp_path, monkeypatch, chunk, text, count, shown):
    monkeypatch.setattr("tfapp.launch.logs._CHUNK", chunk)
    path = tmp_path / "log"
    path.write_text(text)
    tail = Tail(path, count)
    assert b"".join(tail.read_new()).decode() == shown
    with path.open("a") as file:
        file.write("more\n")
    assert b"".join(tail.read_new()) == b"more\n"
    tail.close()


def lines(tail, final=False):
    return list(itertools.chain.from_iterable(tail.read_lines(final)))


def test_a_line_tail_waits_for_whole_lines(tmp_path):
    path = tmp_path / "log"
    tail = LineTail(path)
    path.write_bytes(b"a\nb")
    assert lines(tail) == [b"a\n"]
    with path.open("ab") as file:
        file.write(b"c\nd")
    assert lines(tail) == [b"bc\n"]
    assert lines(tail, final=True) == [b"d\n"]
    assert lines(tail, final=True) == []
    tail.close()


@pytest.mark.parametrize("stamped", [False, True])
def test_a_log_is_never_whole_in_memory(tmp_path, utc, monkeypatch, stamped):
    """Lines, one that is longer than what is kept, and one that has not ended."""
    monkeypatch.setattr(logs, "_MOST", 1000)
    monkeypatch.setattr(logs, "_CHUNK", 100)
    path = tmp_path / "log"
    text = b"".join(b"line %d\n" % n for n in range(1000)) + b"x" * 2500 + b"\nlast"
    path.write_bytes(text)
    TimesWriter(path).note(0, 1000.0)
    tail = TimedTail(path, stamped=True) if stamped else LineTail(path)
    found = list(tail.read_lines(final=True))
    stamp = b"1970-01-01T00:16:40.000+00:00 " if stamped else b""
    assert max(sum(len(line) - len(stamp) for line in each) for each in found) <= 1100
    shown = b"".join(line[len(stamp) :] for each in found for line in each)
    assert shown.replace(b"\n", b"") == text.replace(b"\n", b"")
    assert shown.startswith(b"line 0\nline 1\n")
    assert shown.endswith(b"x\nlast\n")
    assert list(tail.read_lines(final=True)) == []
    tail.close()


def timed_log(path):
    """Lines of 1000.5, 1000.5 and 1010 seconds, the last one unfinished."""
    times = TimesWriter(path)
    for text, moment in ((b"one\ntwo\n", 1000.5), (b"thr", 1010.0)):
        with path.open("ab") as file:
            times.note(file.tell(), moment)
            file.write(text)


def test_lines_behind_their_times(tmp_path, utc):
    path = tmp_path / "log"
    tail = TimedTail(path, stamped=True)
    assert lines(tail) == []
    timed_log(path)
    first = b"1970-01-01T00:16:40.500+00:00 "
    assert lines(tail) == [first + b"one\n", first + b"two\n"]
    with path.open("ab") as file:
        TimesWriter(path).note(file.tell(), 1020.0)
        file.write(b"ee\nfour")
    assert lines(tail) == [b"1970-01-01T00:16:50.000+00:00 three\n"]
    # It began with what came at 1020.
    assert lines(tail, final=True) == [b"1970-01-01T00:17:00.000+00:00 four\n"]
    assert not tail.timeless
    tail.close()


@pytest.mark.parametrize(
    ("since", "last", "shown"),
    [
        (0, None, [b"one\n", b"two\n", b"three\n"]),
        (1000.5, 2, [b"two\n", b"three\n"]),
        (1005, 9, [b"three\n"]),
        (1010, None, [b"three\n"]),
        (1015, None, []),
    ],
)
def test_lines_since_a_moment(tmp_path, since, last, shown):
    path = tmp_path / "log"
    timed_log(path)
    tail = TimedTail(path, last, since)
    found = lines(tail)
    with path.open("ab") as file:
        TimesWriter(path).note(file.tell(), 1010.05)
        file.write(b"ee\n")
    assert found + lines(tail) == shown
    with path.open("ab") as file:
        TimesWriter(path).note(file.tell(), 2000.0)
        file.write(b"later\n")
    assert lines(tail) == [b"later\n"]
    tail.close()


def test_a_log_without_times_is_shown(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    tail = TimedTail(path, since=1e9, stamped=True)
    assert (lines(tail), tail.timeless) == ([b"- one\n"], True)
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


def test_an_instance_that_is_late_is_not_the_primary_one():
    late, there = instance("worker/0", "REQUESTED"), instance("worker/1", "RUNNING", task=0)
    without = dataclasses.replace(status("RUNNING", late, there), joined={"worker/0": 2})
    assert primary_instance(without) == there
    assert primary_instance(dataclasses.replace(without, generation=2)) == late, "it has joined"
    everybody = {"worker/0": 2, "worker/1": 2}
    assert primary_instance(dataclasses.replace(without, joined=everybody)) == late


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


class Scene:
    """A printer of all logs, its clock, and how often the engine was asked which there are."""

    def __init__(self, folder):
        self.now, self.asked = 100.0, 0
        self.engine = PlayedEngine(folder, [status("RUNNING", instance("worker/0", "RUNNING"))])
        self.shell = shell(folder)
        list_logs = self.engine.logs

        def counted(name, run=None):
            self.asked += 1
            return list_logs(name, run)

        self.engine.logs = counted
        self.printer = LogPrinter(
            self.shell, self.engine, self.engine.find("app"), "", clock=lambda: self.now
        )


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    yield scene
    scene.printer.close()


def test_as_long_as_there_are_no_logs_it_asks_each_time(scene):
    for _ in range(3):
        scene.printer.print_new()
    assert scene.asked == 3


def test_a_growing_log_is_printed_without_asking_again(scene):
    for text in ("one\n", "two\n", "three\n"):
        scene.engine.write_log("worker/0", text)
        scene.printer.print_new()
    assert scene.shell.out.text == "worker/0 | one\nworker/0 | two\nworker/0 | three\n"
    assert scene.asked == 1


@pytest.mark.parametrize(("later", "final"), [(LIST_EVERY, False), (0.0, True)])
def test_a_log_that_comes_later_is_found(scene, later, final):
    scene.engine.write_log("worker/0", "one\n")
    scene.printer.print_new()
    scene.engine.write_log("worker/1", "two\n")
    scene.printer.print_new()
    assert scene.shell.out.text == "worker/0 | one\n"
    scene.now += later
    scene.printer.print_new(final)
    assert scene.shell.out.text == "worker/0 | one\nworker/1 | two\n"


def test_an_engine_that_does_not_answer_is_asked_again(scene):
    """What is copied already is printed meanwhile, and nothing of it twice."""
    answers = iter([None, UnavailableError("the API is away"), None])
    list_logs, asked = scene.engine.logs, threading.Semaphore(0)

    def logs(name, run=None):
        asked.release()
        answer = next(answers, None)
        if answer is not None:
            raise answer
        return list_logs(name, run)

    scene.engine.logs = logs
    scene.engine.write_log("worker/0", "one\n")
    with scene.printer.listing_aside():
        for _ in range(2):
            assert asked.acquire(timeout=60)
        scene.printer.print_new()
        assert scene.shell.out.text == "worker/0 | one\n"
        scene.engine.write_log("worker/0", "two\n")
        scene.printer.print_new()
        assert asked.acquire(timeout=60)
    scene.printer.print_new(final=True)
    assert scene.shell.out.text == "worker/0 | one\nworker/0 | two\n"


@pytest.mark.parametrize("error", [ForbiddenError("you may not"), ValueError("a bug")])
def test_an_error_that_asking_again_does_not_mend(scene, error):
    called = threading.Event()

    def logs(name, run=None):
        called.set()
        raise error

    scene.engine.logs = logs
    with pytest.raises(type(error), match=str(error)), scene.printer.listing_aside():
        assert called.wait(60)
        for _ in range(6000):
            scene.printer.print_new()
            time.sleep(0.01)


def test_two_containers_share_no_line(tmp_path):
    """The first has ended in the middle of a line."""
    engine = PlayedEngine(tmp_path, [status("RUNNING", instance("worker/0", "RUNNING"))])
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"one\ntw")
    second.write_bytes(b"o")
    logs = [LogFile("worker/0", path) for path in (first, second)]
    engine.logs = lambda name, run=None: tuple(logs)
    a_shell = shell(tmp_path)
    printer = LogPrinter(a_shell, engine, engine.find("app"), "worker/0")
    for _ in range(2):
        printer.print_new(final=True)
    with second.open("ab") as file:
        file.write(b"ne\n")
    printer.print_new(final=True)
    printer.close()
    assert a_shell.out.text == "one\ntw\none\n"
