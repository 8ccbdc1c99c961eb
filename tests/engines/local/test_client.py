from __future__ import annotations

import dataclasses

import pytest

from tests.engines.applications import FOREVER, compiled, run_folder, service, stock_client
from tfapp.contract import KEY_STATUS, KEY_STOP, encode
from tfapp.engines.local.client import MasterClient
from tfapp.engines.local.state import read_config, read_state


@pytest.fixture
def client(engine):
    engine.create("app", compiled(master=FOREVER, w=service()))
    run = run_folder(engine)
    return MasterClient(run, read_config(run), read_state(run))


def published(client, generation):
    return dataclasses.replace(client._config.accepted, state="RUNNING", generation=generation)


def test_the_status_now(engine, client):
    assert client.status() == client._config.accepted
    with stock_client(engine) as stock:
        stock.kv[KEY_STATUS] = encode(published(client, 1))
    assert client.status() == published(client, 1)


def test_a_proxy_in_the_environment_is_not_asked(client, monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:1")
    assert client.status() == client._config.accepted


def test_changes_in_order_each_once(engine, client):
    changes = client.changes()
    assert next(changes) == client._config.accepted
    with stock_client(engine) as stock:
        for generation in (1, 1, 2):
            stock.kv[KEY_STATUS] = encode(published(client, generation))
        assert [next(changes), next(changes)] == [published(client, 1), published(client, 2)]
        stock.shutdown()
    assert list(changes) == []
    assert not client.alive


def test_a_request_to_stop_is_left_in_the_store(engine, client):
    client.ask_to_stop("enough")
    with stock_client(engine) as stock:
        assert stock.kv[KEY_STOP] == b'{"message":"enough"}'
    assert client.alive
