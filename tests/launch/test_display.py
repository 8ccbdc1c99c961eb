from __future__ import annotations

import dataclasses

from tests.cli.played_engine import SUCCESS, instance, shell, status
from tfapp.launch.display import StateLines, component_states, measures, preparations


def test_a_pipe_gets_few_lines_of_what_is_prepared(tmp_path):
    """And none for the instance whose log is shown: they are in the log."""

    def at(second: float, **preparing: str):
        members = [
            instance(f"{name}/0", "REQUESTED", preparing=preparing.get(name, ""))
            for name in ("worker", "ps")
        ]
        return dataclasses.replace(status("FORMING", *members), updated=1.0e9 + second)

    a_shell = shell(tmp_path)
    lines = StateLines(a_shell)
    for second in range(0, 61, 5):
        text = f"pulling, {second} of 100 MiB"
        lines.update(at(second, worker=text, ps=text), shown="worker/0")
    lines.update(at(65), shown="worker/0")
    assert a_shell.err.text.splitlines() == [
        "app: FORMING",
        "worker: 1 REQUESTED",
        "ps: 1 REQUESTED",
        "ps/0: pulling, 0 of 100 MiB",
        "ps/0: pulling, 30 of 100 MiB",
        "ps/0: pulling, 60 of 100 MiB",
    ]


def test_a_pipe_gets_a_line_of_metrics_now_and_then_and_at_the_end(tmp_path):
    """Those of the first worker alone, and none where nothing is new."""

    def at(second: float, state: str = "RUNNING", step: int | None = None, **more):
        known = {"metrics": {"loss": 1 / (step + 1)}, "step": step} if step is not None else {}
        members = (instance("ps/0", state, step=1), instance("worker/0", state, **known))
        return dataclasses.replace(status(state, *members, **more), updated=1.0e9 + second)

    a_shell = shell(tmp_path)
    lines = StateLines(a_shell)
    for second in range(100):
        lines.update(at(second, step=None if second < 5 else min(second, 40)))
    lines.update(at(101, "SUCCEEDED", step=50, verdict=SUCCESS))
    assert a_shell.err.text.splitlines() == [
        "app: RUNNING",
        "ps: 1 RUNNING",
        "worker: 1 RUNNING",
        "worker/0: step 5, loss 0.1667",
        "worker/0: step 35, loss 0.02778",
        "worker/0: step 40, loss 0.02439",
        "worker/0: step 50, loss 0.01961",
        "app: SUCCEEDED",
        "ps: 1 SUCCEEDED",
        "worker: 1 SUCCEEDED",
    ]


def test_metrics_in_a_line():
    def words(**known) -> str:
        return measures(instance("worker/0", "RUNNING", **known))

    assert words() == ""
    assert words(step=0) == "step 0"
    assert words(epoch=3) == "epoch 3"
    assert words(step=1249, total=5000) == "step 1249 of 5000 (24 %)"
    assert words(step=1200, total=5000, steps_per_second=35.2) == (
        "step 1200 of 5000 (24 %), 35.2 steps/s, 1m48s left"
    )
    assert (
        words(step=5000, total=5000, steps_per_second=1.0) == "step 5000 of 5000 (100 %), 1 steps/s"
    )
    # What a program says wrongly, or only about its own end, is no share of anything.
    for total in (0, -5, 1199):
        assert words(step=1200, total=total, steps_per_second=2.0) == "step 1200, 2 steps/s"
    assert words(epoch=3, total=10) == "epoch 3"
    assert words(metrics={"rate": 0.001}) == "rate 0.001"
    many = {
        "accuracy": 0.91234567,
        "a": 1.0,
        "train/epoch_loss": "nan",
        "validation/epoch_loss": 0.31,
        "z": 2.0,
    }
    assert words(step=1200, steps_per_second=35.123, metrics=many) == (
        "step 1200, 35.1 steps/s, train/epoch_loss nan, validation/epoch_loss 0.31, accuracy 0.9123"
    )


def test_instances_that_come_later_are_counted_and_not_awaited(tmp_path):
    members = (
        instance("worker/0", "REQUESTED", preparing="waiting for 1 GPU"),
        instance("worker/1", "RUNNING", step=3),
        instance("worker/2", "RUNNING"),
    )
    told = dataclasses.replace(status("RUNNING", *members), generation=2, joined={"worker/0": 3})
    a_shell = shell(tmp_path)
    StateLines(a_shell).update(told)
    assert (
        a_shell.err.text.splitlines()
        == [
            "app: RUNNING",
            "worker/1: step 3",
            "app: RUNNING",
            "worker: 2 of 3 RUNNING",
        ][1:]
    )
    assert component_states(told) == {"worker": {"REQUESTED": 1, "RUNNING": 2}}
    assert component_states(told, present=True) == {"worker": {"RUNNING": 2}}
    coming = dataclasses.replace(members[0], state="WAITING", preparing="pulling image")
    told = dataclasses.replace(told, instances=(coming, *members[1:]))
    assert preparations(told) == {"worker": ("worker/0", "pulling image")}, "it has a container"
