"""From configuration to one instance's ports, exports and values."""

from __future__ import annotations

import itertools

import pytest

from tfapp.contract.job import ExportTemplate
from tfapp.contract.messages import Member
from tfapp.engines.yarn.configuration import application_class_path
from tfapp.runner.context import (
    ExportError,
    InstanceSettings,
    expander,
    export_values,
    hadoop_variables,
    program_config,
    settle,
)

FACTS = {"COMPONENT_ID": "1", "WORK_DIR": "/a b/work", "THIS_HOST": "h1"}
MEMBERS = tuple(
    Member(f"{component}/{index}", component, index, component, host, {})
    for component, index, host in [("ps", 0, "h0"), ("ps", 1, "h1"), ("worker", 0, "h2")]
)


def settled(site: dict[str, str], asked: list[int] | None = None) -> InstanceSettings:
    numbers = itertools.count(40000)

    def take_port(preferred: int) -> int:
        if asked is not None:
            asked.append(preferred)
        return next(numbers)

    return settle(site, "worker", FACTS, take_port)


def test_each_place_gets_a_port_of_its_own_and_other_components_get_none():
    asked: list[int] = []
    settings = settled(
        {
            "site.global.a.port": "${worker.ALLOCATED_PORT}{DEFAULT_2222}{PER_CONTAINER}",
            "site.global.b": "${worker.ALLOCATED_PORT}-${worker.ALLOCATED_PORT}",
            "site.global.ps.port": "${ps.ALLOCATED_PORT}{PER_CONTAINER}",
            "site.global.fixed.port": "2222",
        },
        asked,
    )
    assert settings == InstanceSettings(
        site={
            "site.global.a.port": "40000",
            "site.global.b": "40001-40002",
            "site.global.fixed.port": "2222",
            "site.global.ps.port": "0",
        },
        ports={"site.global.a.port": 40000, "site.global.b": 40001},
    )
    assert asked == [2222, 0, 0]


def test_references_are_followed_after_ports_are_taken():
    settings = settled(
        {
            "site.global.port": "${worker.ALLOCATED_PORT}{PER_CONTAINER}",
            "site.global.address": "${THIS_HOST}:${site.global.port}",
            "site.global.url": "http://${@//site/global/address}/${COMPONENT_ID}",
        }
    )
    assert settings.site["site.global.url"] == "http://h1:40000/1"
    assert settings.ports == {"site.global.port": 40000}


def test_values_in_a_ring_are_refused():
    with pytest.raises(ValueError, match=r"site\.global\.a -> site\.global\.b -> site\.global\.a"):
        settled({"site.global.a": "${site.global.b}", "site.global.b": "${site.global.a}"})


def test_exports_hold_the_own_host_and_the_taken_port():
    templates = (
        ExportTemplate("worker", "host_port", "${worker_HOST}:${site.global.port}"),
        ExportTemplate("worker", "id", "${COMPONENT_ID}@${THIS_HOST}"),
        ExportTemplate("all", "first", "${PS_HOST}"),
    )
    settings = InstanceSettings({"site.global.port": "40000"}, {})
    assert export_values(templates, settings, "h1", FACTS) == {
        "worker": {"host_port": "h1:40000", "id": "1@h1"},
        "all": {"first": "h1"},
    }


def test_an_export_that_cannot_be_made_is_named():
    template = ExportTemplate("worker", "host_port", "${site.global.nothing}")
    with pytest.raises(ExportError) as error:
        export_values((template,), InstanceSettings({}, {}), "h1", FACTS)
    assert str(error.value) == ("export worker/host_port: nothing replaces ${site.global.nothing}")


def test_a_program_sees_hosts_and_flags_once_the_cluster_is_known():
    site = {
        "site.global.port": "${worker.ALLOCATED_PORT}{PER_CONTAINER}",
        "site.global.servers": "${PS_HOST}",
        "site.global.all": "${site.global.servers};${worker_HOST};${nobody_HOST}",
        "site.global.args": "--job ${JOB_NAME} --dir ${WORK_DIR} --port ${site.global.port}",
        "site.other": "not global",
    }
    settings = settled(site)
    known = {**FACTS, "JOB_NAME": "worker"}.get
    expand = expander(settings, "worker", ("ps", "worker"), MEMBERS, known)
    assert program_config(settings.site, expand) == {
        "port": "40000",
        "servers": "h0,h1",
        "all": "h0,h1;h2;${nobody_HOST}",
        "args": "--job worker --dir /a b/work --port 40000",
    }
    words = [expand("site.global.args", word) for word in site["site.global.args"].split(" ")]
    assert words == ["--job", "worker", "--dir", "/a b/work", "--port", "40000"]


