"""Progress of programs, and the end of those that show none."""

import os
import queue
import threading

import pytest

from tests.runner.driving import eventually
from tfapp.runner.progress import Progress, Saved, watch

PATIENCE = 120  # seconds


class Pretended:
    """A program and a clock."""

    def __init__(self):
        self.written = 0
        self.alive = True
        self.now = 100.0

    def clock(self) -> float:
        return self.now


@pytest.fixture
def program():
    return Pretended()


def touch(path):
    """Later than before, whatever the clock's resolution is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.touch()
    os.utime(path, ns=(before + 1, before + 1))


def test_a_program_that_shows_nothing_hangs(program, tmp_path):
    progress = Progress(program, [tmp_path / "file"], 10.0, program.clock)
    program.now += 9.9
    assert progress.look() is None
    program.now += 0.1
    exit = progress.look()
    assert exit is not None
    assert (exit.reason, exit.text) == (
        "hang",
        "for 10 s it wrote nothing, and nothing changed in its checkpoint folder and its "
        "TFAPP_PROGRESS_FILE (site.global.progress.timeout)",
    )


def test_the_time_begins_anew_with_each_sign(program, tmp_path):
    folder = tmp_path / "checkpoints"
    (folder / "deep" / "er").mkdir(parents=True)
    touch(folder / "deep" / "er" / "events")
    (folder / "round").symlink_to(folder)
    file = tmp_path / "progress"
    progress = Progress(program, [file, folder], 10.0, program.clock)

    def write():
        program.written += 1

    signs = {
        "output": write,
        "the file": lambda: touch(file),
        "the file again": lambda: touch(file),
        "a checkpoint": lambda: touch(folder / "ckpt-1.index"),
        "an old file deep in it": lambda: touch(folder / "deep" / "er" / "events"),
    }
    for name, sign in signs.items():
        program.now += 9
        sign()
        assert progress.look() is None, name
    program.now += 10
    assert progress.look() is not None


def test_it_is_watched_as_long_as_it_lives(program):
    found: queue.SimpleQueue = queue.SimpleQueue()
    watch(program, [], 0.0, 0.01, found.put)
    assert found.get(timeout=PATIENCE).reason == "hang"
    program.alive = False
    watch(program, [], 0.0, 0.0, found.put)
    names = lambda: [thread.name for thread in threading.enumerate()]  # noqa: E731
    eventually(lambda: "tfapp-progress" not in names(), "the thread has ended")
    assert found.empty()


def test_what_a_program_saves_is_seen(tmp_path):
    folder, file = tmp_path / "checkpoints", tmp_path / "progress"
    (folder / "train").mkdir(parents=True)
    touch(folder / "ckpt-1.index")
    saved = Saved([file, folder])
    touch(folder / "train" / "events.out.tfevents.17.host.v2")
    assert not saved.anything()
    touch(folder / "train" / "ckpt-2.index")
    assert saved.anything()
    saved = Saved([file, folder])
    assert not saved.anything()
    touch(file)
    assert saved.anything()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_folder_that_does_not_answer_may_hold_something_new(monkeypatch, tmp_path, when):
    monkeypatch.setattr("tfapp.runner.progress._LOOK_LIMIT", 0.1)
    gate, look = threading.Event(), Saved._look
    hanging = iter([when == "before", when == "after"])
    monkeypatch.setattr(Saved, "_look", lambda saved: next(hanging) and gate.wait() or look(saved))
    assert Saved([tmp_path]).anything()
    gate.set()


def test_a_folder_of_more_files_than_are_looked_at_may_hold_something_new(monkeypatch, tmp_path):
    monkeypatch.setattr("tfapp.runner.progress._MOST_ENTRIES", 3)
    touch(tmp_path / "ckpt-1.index")
    assert not Saved([tmp_path]).anything()
    touch(tmp_path / "ckpt-2.index")
    assert Saved([tmp_path]).anything()
