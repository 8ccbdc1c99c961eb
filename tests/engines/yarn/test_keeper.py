"""When a keeper ends its driver."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from tfapp.engines.yarn import keeper


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(keeper, "LOOK_EVERY", 0.001)


def driver(*codes) -> SimpleNamespace:
    """Its process has ended once the last of `codes` is reached."""
    left = iter(codes)
    return SimpleNamespace(_proc=SimpleNamespace(poll=lambda: next(left)))


def wait(record, client, clock) -> None:
    keeper.wait_for_end(record, threading.Event(), client, clock)


def test_it_ends_when_the_driver_has_ended(tmp_path):
    record = tmp_path / "driver.json"
    record.touch()
    wait(record, driver(None, None, 1), lambda: 0.0)


def test_it_ends_when_its_record_is_gone(tmp_path):
    wait(tmp_path / "driver.json", driver(None), lambda: 0.0)


def test_it_ends_when_nobody_has_asked_for_long(tmp_path):
    record = tmp_path / "driver.json"
    record.touch()
    os.utime(record, (1000.0, 1000.0))
    looks = iter([1000.0, 1000.0 + keeper.IDLE_LIMIT, 1001.0 + keeper.IDLE_LIMIT])
    wait(record, driver(None, None, None), lambda: next(looks))
    assert next(looks, None) is None


def test_it_ends_when_it_is_told_to(tmp_path):
    ended = threading.Event()
    ended.set()
    keeper.wait_for_end(tmp_path / "driver.json", ended, driver(), lambda: 0.0)
