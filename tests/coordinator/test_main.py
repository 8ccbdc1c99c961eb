"""The coordinator as a process, beside a real master, with runners that have no programs."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
import skein

import tfapp
from tests.contract_values import make_failure_policy, make_limits
from tests.coordinator import pretend_attempts
from tests.coordinator.world import job
from tests.engines.applications import (
    SMALL,
    CompiledLike,
    ended,
    eventually,
    local_engine,
    service,
    stock_client,
)
from tfapp.contract.encoding import encode
from tfapp.contract.names import JOB_FILE, RUNNING
from tfapp.contract.status import STARTS, ApplicationStatus
from tfapp.frozen import replace
from tfapp.processes import with_environment

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("pretend_runner.py")
# Containers do not inherit the path of the tests, which need not be that of the installed tfapp.
THIS_TFAPP = {"PYTHONPATH": str(Path(tfapp.__file__).parents[1])}
COORDINATOR = (
    "import os, sys; from tfapp.coordinator.main import main; sys.exit(main([], os.environ))"
)


@pytest.fixture
def engine(tmp_path):
    with local_engine(tmp_path / "home") as engine:
        yield engine


def create(engine, tmp_path, behaviours, job_text=b"", environ=None, **changes):
    """One instance of each component that has a behaviour. `environ`: more for each process;
    `changes`: of the job."""
    environ = {**THIS_TFAPP, **(environ or {})}
    layout = " ".join(f"{name}=1" for name in behaviours)
    limits = make_limits(gang=60.0, settle=0.2, stop_grace=5.0)
    chosen = replace(job(layout, limits=limits), name="app", **changes)
    job_file = tmp_path / "job.json"
    job_file.write_bytes(job_text or encode(chosen))
    script = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(COORDINATOR)}"
    services = {
        name: service(shlex.join(["exec", sys.executable, str(RUNNER), behaviour]), env=environ)
        for name, behaviour in behaviours.items()
    }
    for one in services.values():
        one.allow_failures = True
    files = {JOB_FILE: str(job_file)}
    master = skein.Master(script=script, resources=SMALL, files=files, env=environ)
    spec = skein.ApplicationSpec(name="app", master=master, services=services)
    engine.create("app", CompiledLike(spec, chosen))


ENDS = {
    "success": (
        {"chief": "exit:0", "ps": "serve", "tensorboard": "die"},
        ("SUCCEEDED", 0),
        "Succeeded: chief/0 ended with exit code 0 after ",
    ),
    "failure": (
        {"chief": "serve", "worker": "exit:3"},
        ("FAILED", 65),
        "Failed: worker/0 on 127.0.0.1 ended with exit code 3 in generation 1, 1 s after its start",
    ),
    "loss": (
        {"chief": "serve", "worker": "die"},
        ("FAILED", 65),
        "Failed: worker/0 on 127.0.0.1 was lost in generation 1: its container ended without a "
        "report",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(engine, tmp_path, name):
    behaviours, end, summary = ENDS[name]
    create(engine, tmp_path, behaviours)
    verdict = ended(engine).status.verdict
    assert (verdict.state, verdict.exit_code) == end
    assert verdict.summary.startswith(summary)


def running(engine):
    eventually(lambda: engine.find("app").status.state == RUNNING, "running")


def test_a_signal_to_the_coordinator_stops_the_application(engine, tmp_path):
    create(engine, tmp_path, {"chief": "serve"})
    running(engine)
    home = os.fsencode(tmp_path)
    found = with_environment(
        lambda env: (
            env.get(b"LOCAL_DIRS", b"").startswith(home) and b"SKEIN_CONTAINER_ID" not in env
        )
    )
    (pid, _) = sorted(process.pid for process in found)  # its watchdog is the second
    os.kill(pid, signal.SIGTERM)
    verdict = ended(engine).status.verdict
    assert (verdict.state, verdict.summary) == ("KILLED", "Killed: its coordinator was ended.")


def test_a_bug_ends_the_application_and_says_so(engine, tmp_path):
    create(engine, tmp_path, {"chief": "serve"})
    running(engine)
    with stock_client(engine) as client:
        client.kv["tfapp.report.exit.chief/0"] = b"no JSON at all"
    verdict = ended(engine).status.verdict
    assert (verdict.state, verdict.exit_code) == ("FAILED", 50)
    assert verdict.summary.startswith("Failed: a bug in tfapp ended the coordinator: JSONDecode")
    log = next(log.path for log in engine.logs("app") if log.instance == "coordinator")
    assert "Traceback" in log.read_text()


def test_a_coordinator_without_its_job_is_reported_by_the_master(engine, tmp_path):
    create(engine, tmp_path, {"chief": "serve"}, job_text=b"no JSON at all")
    application = ended(engine)
    assert application.status.verdict.state == "FAILED"
    assert "coordinator" in application.status.verdict.summary


class Recorded:
    """Attempts of an application whose record is in a folder."""

    def __init__(self, engine, tmp_path):
        self.engine = engine
        self.tmp_path = tmp_path
        self.folder = tmp_path / "kept"
        self.folder.mkdir()

    def begins(self, number, behaviours, generation=1, attempts=2):
        environ = {
            pretend_attempts.ENV_ATTEMPT: str(number),
            pretend_attempts.ENV_FOLDER: str(self.folder),
            "TEST_GENERATION": str(generation),
            "PYTHONPATH": os.pathsep.join(str(p) for p in (ROOT, *THIS_TFAPP.values())),
        }
        changes = {"nodes": pretend_attempts.__name__, "class_path": "/hadoop"}
        create(
            self.engine,
            self.tmp_path,
            behaviours,
            environ=environ,
            attempts=attempts,
            failure=make_failure_policy(max_restarts=0, max_losses=5),
            **changes,
        )

    def record(self):
        return ApplicationStatus.from_dict(json.loads((self.folder / "record").read_bytes()))

    def told(self):
        """What YARN would have been told; None where the master tells it."""
        file = self.folder / "end"
        return json.loads(file.read_bytes()) if file.exists() else None


@pytest.fixture
def recorded(engine, tmp_path):
    return Recorded(engine, tmp_path)


def test_a_success_is_recorded_and_the_master_tells_it(recorded):
    recorded.begins(1, {"chief": "exit:0"})
    assert ended(recorded.engine).status.verdict.state == "SUCCEEDED"
    assert recorded.record().decided.state == "SUCCEEDED"
    assert recorded.told() is None


def test_a_failure_is_told_while_another_attempt_would_follow(recorded):
    recorded.begins(1, {"chief": "exit:3"})
    verdict = ended(recorded.engine).status.verdict
    assert recorded.record().decided == verdict
    told = recorded.told()
    assert told["state"] == "FAILED"
    assert told["diagnostics"].startswith(f"{verdict.summary}\n")


def test_the_last_attempt_leaves_the_end_to_the_master(recorded):
    recorded.begins(2, {"chief": "exit:3"}, generation=2)
    assert ended(recorded.engine).status.verdict.state == "FAILED"
    assert recorded.told() is None


def test_another_attempt_goes_on_from_the_record(recorded):
    recorded.begins(1, {"chief": "serve"})
    running(recorded.engine)
    eventually(lambda: [m for m in recorded.record().timeline if m.kind == STARTS], "record")
    before = recorded.record()
    recorded.engine.stop("app", "lost", force=True)
    (recorded.folder / "record").write_bytes(encode(before))
    recorded.engine.destroy("app")
    recorded.begins(2, {"chief": "exit:0"}, generation=2)
    status = ended(recorded.engine).status
    assert (status.verdict.state, status.generation, status.losses) == ("SUCCEEDED", 2, 1)
    assert status.started == before.started
    told = [moment.text for moment in status.timeline]
    assert told[: len(before.timeline)] == [moment.text for moment in before.timeline]
    assert "the application's master was lost and is back" in told


def test_another_attempt_says_why_the_one_before_was_lost(recorded):
    (recorded.folder / "why").write_text("it had too little memory")
    recorded.begins(2, {"chief": "exit:0"}, generation=2)
    told = [moment.text for moment in ended(recorded.engine).status.timeline]
    assert "the application's master was lost and is back: it had too little memory" in told


def test_another_attempt_without_a_record_is_charged_all_the_same(recorded):
    recorded.begins(2, {"chief": "exit:0"}, generation=2)
    status = ended(recorded.engine).status
    assert (status.verdict.state, status.generation, status.losses) == ("SUCCEEDED", 2, 1)


def test_another_attempt_finds_a_verdict_and_starts_nothing(recorded):
    recorded.begins(1, {"chief": "exit:3"})
    first = ended(recorded.engine).status
    recorded.engine.destroy("app")
    recorded.begins(2, {"chief": "exit:0"}, attempts=3)
    status = ended(recorded.engine).status
    assert (status.verdict, status.generation) == (first.verdict, 1)
    assert (status.losses, status.timeline) == (0, first.timeline)
    assert recorded.told()["state"] == "FAILED"


def test_a_record_that_cannot_be_read_is_no_verdict(recorded):
    """The master ends without one, and YARN tries another."""
    (recorded.folder / "away").touch()
    recorded.begins(2, {"chief": "exit:0"}, attempts=3)
    status = ended(recorded.engine).status
    assert "coordinator" in status.verdict.summary
    assert "a bug in tfapp" not in status.verdict.summary
    assert not (recorded.folder / "record").exists()
    assert recorded.told() is None
