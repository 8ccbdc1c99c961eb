"""The page that the coordinator serves where its master leads browsers to it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from tests.page.applications import restarted
from tfapp.contract.names import PAGE_ROUTE
from tfapp.coordinator.nodes import leads_to_pages, load
from tfapp.coordinator.page import shown
from tfapp.errors import RefusedError


class Connection:
    def __init__(self, refuses: bool = False):
        self.pages: dict[str, str] = {}
        self._refuses = refuses

    def add_page(self, route: str, target: str, title: str) -> None:
        if self._refuses:
            raise RefusedError("no")
        self.pages[route] = target


def fetched(url: str) -> bytes:
    # As the master's proxy asks, for another host.
    request = urllib.request.Request(url, headers={"Host": "manager:8088"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def test_it_is_there_as_long_as_the_application():
    connection = Connection()
    with shown(restarted, connection):  # type: ignore[arg-type]
        address = connection.pages[PAGE_ROUTE]
        assert b"<title>app" in fetched(address)
        told = json.loads(fetched(f"{address}data.json?seen="))
        assert told["document"]["name"] == "app"
        assert told["document"]["log_names"] == []
        assert fetched(f"{address}data.json?seen={told['seen']}") == b""
        groups = json.loads(fetched(f"{address}ws/v1/slider/publisher/exports"))["exports"]
        assert list(groups) == ["worker"]
        for path in ("other", "ws/v1/slider/publisher/exports/other"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetched(f"{address}{path}")
        token = address.rstrip("/").rpartition("/")[2]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetched(address.replace(token, "guess"))
    with pytest.raises(OSError):
        fetched(address)


def test_the_application_goes_on_without_it():
    ran = []
    with shown(restarted, Connection(refuses=True)):  # type: ignore[arg-type]
        ran.append(1)
    assert ran


def test_only_yarn_s_master_leads_there():
    assert leads_to_pages(load("tfapp.engines.yarn.nodes"))
    assert not leads_to_pages(None)
