"""Calls and what the master answers."""

from __future__ import annotations

import pytest

from tfapp.errors import RefusedError
from tfapp.skein_calls.containers import Container


def test_values_are_written_read_and_deleted(connection):
    connection.put("a.1", b"one")
    connection.put("a.2", b"two", owner="worker_3")
    connection.update({"a.3": b"three", "b": b"four"})
    connection.update({})
    assert connection.get("a.1") == b"one"
    assert connection.get("missing") is None
    assert connection.get_prefix("a.") == {"a.1": b"one", "a.2": b"two", "a.3": b"three"}
    connection.discard("a.1")
    assert connection.get("a.1") is None


def test_containers_are_added_listed_and_killed(connection):
    added = connection.add_container("worker", {"TFAPP_INSTANCE": "worker/0"})
    assert added == "worker_0"
    assert connection.containers() == (
        Container(
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
    assert connection.add_page("tb", "http://h:1", "TensorBoard") == "http://127.0.0.1:1pages/tb/"
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
