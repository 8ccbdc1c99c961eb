"""The coordinator as a process, beside a real master, with runners that have no programs."""

import dataclasses
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
import skein

import tfapp
from tests.contract_values import make_limits
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
from tfapp.processes import with_environment

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


def create(engine, tmp_path, behaviours, job_text=b""):
    """One instance of each component that has a behaviour."""
    layout = " ".join(f"{name}=1" for name in behaviours)
    limits = make_limits(gang=60.0, settle=0.2, stop_grace=5.0)
    chosen = dataclasses.replace(job(layout, limits=limits), name="app")
    job_file = tmp_path / "job.json"
    job_file.write_bytes(job_text or encode(chosen))
    script = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(COORDINATOR)}"
    services = {
        name: service(shlex.join(["exec", sys.executable, str(RUNNER), behaviour]), env=THIS_TFAPP)
        for name, behaviour in behaviours.items()
    }
    for one in services.values():
        one.allow_failures = True
    files = {JOB_FILE: str(job_file)}
    master = skein.Master(script=script, resources=SMALL, files=files, env=THIS_TFAPP)
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
    assert len(found) == 1
    os.kill(found[0].pid, signal.SIGTERM)
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
