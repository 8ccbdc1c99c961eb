"""Where programs are, in words, and in how many bytes."""

import dataclasses
import json

import pytest

from tfapp.contract.encoding import encode
from tfapp.contract.stacks import (
    MAX_PLACE,
    MAX_REPORT,
    Frame,
    InstanceStacks,
    ProcessStacks,
    ThreadStack,
    grouped,
    in_words,
)


def frame(text: str) -> Frame:
    """ "fit keras/trainer.py:320": own are the files without a folder."""
    function, _, place = text.partition(" ")
    file, _, line = place.rpartition(":")
    return Frame(function, file, int(line), "/" not in file)


def thread(*frames: str) -> ThreadStack:
    return ThreadStack(tuple(map(frame, frames)))


def instance(*processes: ProcessStacks, why: str = "") -> InstanceStacks:
    return InstanceStacks("id", "worker/0", "worker_0", 1, processes, why)


def process(*threads: ThreadStack, state: str = "") -> ProcessStacks:
    return ProcessStacks(7, "python train.py", threads=threads, state=state)


TRAIN = "<module> train.py:50"


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        (("load data.py:12", "main train.py:4", TRAIN), "load at data.py:12"),
        (
            ("quick_execute tf/execute.py:53", "fit keras/trainer.py:9")
            + ("error_handler keras/traceback_utils.py:117", "main train.py:41", TRAIN),
            "fit at train.py:41",
        ),
        (("__call__ tf/function.py:7", "step train.py:8"), "step at train.py:8"),
        (("_run tf/session.py:7", "step train.py:8"), "step at train.py:8"),
        (
            ("Model.fit keras/trainer.py:9", "filter.<locals>.handle keras/traceback_utils.py:1")
            + ("Job.<locals>.main train.py:41",),
            "fit at train.py:41",
        ),
        (("Job.load data.py:12", TRAIN), "load at data.py:12"),
        (("wait lib/threading.py:3",), ""),
        ((), ""),
    ],
)
def test_a_thread_is_at_the_innermost_line_of_the_user(stack, place):
    assert thread(*stack).place == place


MAIN = thread("fit keras/trainer.py:9", "main train.py:41")
LOADS = thread("sleepy data.py:12", "__call__ tf/script_ops.py:3")
LIBRARY = thread("wait lib/threading.py:3")


@pytest.mark.parametrize(
    ("found", "place"),
    [
        (instance(process(MAIN, LOADS)), "fit at train.py:41, a thread in sleepy at data.py:12"),
        (instance(process(MAIN, LIBRARY, MAIN)), "fit at train.py:41"),
        (instance(process(LIBRARY, LOADS)), "a thread in sleepy at data.py:12"),
        (instance(process(LIBRARY), process(MAIN)), "fit at train.py:41"),
        (instance(process(LIBRARY)), "wait at lib/threading.py:3"),
        (instance(process(MAIN), process(MAIN)), "fit at train.py:41"),
        (instance(process(state="state D")), "state D"),
        (
            dataclasses.replace(instance(process(MAIN)), troubles=("the disk of /w is full", "b")),
            "fit at train.py:41 (the disk of /w is full; b)",
        ),
        (instance(why="it runs no Python"), "a place that is not known: it runs no Python"),
    ],
)
def test_the_place_of_an_instance(found, place):
    assert found.place == place


def test_equal_places_are_told_together():
    places = [(f"worker/{n}", "fit at train.py:41") for n in range(8) if n != 3]
    places.insert(3, ("worker/3", "load at data.py:12"))
    groups = grouped(places)
    assert [len(group.instances) for group in groups] == [7, 1]
    assert in_words(groups) == "7 of 8 are in fit at train.py:41; worker/3 is in load at data.py:12"
    assert in_words(()) == ""


def test_a_sentence_is_bounded():
    words = in_words(grouped((f"worker/{n}", f"{n}" * MAX_PLACE) for n in range(1000)))
    assert len(words) < 1000
    assert words.endswith("; 996 are elsewhere")
    assert len(instance(process(thread(f"{'x' * 999} {'y' * 999}:1"))).place) == MAX_PLACE


@pytest.mark.parametrize(("processes", "threads", "frames"), [(1, 1, 500), (1, 90, 90), (16, 9, 9)])
def test_a_report_is_bounded_and_keeps_the_innermost_and_the_users(processes, threads, frames):
    deep = (*(f"call{n} package/module_{n}.py:{n}" for n in range(frames)), "main train.py:41")
    found = instance(*[process(*[thread(*deep)] * threads)] * processes)
    fitting = found.fitting()
    assert len(encode(fitting)) <= MAX_REPORT
    (first, *_), *_ = (one.threads for one in fitting.processes)
    assert first.frames[0] == frame(deep[0])
    assert fitting.place == found.place
    assert instance(process(MAIN)).fitting() == instance(process(MAIN))


def test_it_comes_back_from_json():
    found = instance(process(MAIN, LOADS, state="state D"))
    assert InstanceStacks.from_dict(json.loads(encode(found))) == found
