"""How applications end, with real processes: Skein's final status, and the verdict."""

import sys

import pytest

from tests.engines.applications import (
    FOREVER,
    compiled,
    ended,
    eventually,
    processes_under,
    run_folder,
    service,
    stock_client,
)
from tfapp.contract.exit import Exit
from tfapp.contract.status import Cause
from tfapp.engines.machine.state import read_ending

OK = "Application completed successfully."
DRIVER_OK = "Application driver completed successfully."
SERVICE_FAILED = "Failure in service w, see logs for more information."


def driver_failed(code):
    return f"Application driver failed with exit code {code}, see logs for more information."


@pytest.mark.parametrize(
    ("master", "script", "status", "diagnostics"),
    [
        ("", "exit 0", "SUCCEEDED", OK),
        ("", "exit 3", "FAILED", SERVICE_FAILED),
        ("", "kill -9 $$", "FAILED", SERVICE_FAILED),
        (FOREVER, "exit 1", "FAILED", SERVICE_FAILED),
        ("exit 0", FOREVER, "SUCCEEDED", DRIVER_OK),
        ("exit 7", FOREVER, "FAILED", driver_failed(7)),
        ("kill -9 $$", FOREVER, "FAILED", driver_failed(137)),
        ("false; true", FOREVER, "SUCCEEDED", DRIVER_OK),  # not strict, as on YARN
    ],
)
def test_final_status(engine, tmp_path, master, script, status, diagnostics):
    engine.create("app", compiled(master=master, w=service(script)))
    last = ended(engine)
    ending = read_ending(run_folder(engine))
    assert (ending.final_status, ending.diagnostics) == (status, diagnostics)
    assert last.status.state == status
    assert processes_under(tmp_path) == []


def test_a_killed_master_script_is_explained(engine):
    engine.create("app", compiled(master="kill -TERM $$", w=service()))
    ended(engine)
    assert "exit code 143" in read_ending(run_folder(engine)).diagnostics


def test_a_coordinator_that_dies_is_named_with_its_last_lines(engine):
    engine.create("app", compiled(master="echo one; echo two >&2; exit 3", w=service()))
    verdict = ended(engine).status.verdict
    assert verdict.exit_code == 65
    assert verdict.summary == (
        "The coordinator was lost: it ended with exit code 3 and gave no verdict."
    )
    assert verdict.cause == Cause("", 0, "", "", Exit(3, None, "exit", "exit code 3"), "one\ntwo")


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "KILLED"])
def test_shutdown_by_a_client(engine, status):
    engine.create("app", compiled(master=FOREVER, w=service()))
    with stock_client(engine) as client:
        client.shutdown(status, "because")
    last = ended(engine)
    assert (last.status.state, last.status.verdict.summary) == (status, "because")
    ending = read_ending(run_folder(engine))
    assert (ending.final_status, ending.diagnostics) == (status, "because")


def test_shutdown_without_diagnostics(engine):
    engine.create("app", compiled(w=service()))
    with stock_client(engine) as client:
        client.shutdown()
    ended(engine)
    assert read_ending(run_folder(engine)).diagnostics == "Shutdown requested by user."


def test_a_script_that_shuts_down_is_given_time_to_end(engine, tmp_path):
    """It ignores the SIGTERM that follows, as a coordinator does."""
    script = tmp_path / "master.py"
    script.write_text(
        "import pathlib, signal, skein, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "skein.ApplicationClient.from_current().shutdown('SUCCEEDED', 'done')\n"
        "print('after', flush=True)\n"
    )
    engine.create("app", compiled(master=f"exec {sys.executable} {script}", w=service()))
    assert ended(engine).status.verdict.summary == "done"
    assert run_folder(engine).driver_log.read_text() == "after\n"


def test_containers_have_a_moment_after_sigterm(engine):
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    engine.create("app", compiled(w=service(script)))
    log = run_folder(engine).logs / "w_0" / "w.log"
    eventually(lambda: log.exists() and log.read_text() == "up\n")
    engine.stop("app", "enough", force=True)
    assert log.read_text().splitlines()[-1] == "bye"


def test_a_guard_has_time_to_clear_up_after_its_container(engine, tmp_path):
    there, cleared = tmp_path / "there", tmp_path / "cleared"
    guard = f"touch {there}; tail --pid=$PPID --follow /dev/null; touch {cleared}"
    script = f"TFAPP_GUARD=1 setsid bash -c '{guard}' &\nuntil [ -e {there} ]; do sleep 0.01; done"
    engine.create("app", compiled(w=service(script)))
    ended(engine)
    assert cleared.exists()


def test_only_logs_and_the_ending_remain(engine):
    engine.create("app", compiled(master="exit 0", w=service("mkdir -m 0 locked; sleep 100")))
    ended(engine)
    run = run_folder(engine).path
    assert sorted(path.name for path in run.iterdir()) == [
        "logs",
        "run.json",
        "spec.pb",
        "state.json",
        "verdict.json",
    ]
