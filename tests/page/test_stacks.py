import dataclasses

from tests.page.applications import restarted
from tfapp.contract.encoding import encode
from tfapp.contract.stacks import Frame, InstanceStacks, ProcessStacks, Stacks, ThreadStack
from tfapp.page.stacks import last_taken, shown


def told(instance: str, line: int, generation: int = 2) -> InstanceStacks:
    thread = ThreadStack((Frame("load", "data.py", line, True),))
    process = ProcessStacks(7, "python train.py", "handler", "", threads=(thread,))
    container = instance.replace("/", "_")
    return InstanceStacks("id", instance, container, generation, (process,))


def test_those_of_programs_that_still_run_are_shown_by_place():
    other = dataclasses.replace(told("worker/1", 3), container="an earlier one")
    values = [encode(one) for one in (told("worker/0", 12), other, told("worker/2", 12))]
    found = last_taken([*values, b"{}", encode(told("worker/1", 3, 1))], restarted())
    (group,) = shown(found)["groups"]
    assert group["words"] == "2 of 2 are in load at data.py:12"
    assert group["instances"] == ["worker/0", "worker/2"]
    assert group["lines"] == [
        "worker/0, process 7: python train.py",
        "by handler",
        "  main thread",
        "    load at data.py:12",
    ]


def test_the_times_of_the_oldest_and_the_newest_are_shown():
    taken = [dataclasses.replace(told(f"worker/{n}", 12), taken=n) for n in (0, 7.5, 3, 9)]
    assert shown(Stacks((), tuple(taken)))["taken"] == [3, 9]


def test_there_may_be_none():
    assert shown(last_taken([], restarted())) == {"groups": [], "taken": [], "missing": []}
    assert shown(Stacks((), (), ("ps/0",)))["missing"] == ["ps/0"]
