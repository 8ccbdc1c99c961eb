"""A program's metrics from its own process to the coordinator's store."""

import json
import time

import pytest

from tests.runner.application import LIMITS
from tests.runner.driving import eventually
from tests.runner.event_writer import event, record, simple
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Beat
from tfapp.contract.names import BEAT_PREFIX

REPORTS = """
import os, pathlib, time
from tfapp.program.reporting import report

began = time.monotonic()
step = 0
while time.monotonic() < began + 2:
    step += 1
    report({"loss": 1 / step, "t0ken": 1.0}, step)
pathlib.Path(os.environ["TFAPP_LOG_DIR"], "step").write_text(str(step))
"""

WRITES = """
import os, sys, time
os.makedirs("logs/train")
with open("logs/train/events.out.tfevents.1.host.1.0.v2", "wb", buffering=0) as file:
    for line in {records!r}:
        file.write(line)
    while not os.path.exists("go on"):
        time.sleep(0.01)
    file.write({last!r})
"""


def beat(application) -> Beat:
    value = application.connection.get(f"{BEAT_PREFIX}worker/0")
    return Beat.from_dict(json.loads(value)) if value else Beat(0, 0, "")


@pytest.mark.slow
def test_a_program_that_reports_all_the_time_costs_no_beat_more(application):
    (application.root / "work").mkdir()
    stale = '{"step": 7, "time": 1, "metrics": {"old": 1}}'
    (application.root / "work" / "tfapp-metrics.json").write_text(stale)
    began = time.monotonic()
    application.run(REPORTS, redact=("t0ken",))
    eventually(lambda: beat(application).step, "a beat has the step")
    assert set(beat(application).metrics) == {"loss", "[secret]"}
    eventually(lambda: beat(application).steps_per_second, "a beat has the speed")
    report = application.exit_report()
    last = int((application.folder / "step").read_text())
    assert (report.exit, report.step) == (Exit(0, None, "exit", "exit code 0"), last)
    assert report.metrics == {"loss": 1 / last, "[secret]": 1.0}
    assert report.steps_per_second is not None
    assert report.steps_per_second > last / 20  # it has counted for 2 s
    # One for each change of the state and for each interval.
    sequence = beat(application).sequence
    assert sequence <= (time.monotonic() - began) / LIMITS.heartbeat + 5


def test_what_is_written_for_tensorboard_arrives_up_to_the_program_s_end(application):
    records = [
        record(event(step, 1.5e9 + step, simple("epoch_loss", 1 / (step + 1)))) for step in range(4)
    ]
    application.run(WRITES.format(records=records[:3], last=records[3]))
    eventually(lambda: beat(application).epoch == 3, "a beat has what was written first")
    assert beat(application).metrics == {"train/epoch_loss": 0.3333333}
    (application.root / "work" / "go on").touch()
    report = application.exit_report()
    assert (report.metrics, report.step, report.epoch) == ({"train/epoch_loss": 0.25}, None, 4)
    points = report.points["train/epoch_loss"]
    assert [(time - 1.5e9, step) for time, step, _ in points] == [(n, n) for n in range(4)]


def test_a_new_program_begins_without_the_metrics_of_the_old_one(application):
    application.run(
        "import os, signal\n"
        "from tfapp.program.reporting import flush, report\n"
        "if os.environ['TFAPP_GENERATION'] == '1':\n"
        "    report({'loss': 0.5}, 10)\n"
        "    flush()\n"
        "    signal.pause()\n"
    )
    eventually(lambda: beat(application).step == 10, "the first program's step")
    application.announce(2)
    application.form(application.answer(2))
    report = application.exit_report(2)
    assert (report.metrics, report.step, report.steps_per_second) == ({}, None, None)
