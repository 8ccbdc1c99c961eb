"""When a daemon ends its driver."""

import os
import threading
from types import SimpleNamespace

import pytest

from tfapp.disk import write_json
from tfapp.engines.yarn import driver_daemon
from tfapp.engines.yarn.driver_daemon import DriverRecord

OWN = DriverRecord("127.0.0.1:1", 1)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(driver_daemon, "LOOK_EVERY", 0.001)


@pytest.fixture
def record(tmp_path):
    write_json(tmp_path / "driver.json", OWN)
    return tmp_path / "driver.json"


def driver(*codes) -> SimpleNamespace:
    """Its process has ended once the last of `codes` is reached."""
    left = iter(codes)
    return SimpleNamespace(_proc=SimpleNamespace(poll=lambda: next(left)))


def wait(record, client, clock) -> None:
    driver_daemon.wait_for_end(record, OWN, threading.Event(), client, clock)


def test_it_ends_when_the_driver_has_ended(record):
    wait(record, driver(None, None, 1), lambda: 0.0)


def test_it_ends_when_its_record_is_gone(tmp_path):
    wait(tmp_path / "nowhere.json", driver(None), lambda: 0.0)


@pytest.mark.parametrize("other", [DriverRecord("127.0.0.1:2", 2), {"address": "x", "pid": 1}, []])
def test_it_ends_when_another_has_taken_its_place_which_is_in_use(record, other):
    write_json(record, other)
    wait(record, driver(None), lambda: 0.0)


def test_it_ends_when_nobody_has_asked_for_long(record):
    os.utime(record, (1000.0, 1000.0))
    looks = iter([1000.0, 1000.0 + driver_daemon.IDLE_LIMIT, 1001.0 + driver_daemon.IDLE_LIMIT])
    wait(record, driver(None, None, None), lambda: next(looks))
    assert next(looks, None) is None


def test_it_ends_when_it_is_told_to(record):
    ended = threading.Event()
    ended.set()
    driver_daemon.wait_for_end(record, OWN, ended, driver(), lambda: 0.0)
