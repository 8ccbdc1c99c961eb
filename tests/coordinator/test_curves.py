"""What a status tells of the course of metrics is bounded, and covers the whole time."""

from __future__ import annotations

import dataclasses

from tfapp.contract.status import (
    MAX_DIAGNOSTICS_JSON,
    ApplicationStatus,
    InstanceStatus,
    Verdict,
    format_diagnostics,
    parse_diagnostics,
)
from tfapp.coordinator.curves import MAX_CURVES, MAX_POINTS, Curves


def instance(name: str, step: int | None, **metrics: float) -> InstanceStatus:
    component = name.partition("/")[0]
    return InstanceStatus(name, component, component, "RUNNING", metrics=metrics, step=step)


def test_each_component_s_first_instance_is_followed():
    curves = Curves()
    for step in range(3):
        both = instance("worker/0", step, loss=1.0 / (step + 1)), instance("worker/1", step, loss=9)
        curves.observe((*both, instance("evaluator/0", None)), float(step))
    (curve,) = curves.known()
    assert (curve.instance, curve.metric) == ("worker/0", "loss")
    assert curve.points == ((0.0, 0, 1.0), (1.0, 1, 0.5), (2.0, 2, 1.0 / 3))


def test_what_is_no_news_is_no_point():
    curves = Curves()
    for second in range(5):
        curves.observe((instance("worker/0", 7, loss=1.0),), float(second))
    assert curves.known()[0].points == ((0.0, 7, 1.0),)


def test_a_long_course_has_few_points_from_begin_to_end():
    curves = Curves()
    for step in range(10_001):
        curves.observe((instance("worker/0", step, loss=float(step)),), float(step))
        assert len(curves.known()[0].points) <= MAX_POINTS + 1
    points = curves.known()[0].points
    assert points[0] == (0.0, 0, 0.0)
    assert points[-1] == (10_000.0, 10_000, 10_000.0)
    gaps = {later[0] - earlier[0] for earlier, later in zip(points[:-1], points[1:-1])}
    assert len(gaps) == 1, "as dense at the begin as at the end"
    assert len(points) > MAX_POINTS / 3


def test_there_are_few_curves():
    curves = Curves()
    curves.observe((instance("worker/0", 1, **{f"m{n}": 1.0 for n in range(32)}),), 1.0)
    assert len(curves.known()) == MAX_CURVES


def test_the_verdict_s_line_keeps_as_many_points_as_fit():
    curves = Curves()
    for step in range(5_000):
        metrics = {f"metric {n}": step / 7 for n in range(MAX_CURVES)}
        curves.observe((instance("worker/0", step, **metrics),), step / 10)
    verdict = Verdict("SUCCEEDED", 0, "Done.")
    status = ApplicationStatus("a", "SUCCEEDED", 1, 1.0, 2.0, (), verdict)
    status = dataclasses.replace(status, curves=curves.known())
    text = format_diagnostics(status)
    found = parse_diagnostics(text)
    assert found is not None
    assert len(text.rpartition("\n")[2].encode()) <= MAX_DIAGNOSTICS_JSON
    assert len(found.curves) == MAX_CURVES
    for before, after in zip(status.curves, found.curves):
        assert after.points[0] == before.points[0]
        assert after.points[-1] == before.points[-1]
        assert len(after.points) > 8
