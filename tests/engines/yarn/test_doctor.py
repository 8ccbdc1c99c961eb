"""The doctor's findings on a cluster with problems."""

from __future__ import annotations

import email.utils
import os
import time

import pytest

from tests.served import Quiet, served
from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, examine_clocks
from tfapp.engines.yarn import doctor
from tfapp.engines.yarn.cluster import Queue, YarnNode
from tfapp.engines.yarn.web import Web
from tfapp.errors import UnavailableError


def program(path, script: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "level", "text"),
    [
        ("echo 'openjdk version \"17.0.1\" 2021' >&2", OK, "17, {}"),
        ("echo 'java version \"1.8.0_201\"' >&2", OK, "8, {}"),
        ("echo 'openjdk version \"24\" 2025' >&2", WARNING, "24, {}"),
        ("echo 'no memory' >&2; exit 1", PROBLEM, "{} does not run: no memory"),
    ],
)
def test_java(tmp_path, script, level, text):
    java = program(tmp_path / "java", script)
    found = doctor.examine_java(java)
    assert (found.level, found.text) == (level, text.format(java))


@pytest.mark.parametrize(("asked", "level"), [("simple", None), ("kerberos", PROBLEM)])
def test_kerberos(tmp_path, asked, level):
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name>"
        f"<value>{asked}</value></property></configuration>"
    )
    environ = {"HADOOP_CONF_DIR": str(tmp_path), "KRB5CCNAME": f"{tmp_path}/none"}
    found = doctor.examine_kerberos(environ, 0.0)
    assert (found.level if found else None) == level


class Pretended:
    def __init__(self, *nodes: YarnNode):
        self._nodes = nodes

    def nodes(self):
        return self._nodes

    def queues(self):
        return (Queue("default", True, frozenset()), Queue("closed", False, frozenset()))


@pytest.fixture
def node():
    """A node whose clock is as far ahead as `ahead` says."""

    class Pages(Quiet):
        ahead = 0.0
        protected = False

        def do_HEAD(self):
            self.send_response_only(401 if self.protected else 302)
            self.send_header("WWW-Authenticate", "Negotiate")
            self.send_header("Date", email.utils.formatdate(time.time() + self.ahead, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

    with served(Pages) as address:
        yield Pages, YarnNode("n1", frozenset(), 4096, 8, 2, address)


def test_a_cluster_that_is_well(node):
    found = list(doctor.examine_cluster(Pretended(node[1]), Web({}), time.time))
    assert [(finding.level, finding.text) for finding in found] == [
        (OK, "answers; queues: default"),
        (OK, "1 take containers, together 4096 MiB, 8 vcores, 2 GPUs"),
        (OK, "this machine is within 30 s of n1"),
    ]


@pytest.mark.parametrize(("ahead", "relation"), [(100.5, "ahead of"), (-99.5, "behind")])
def test_a_clock_that_is_wrong(node, ahead, relation):
    pages, one = node
    pages.ahead = ahead
    found = examine_clocks(doctor.skews([one], Web({}), time.time))
    assert found.level == PROBLEM
    assert found.text == f"the clock of n1 is 100 s {relation} this one"


def test_nodes_that_tell_nothing():
    silent = YarnNode("n1", frozenset(), 4096, 8, 2, "127.0.0.1:9")
    assert examine_clocks(doctor.skews([silent], Web({}), time.time)).level == WARNING


def test_pages_that_kerberos_protects(node):
    pages, one = node
    pages.protected = True
    warning, *_ = list(doctor.examine_cluster(Pretended(one), Web({"PATH": ""}), time.time))[2:]
    assert (warning.subject, warning.level) == ("pages", WARNING)
    assert warning.text.endswith("asks for Kerberos: curl cannot be run: it is not on PATH")


def test_no_nodes():
    found = list(doctor.examine_cluster(Pretended(), Web({}), time.time))
    assert (found[-1].level, found[-1].text) == (PROBLEM, "no node takes containers")


def test_hdfs_has_the_last_word(tmp_path):
    (tmp_path / "yarn-site.xml").touch()
    words = "mkdir: Cannot create directory /user/ann. Name node is in safe mode."
    program(tmp_path / "bin" / "java", f"echo 'WARN: it is slow' >&2; echo '{words}' >&2; exit 1")
    program(tmp_path / "bin" / "yarn", f"echo {tmp_path}")
    with pytest.raises(UnavailableError) as error:
        doctor.write_to_hdfs({"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert str(error.value) == (
        "HDFS cannot be written: Cannot create directory /user/ann. Name node is in safe mode."
    )
