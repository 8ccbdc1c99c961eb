"""Slider's clients read exports as from Slider."""

from __future__ import annotations

import dataclasses

from tests.page.applications import BEGUN, instance, restarted
from tfapp.page.registry import PUBLISHER, published

STATUS = dataclasses.replace(
    restarted(),
    instances=(
        instance("worker/0", exports={"Worker": {"host_port": "n1:4000"}}),
        instance("worker/1", exports={"Worker": {"host_port": "n2:4000"}}),
        instance("ps/0", exports={"ps": {"host_port": "n3:4000"}}),
    ),
    updated=BEGUN,
)
DATE = "Sun Sep 09 01:46:40 UTC 2001"


def ask(path: str):
    return published(f"{PUBLISHER}{path}", STATUS, "http://h/app")


def entry(value: str, container: str, tag: str) -> dict:
    return {
        "value": value,
        "containerId": container,
        "tag": tag,
        "level": "component",
        "updatedTime": DATE,
    }


WORKER = {
    "description": "Worker",
    "updated": 1_000_000_000_000,
    "updatedTime": DATE,
    "entries": {
        "host_port": [entry("n1:4000", "worker_0", "0"), entry("n2:4000", "worker_1", "1")]
    },
}


def test_the_publisher_leads_to_its_sets():
    relative = {"uris": {"slider": "publisher/slider", "exports": "publisher/exports"}}
    assert published(PUBLISHER, STATUS, "") == relative
    base = "http://h/app/ws/v1/slider/publisher"
    assert ask("") == {"uris": {"slider": f"{base}/slider", "exports": f"{base}/exports"}}


def test_exports_come_with_their_entries():
    assert sorted(ask("/exports")["exports"]) == ["ps", "worker"]
    assert ask("/exports")["exports"]["worker"] == WORKER
    assert ask("/exports/worker") == ask("/exports/worker/") == WORKER


def test_names_are_literal_and_in_lower_case():
    assert ask("/exports/Worker") is None
    assert ask("/exports/nothing") is None
    assert ask("/exports/worker/host_port") is None
    assert ask("/elsewhere") is None


def test_each_group_is_a_configuration_in_the_old_form():
    heading = {key: WORKER[key] for key in ("description", "updated", "updatedTime")}
    assert ask("/slider")["configurations"]["worker"] == heading
    assert ask("/slider/worker.json") == {**heading, "entries": {"host_port": "n1:4000"}}
    assert ask("/slider/worker/host_port") == {"host_port": "n1:4000"}
    assert ask("/slider/worker/other") is None
    assert ask("/slider/other") is None
