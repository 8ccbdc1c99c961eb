"""Calls and what the master answers."""

import pytest

from tests import programs
from tests.protocol.server import PATIENCE
from tfapp.errors import RefusedError, UnavailableError
from tfapp.protocol.connection import ContainerReport, from_current
from tfapp.protocol.watch import Put


def test_values_are_written_read_and_deleted(connection):
    connection.put("a.1", b"one")
    connection.put("a.2", b"two", owner="worker_3")
    connection.update({"a.3": b"three", "b": b"four"})
    connection.update({})
    assert connection.get("a.1") == b"one"
    assert connection.get("missing") is None
    assert (connection.get("a.2"), connection.get("a.3")) == (b"two", b"three")
    assert connection.values("a.") == (b"one", b"two", b"three")
    assert connection.values("c") == ()
    connection.discard("a.1")
    assert connection.get("a.1") is None


def test_containers_are_added_listed_and_killed(connection):
    added = connection.add_container("worker", {"TFAPP_INSTANCE": "worker/0"})
    assert added == "worker_0"
    assert connection.containers() == (
        ContainerReport(
            id="worker_0",
            service="worker",
            state="RUNNING",
            host="127.0.0.1",
            message="worker/0",
            node="127.0.0.1:8042",
        ),
    )
    connection.kill_container(added)


def test_the_application_calls(connection):
    connection.set_progress(0.5)
    connection.add_page("tb", "http://h:1", "TensorBoard")
    assert connection.queue() == "nightly"
    connection.shutdown("FAILED", "because")
    assert b"because" in connection.get("shutdown")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.add_container("nobody", {"TFAPP_INSTANCE": "x/0"}), "Unknown service"),
        (lambda c: c.put("k", b"", owner="ended_0"), "already completed"),
    ],
)
def test_a_refusal_has_the_masters_words(connection, call, words):
    with pytest.raises(RefusedError, match=words):
        call(connection)


def test_a_process_of_an_application_has_what_its_environment_names(server, tmp_path):
    folder = tmp_path / "disk 2" / "container_1"
    folder.mkdir(parents=True)
    (folder / ".skein.crt").write_bytes(server.security.cert_bytes)
    (folder / ".skein.pem").write_bytes(server.security.key_bytes)
    environ = {
        "SKEIN_APPMASTER_ADDRESS": f"127.0.0.1:{server.port}",
        "SKEIN_CONTAINER_ID": "worker_3",
        "CONTAINER_ID": "container_1",
        "LOCAL_DIRS": f"{tmp_path}/disk 1,{tmp_path}/disk 2",
    }
    with from_current(environ) as connection, connection.watch(keys=["x"]) as watch:
        connection.put_own("x", b"1")
        assert watch.get(PATIENCE) == Put("x", b"1", "worker_3")


@pytest.mark.parametrize("environ", [{}, {"SKEIN_APPMASTER_ADDRESS": "h:1", "CONTAINER_ID": "c"}])
def test_outside_of_an_application_there_is_no_current_one(environ, tmp_path):
    with pytest.raises(UnavailableError, match="not part of an application"):
        from_current({**environ, "LOCAL_DIRS": str(tmp_path)})


def test_importing_it_imports_neither_protobuf_nor_grpc():
    code = (
        "import sys, tfapp.protocol.connection\n"
        "print([m for m in ('google', 'grpc') if m in sys.modules])"
    )
    assert programs.printed("-c", code) == "[]\n"
