"""How applications end, with real processes: Skein's final status, and the verdict."""

from __future__ import annotations

import sys
import time

import pytest
import skein

from tests.engines.applications import (
    FOREVER,
    compiled,
    containers,
    ended,
    eventually,
    processes_under,
    run_folder,
    service,
    stock_client,
    wait_for_containers,
)
from tfapp.contract.exit import Exit
from tfapp.contract.verdict import Cause
from tfapp.engines.credentials import new_credentials
from tfapp.engines.local.state import read_ending

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


class TestContainers:
    """Skein's client sees what its own master would show."""

    def test_states_and_numbers(self, engine):
        engine.create("app", compiled(master=FOREVER, w=service(instances=1)))
        with stock_client(engine) as client:
            wait_for_containers(client, 1, "RUNNING")
            added = client.scale("w", 3)
            assert [(c.id, c.state) for c in added] == [("w_1", "REQUESTED"), ("w_2", "REQUESTED")]
            wait_for_containers(client, 3, "RUNNING")
            assert [c.id for c in client.scale("w", 1)] == ["w_0", "w_1"]
            assert client.scale("w", 1) == []
            assert [c.id for c in client.scale("w", delta=1)] == ["w_3"]
            wait_for_containers(client, 2, "RUNNING")
            client.kill_container("w_3")
            client.kill_container("w_3")
            assert containers(client) == ["w_2"]
            killed = client.get_containers(states=["KILLED"])
            assert [(c.id, c.exit_message) for c in killed] == [
                (id, "Killed by user request.") for id in ("w_0", "w_1", "w_3")
            ]
            assert [c.id for c in client.scale("w", delta=-5)] == ["w_2"]
            assert containers(client) == []

    def test_times_and_places(self, engine):
        created = engine.create("app", compiled(master=FOREVER, w=service("exit 0")))
        with stock_client(engine) as client:
            (container,) = wait_for_containers(client, 1, "SUCCEEDED") and client.get_containers(
                states=["SUCCEEDED"]
            )
        assert container.yarn_container_id == (
            created.id.replace("application", "container") + "_01_000002"
        )
        assert container.yarn_node_http_address == "127.0.0.1:0"
        assert container.start_time <= container.finish_time
        assert container.exit_message == "Completed successfully."

    @pytest.mark.parametrize(
        "call",
        [
            lambda client: client.scale("x", 1),
            lambda client: client.scale("w", -5),
            lambda client: client.scale("w", count=1, delta=1),
            lambda client: client.add_container("x"),
            lambda client: client.kill_container("x_0"),
            lambda client: client.kill_container("w_77"),
            lambda client: client.get_containers(services=["w", "x"]),
            lambda client: client._call("SetProgress", skein.proto.SetProgressRequest(progress=2)),
        ],
    )
    def test_wrong_requests(self, shared, call):
        with pytest.raises(ValueError):
            call(shared)

    def test_add_container_with_an_environment_that_survives_a_restart(self, engine):
        script = 'echo "$A $B"; test "$B" = two'
        engine.create(
            "app",
            compiled(
                master=FOREVER,
                w=service(script, instances=0, env={"A": "one", "B": "two"}, max_restarts=1),
            ),
        )
        with stock_client(engine) as client:
            assert client.add_container("w").id == "w_0"
            assert client.add_container("w", {"B": "three"}).id == "w_1"
        assert ended(engine).status.state == "FAILED"
        texts = [log.path.read_text() for log in engine.logs("app") if log.instance[:2] == "w/"]
        assert texts == ["one two\n", "one three\n", "one three\n"]

    @pytest.mark.parametrize("allow_failures", [True, False])
    def test_restarts_are_counted(self, engine, allow_failures):
        failing = service("exit 1", max_restarts=2, allow_failures=allow_failures)
        engine.create("app", compiled(master=FOREVER, w=failing))
        if allow_failures:
            with stock_client(engine) as client:
                wait_for_containers(client, 3, "FAILED")
                assert containers(client) == []
                client.shutdown()
        assert ended(engine).status.state == ("SUCCEEDED" if allow_failures else "FAILED")
        assert len([x for x in engine.logs("app") if x.instance.startswith("w/")]) == 3

    def test_depends(self, engine):
        late = service("echo late", depends={"early"})
        engine.create("app", compiled(master=FOREVER, early=service(), late=late))
        with stock_client(engine) as client:
            assert wait_for_containers(client, 1, "SUCCEEDED") == ["late_0"]

    def test_a_file_that_is_gone_fails_the_container_only(self, engine, tmp_path):
        gone = tmp_path / "gone.txt"
        gone.write_text("")
        files = {"f": skein.File(str(gone))}
        broken = service(instances=0, files=files, allow_failures=True)
        engine.create("app", compiled(master=FOREVER, w=broken))
        gone.unlink()
        with stock_client(engine) as client:
            client.add_container("w")
            wait_for_containers(client, 1, "FAILED")
            (container,) = client.get_containers(states=["FAILED"])
            assert container.exit_message.startswith("Failed to start, exception raised: ")
            assert "gone.txt" in container.exit_message


class TestApplication:
    def test_specification(self, shared):
        spec = shared.get_specification()
        assert isinstance(spec, skein.ApplicationSpec)
        assert spec.services["box"].script == FOREVER
        assert spec.tags == {"t1", "t2"}

    def test_progress(self, shared):
        shared.set_progress(0.5)

    def test_pages(self, shared):
        page = shared.ui.add_page("board", "http://127.0.0.1:6006", "Board")
        assert page.route == "board"
        assert {route: p.target for route, p in shared.ui.get_pages().items()} == {
            "board": "http://127.0.0.1:6006"
        }
        for route, target in [("board", "http://x/"), ("a/b", "http://x/"), ("c", "no url")]:
            with pytest.raises(ValueError):
                shared.ui.add_page(route, target)
        shared.ui.remove_page("board")
        with pytest.raises(ValueError):
            shared.ui.remove_page("board")
        assert shared.ui.get_pages() == {}

    def test_nobody_without_the_credentials_gets_in(self, shared):
        certificate, key = new_credentials(time.time())
        stranger = skein.Security(cert_bytes=certificate, key_bytes=key)
        client = skein.ApplicationClient(shared.address, shared.id, stranger)
        with client, pytest.raises(skein.ConnectionError):
            client.kv.get("a")
