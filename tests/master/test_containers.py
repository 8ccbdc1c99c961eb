"""Containers, as Skein's own client asks for them."""

import time

import pytest
import skein

from tests.engines.applications import (
    FOREVER,
    await_containers,
    compiled,
    containers,
    ended,
    service,
    stock_client,
    wait_for_containers,
)
from tfapp.engines.credentials import new_credentials
from tfapp.engines.definition import TAG

OK = "Application completed successfully."
DRIVER_OK = "Application driver completed successfully."
SERVICE_FAILED = "Failure in service w, see logs for more information."


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
            wait_for_containers(client, 1, "SUCCEEDED")
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
        assert await_containers(engine, 1, "SUCCEEDED") == ["late_0"]

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
        assert spec.tags == {TAG, "t1", "t2"}

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