def test_a_port_in_unsettled_text_is_the_one_that_was_taken():
    site = {"site.global.args": "--port ${worker.ALLOCATED_PORT} --ps ${ps.ALLOCATED_PORT}"}
    settings = settled(site)
    expand = expander(settings, "worker", (), (), lambda name: None)
    text = expand("site.global.args", site["site.global.args"])
    assert text == settings.site["site.global.args"] == "--port 40000 --ps 0"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("h1", ("h1:7", "http://h1:7/x", "h1", "h1")),
        ("::1", ("[::1]:7", "http://[::1]:7/x", "::1", "::1")),
    ],
)
def test_an_ipv6_address_is_in_brackets_before_a_port(host, expected):
    values = ("${ps_HOST}:7", "http://${THIS_HOST}:7/x", "${ps_HOST}", "${THIS_HOST}")
    templates = tuple(ExportTemplate("g", str(n), value) for n, value in enumerate(values))
    settings, facts = InstanceSettings({}, {}), {**FACTS, "THIS_HOST": host}
    assert tuple(export_values(templates, settings, host, facts)["g"].values()) == expected


@pytest.fixture
def node(tmp_path):
    """The environment of a NodeManager's container."""
    for name in (
        *("conf/core-site.xml", "hadoop/share/hadoop/common/c.jar"),
        *("hadoop/share/hadoop/common/lib/l.jar", "hadoop/share/hadoop/hdfs/h.jar"),
        *("hadoop/share/hadoop/hdfs/readme.txt", "hadoop/lib/native/libhdfs.so"),
        *("java/lib/server/libjvm.so", "more/own.jar", "more/second.jar"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    homes = dict.fromkeys(("HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME"), str(tmp_path / "hadoop"))
    return {
        **homes,
        "HADOOP_CONF_DIR": str(tmp_path / "conf"),
        "JAVA_HOME": str(tmp_path / "java"),
    }


def found(tmp_path, class_path, environ):
    """The variables, with paths below `tmp_path`."""
    return {
        name: value.replace(f"{tmp_path}/", "").split(":")
        for name, value in hadoop_variables(class_path, environ).items()
    }


LIBRARIES = ["hadoop/lib/native", "java/lib/server"]
JARS = [
    *("conf", "hadoop/share/hadoop/common/c.jar", "hadoop/share/hadoop/common/lib/l.jar"),
    "hadoop/share/hadoop/hdfs/h.jar",
]


def test_yarns_own_class_path(tmp_path, node):
    given = application_class_path({})
    assert found(tmp_path, given, node) == {"CLASSPATH": JARS, "LD_LIBRARY_PATH": LIBRARIES}


def test_the_clusters_class_path(tmp_path, node):
    written = f"{{{{HADOOP_CONF_DIR}}}}, {tmp_path}/more/*,${{NOT_SET}}/x,{tmp_path}/gone/*"
    given = application_class_path({"yarn.application.classpath": written})
    jars = ["conf", "more/own.jar", "more/second.jar"]
    assert found(tmp_path, given, node)["CLASSPATH"] == jars


def test_the_users_own_values_come_first(tmp_path, node):
    own = {**node, "CLASSPATH": "mine.jar", "LD_LIBRARY_PATH": "/cuda"}
    assert found(tmp_path, application_class_path({}), own) == {
        "CLASSPATH": ["mine.jar", *JARS],
        "LD_LIBRARY_PATH": ["/cuda", *LIBRARIES],
    }


@pytest.mark.parametrize("class_path", ["", "$HADOOP_CONF_DIR", "/gone/*,$HADOOP_HOME/*"])
def test_where_there_are_no_jars_nothing_is_set(node, class_path):
    assert hadoop_variables(class_path, node) == {}


def test_a_variable_that_is_too_long_for_linux_is_left_out(tmp_path, node):
    for number in range(1000):
        (tmp_path / "more" / f"{'long' * 30}-{number}.jar").touch()
    assert set(hadoop_variables(f"{tmp_path}/more/*", node)) == {"LD_LIBRARY_PATH"}
