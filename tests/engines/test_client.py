import contextlib
import dataclasses
import threading
import time

import pytest

from tests.engines.applications import FOREVER, compiled, service, stock_client
from tfapp.contract.encoding import encode
from tfapp.contract.names import KEY_STATUS, KEY_STOP, SUCCEEDED
from tfapp.contract.status import ApplicationStatus, Held, Verdict
from tfapp.engines.client import held_in_words
from tfapp.errors import UnreachableError

LIMIT = 180.0  # seconds


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (None, ""),
        (
            Held("quota", 0.0),
            "waits for room in a quota since 1970-01-01 00:00:00, for as long as it takes",
        ),
        (
            Held("nodes", 0.0, 1800.0),
            "waits for nodes that have room since 1970-01-01 00:00:00, until 1970-01-01 00:30:00 "
            "at most (site.global.queue.timeout)",
        ),
    ],
)
def test_what_holds_an_application_back(held, words, monkeypatch):
    monkeypatch.setattr("time.localtime", time.gmtime)
    status = ApplicationStatus("a", "FORMING", 1, 0.0, 0.0, (), held=held)
    assert held_in_words(status) == words


@pytest.fixture
def serving(engine):
    engine.create("app", compiled(master=FOREVER, w=service()))
    run = engine._run("app")
    assert not run.settle()
    return run


@pytest.fixture
def client(serving):
    return serving.client


def published(client, generation):
    return dataclasses.replace(client._run.accepted, state="RUNNING", generation=generation)


def test_the_status_now(engine, client):
    assert client.status() == client._run.accepted
    with stock_client(engine) as stock:
        stock.kv[KEY_STATUS] = encode(published(client, 1))
    assert client.status() == published(client, 1)


def test_a_proxy_in_the_environment_is_not_asked(client, monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:1")
    assert client.status() == client._run.accepted


def test_changes_in_order_each_once(engine, client):
    changes = client.changes()
    assert next(changes) == client._run.accepted
    with stock_client(engine) as stock:
        for generation in (1, 1, 2):
            stock.kv[KEY_STATUS] = encode(published(client, generation))
        assert [next(changes), next(changes)] == [published(client, 1), published(client, 2)]
        stock.shutdown()
    assert list(changes) == []
    assert client._run.wait_for_end(0)


@pytest.mark.parametrize("decided", [True, False])
def test_a_master_that_ends_slowly(engine, client, monkeypatch, decided):
    """On a busy machine it may live for seconds after its last answer. Without a verdict that
    is one that hangs."""
    verdict = Verdict(SUCCEEDED, 0, "Succeeded.") if decided else None
    status = dataclasses.replace(published(client, 1), verdict=verdict)

    def watch():
        yield status
        threading.Timer(1.5, client._run.kill).start()
        raise UnreachableError("no answer")

    monkeypatch.setattr(client, "published", watch)
    changes = client.changes()
    assert next(changes) == status
    if decided:
        assert list(changes) == []
    else:
        with pytest.raises(UnreachableError, match="no answer"):
            next(changes)
    assert client._run.wait_for_end(LIMIT)


@pytest.mark.parametrize("limit", [0.0, 60.0])
def test_who_follows_a_master_that_hangs_waits_for_the_next_one(client, monkeypatch, limit):
    def watch():
        raise UnreachableError("it hangs")

    published = client.published
    answers = iter([watch, published])
    monkeypatch.setattr(client, "published", lambda: next(answers)())
    monkeypatch.setattr(type(client._run), "hang_limit", limit)
    with contextlib.nullcontext() if limit else pytest.raises(UnreachableError, match="it hangs"):
        assert next(client.changes()) == client._run.accepted


def test_a_request_to_stop_is_left_in_the_store(engine, client):
    client._ask_to_stop("enough")
    with stock_client(engine) as stock:
        assert stock.kv[KEY_STOP] == b'{"message":"enough"}'
    assert not client._run.wait_for_end(0)


@pytest.mark.parametrize("limit", [0.0, 60.0])
def test_a_request_to_stop_is_for_the_next_master_too(engine, client, monkeypatch, limit):
    """Where one that hangs is replaced."""
    answers, ask = iter([UnreachableError("it hangs"), None]), client.ask

    def ask_once_in_vain(call):
        if error := next(answers):
            raise error
        return ask(call)

    monkeypatch.setattr(client, "ask", ask_once_in_vain)
    monkeypatch.setattr(type(client._run), "hang_limit", limit)
    with contextlib.nullcontext() if limit else pytest.raises(UnreachableError):
        client._ask_to_stop("enough")
    with stock_client(engine) as stock:
        assert (KEY_STOP in stock.kv) == bool(limit)
