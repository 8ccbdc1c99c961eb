"""An application that is fed without Spark."""

import gc
import sys
import threading
import types
from typing import Any

import pytest

from tests.feed.world import World
from tfapp.feed.task import pool
from tfapp.feed.wire import Line, connect


@pytest.fixture(scope="session")
def what_lives_already():
    """The search for garbage after each test does not look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def without_spark(monkeypatch, what_lives_already):
    spark = types.SimpleNamespace(InheritableThread=threading.Thread)
    monkeypatch.setitem(sys.modules, "pyspark", spark)
    monkeypatch.setattr("tfapp.feed.driver.feeder.FedData", lambda data: data)
    monkeypatch.setattr("tfapp.feed.driver.programs.LOOK_EVERY", 0.02)
    yield
    end_idle_connections()
    gc.collect()


def end_idle_connections() -> None:
    """Those that a Python worker keeps for its next task, until it ends."""
    for kept in pool._pools.values():
        for lines in kept.idle.values():
            for line in lines:
                line.close()
    pool._pools.clear()


@pytest.fixture
def connected(monkeypatch):
    made = []

    def connecting(*args: Any) -> Line:
        made.append(connect(*args))
        return made[-1]

    monkeypatch.setattr("tfapp.feed.task.pool.connect", connecting)
    return made


@pytest.fixture
def world(tmp_path, without_spark):
    made = World(tmp_path)
    yield made
    made.close()
