"""Metrics among what travels."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Beat, ExitReport
from tfapp.contract.status import (
    MAX_DIAGNOSTICS_JSON,
    ApplicationStatus,
    InstanceStatus,
    Moment,
    Outputs,
    Verdict,
    format_diagnostics,
    parse_diagnostics,
)
from tfapp.contract.usage import Usage

REPORT = ExitReport(1, "w/0", "w_0", "h", Exit(0, None, "exit", "exit code 0"), False, "", 1.0)
INSTANCE = InstanceStatus("w/0", "w", "worker", "RUNNING")


@pytest.mark.parametrize("value", [Beat(1, 1, "running"), REPORT, INSTANCE], ids=lambda v: type(v))
def test_they_travel_and_are_none_in_what_an_older_tfapp_wrote(value):
    measured = dataclasses.replace(
        value,
        metrics={"loss": 0.5, "rate": "nan"},
        step=12,
        steps_per_second=3.5,
        total=50,
        usage=Usage(9.5, 1.25, None, 2, 1, 2, 3, 4, 5),
    )
    text = encode(measured)
    json.loads(text, parse_constant=pytest.fail)  # strict JSON
    assert type(value).from_dict(json.loads(text)) == measured
    old = {
        name: content
        for name, content in json.loads(text).items()
        if name not in ("metrics", "step", "steps_per_second", "total", "usage")
    }
    assert type(value).from_dict(old) == value


def ended(workers: int, metrics: int) -> ApplicationStatus:
    """An application of a chief and `workers`, each with so many metrics."""
    values = {f"train/metric_{number}": 0.12345678 for number in range(metrics)}
    names = ["chief/0", *(f"worker/{number}" for number in range(workers))]
    return ApplicationStatus(
        "app",
        "SUCCEEDED",
        1,
        1.0,
        2.0,
        tuple(
            InstanceStatus(
                name,
                name.partition("/")[0],
                name.partition("/")[0],
                "SUCCEEDED",
                exports={"g": {"host_port": "127.0.0.1:4001"}},
                metrics=values,
                step=7,
                outputs=Outputs("/kept/app.outputs", (("model.txt", 7),), 1, 7),
            )
            for name in names
        ),
        Verdict("SUCCEEDED", 0, "Done."),
        timeline=tuple(Moment(float(n), f"moment {n}") for n in range(8)),
    )


@pytest.mark.parametrize(
    ("workers", "metrics", "kept"),
    [
        (2, 25, {"chief/0", "worker/0", "worker/1"}),
        (28, 25, {"chief/0", "worker/0"}),
        (70, 25, set()),
    ],
)
def test_the_verdict_s_line_has_room_for_the_metrics_of_few(workers, metrics, kept):
    status = ended(workers, metrics)
    text = format_diagnostics(status)
    assert len(text.rpartition("\n")[2].encode()) <= MAX_DIAGNOSTICS_JSON
    found = parse_diagnostics(text)
    assert found is not None
    assert found.verdict == status.verdict
    assert {i.instance for i in found.instances if i.metrics} == kept
    assert len(found.instances) == workers + 1
    assert {i.step for i in found.instances} == {7}
    assert all(i.outputs for i in found.instances) == (workers < 70)
    if kept:
        assert found.timeline == status.timeline
        assert all(i.exports for i in found.instances)
