"""The answers of a cluster, and its refusals."""

from __future__ import annotations

import pytest

from tests.engines.yarn.played_yarn import PlayedYarn
from tfapp.engines.yarn import cluster as cluster_module
from tfapp.engines.yarn.cluster import Queue, YarnCluster, YarnNode, YarnRefusedError
from tfapp.engines.yarn.layout import YarnHome
from tfapp.errors import UnavailableError, UnknownApplicationError
from tfapp.skein_library import skein

CONFIGURED = {"HADOOP_CONF_DIR": "/conf", "PATH": "/nowhere"}


@pytest.fixture
def played(monkeypatch):
    played = PlayedYarn()
    played.waits = "waiting for AM container to be allocated"
    monkeypatch.setattr(cluster_module, "open_driver", played.open_driver)
    return played


@pytest.fixture
def cluster(played, tmp_path):
    return YarnCluster(YarnHome(tmp_path), CONFIGURED, lambda: 1000.0)


def submit(cluster: YarnCluster, name: str = "app") -> str:
    master = skein.Master(resources=skein.Resources(memory=1, vcores=1), script="x")
    return cluster.submit(skein.ApplicationSpec(name=name, master=master, tags={"b", "a"}))


def test_what_it_says_of_applications(cluster, played):
    first, second = submit(cluster), submit(cluster, "other")
    report = cluster.application(first)
    assert (report.id, report.name, report.user, report.tags) == (first, "app", "ann", ("a", "b"))
    assert (report.address, report.started, report.finished) == ("", 1.7e9 + 1, 0.0)
    assert not report.ended
    played.reports[first].host, played.reports[first].port = "n1", 4
    assert cluster.application(first).address == "n1:4"
    cluster.kill(first)
    assert [(r.id, r.ended) for r in cluster.applications("ann")] == [
        (first, True),
        (second, False),
    ]
    assert [r.id for r in cluster.applications("ann", "other")] == [second]
    assert cluster.applications("bob") == ()


def test_what_it_is_made_of(cluster):
    assert cluster.nodes() == (YarnNode("n1", frozenset(), 8192, 8, 0, "n1:8042"),)
    assert cluster.queues() == (Queue("default", True, frozenset("*")),)
    assert cluster.lost_hosts() == frozenset()


def test_a_driver_that_has_gone_is_replaced_once(cluster, played):
    played.failures = [skein.exceptions.ConnectionError("gone")]
    assert cluster.nodes()
    assert played.opened == 2
    played.failures = [skein.exceptions.ConnectionError("gone")] * 2
    with pytest.raises(UnavailableError, match="YARN did not list nodes: gone"):
        cluster.nodes()


STACK = """\
java.util.concurrent.ExecutionException:
  org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException: Invalid resource request
  at org.apache.hadoop.yarn.Somewhere(Some.java:1)
"""


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (
            skein.exceptions.TimeoutError("late"),
            UnavailableError,
            "YARN did not list nodes within 10 s",
        ),
        (
            ValueError("Unknown application id application_1_0001\n at x"),
            UnknownApplicationError,
            "Unknown application id application_1_0001",
        ),
        (
            skein.exceptions.DriverError("AccessControlException: User ann cannot submit"),
            YarnRefusedError,
            "YARN did not list nodes: AccessControlException: User ann cannot submit",
        ),
        (
            skein.exceptions.DriverError(STACK),
            UnavailableError,
            "YARN did not list nodes: org.apache.hadoop.yarn.exceptions."
            "InvalidResourceRequestException: Invalid resource request",
        ),
        (
            skein.exceptions.DriverError("SIMPLE authentication is not enabled"),
            UnavailableError,
            "the cluster asks for Kerberos, and the configuration here does not say so",
        ),
        (
            skein.exceptions.DriverError(""),
            UnavailableError,
            "YARN did not list nodes: it gave no reason",
        ),
    ],
    ids=["late", "unknown", "forbidden", "java", "kerberos", "silent"],
)
def test_how_it_says_no(cluster, played, failure, kind, message):
    played.failures = [failure]
    with pytest.raises(kind) as raised:
        cluster.nodes()
    assert (type(raised.value), raised.value.message) == (kind, message)


def test_a_ticket_that_is_refused_ends_the_driver_that_has_it(cluster, played, monkeypatch):
    forgotten = []
    monkeypatch.setattr(cluster_module, "forget", lambda *words: forgotten.append(words))
    played.failures = [skein.exceptions.DriverError("LoginException: no key")]
    with pytest.raises(UnavailableError, match="Kerberos does not let you in: no key"):
        cluster.nodes()
    assert len(forgotten) == 1
