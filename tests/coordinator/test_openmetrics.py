"""What Prometheus reads of an application, by Prometheus' own parser."""

import contextlib
import http.client
import math
import socket

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

from tests.page.applications import elastic, instance, large, restarted
from tfapp.contract.status import FeedStatus
from tfapp.contract.usage import Usage
from tfapp.coordinator.openmetrics import TYPE, served, text
from tfapp.frozen import replace

NAME = 'a"b\\c'
USAGE = Usage(9.0, 1.5, 1.2, 2, 1 << 30, 2 << 30, 8 << 30, 5, 6)


def values(status) -> dict:
    """(name, its own labels) -> value, of everything that is told."""
    found = {}
    for family in families(text(status).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("application") == status.name
            found[(sample.name, *sorted(labels.items()))] = sample.value
    return found


def test_what_is_told():
    metrics = {"loss": 0.25, "nan": "nan", "up": "inf", "down": "-inf", 'odd"\\\n': 1.5}
    training = instance(
        "worker/0", step=1200, total=5000, steps_per_second=35.2, metrics=metrics, usage=USAGE
    )
    status = replace(
        restarted(),
        name=NAME,
        instances=(training, instance("worker/1", "WAITING")),
        restarts=2,
        losses=1,
        feed=FeedStatus(rows=8000, rows_per_second=99.5, lost=3),
    )
    found = values(status)
    nan = found.pop(("tfapp_metric", ("instance", "worker/0"), ("metric", "nan")))
    assert math.isnan(nan)
    states = {key[1][1] for key, value in found.items() if key[0] == "tfapp_state" and value}
    assert states == {"RUNNING"}
    who = ("instance", "worker/0")
    assert {key: value for key, value in found.items() if key[0] != "tfapp_state"} == {
        ("tfapp_generation",): 2,
        ("tfapp_restarts_total", ("cause", "program")): 2,
        ("tfapp_restarts_total", ("cause", "infrastructure")): 1,
        ("tfapp_instances", ("component", "worker"), ("state", "RUNNING")): 1,
        ("tfapp_instances", ("component", "worker"), ("state", "WAITING")): 1,
        ("tfapp_step", who): 1200,
        ("tfapp_step_end", who): 5000,
        ("tfapp_steps_per_second", who): 35.2,
        ("tfapp_processors", who): 1.5,
        ("tfapp_memory_bytes", who): 2**30,
        ("tfapp_metric", who, ("metric", "loss")): 0.25,
        ("tfapp_metric", who, ("metric", "up")): math.inf,
        ("tfapp_metric", who, ("metric", "down")): -math.inf,
        ("tfapp_metric", who, ("metric", 'odd"\\\n')): 1.5,
        ("tfapp_feed_rows",): 8000,
        ("tfapp_feed_rows_per_second",): 99.5,
        ("tfapp_feed_lost_rows",): 3,
    }


def test_instances_that_are_late_are_counted_by_their_state():
    found = values(elastic())
    assert {key[2]: value for key, value in found.items() if key[0] == "tfapp_instances"} == {
        ("state", "RUNNING"): 6,
        ("state", "REQUESTED"): 2,
    }
    steps = {key[1][1] for key in found if key[0] == "tfapp_step"}
    assert steps == {f"worker/{n}" for n in (1, 2, 3, 4, 6, 7)}, "by their names, not their tasks"


@pytest.mark.parametrize("status", [restarted(), large()], ids=("restarted", "large"))
def test_no_sentence_address_or_log_is_told(status):
    told = text(status).decode()
    values(status)  # it can be read
    assert [word for word in ("node-", "script", "ended", "last words") if word in told] == []


def test_what_is_not_known_is_left_out():
    """An application that has ended without a last status of its coordinator."""
    unknown = replace(restarted(), generation=None, restarts=None, losses=None)
    names = {key[0] for key in values(unknown)}
    assert names == {"tfapp_state", "tfapp_instances", "tfapp_step"}


def free_port() -> int:
    with socket.create_server(("", 0)) as found:
        return found.getsockname()[1]


@contextlib.contextmanager
def asked(port: int, path: str, method: str = "GET", host: str = "127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request(method, path)
        yield connection.getresponse()
    finally:
        connection.close()


def test_it_is_served_to_anybody_who_asks_for_it():
    port = free_port()
    with served(port, restarted):
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            with asked(port, "/metrics?x=1", host=host) as answer:
                assert (answer.status, answer.headers["Content-Type"]) == (200, TYPE)
                assert answer.read() == text(restarted())
        for method, path, status in (("GET", "/", 404), ("POST", "/metrics", 501)):
            with asked(port, path, method) as answer:
                assert answer.status == status
        with pytest.raises(OSError, match="in use"), served(port, restarted):
            pass
    with pytest.raises(OSError), asked(port, "/metrics"):
        pass
