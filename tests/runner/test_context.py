"""From configuration to one instance's ports, exports and values."""

from __future__ import annotations

import itertools

import pytest

from tfapp.contract.job import ExportTemplate
from tfapp.contract.messages import Member
from tfapp.runner.context import (
    ExportError,
    InstanceSettings,
    expander,
    export_values,
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
