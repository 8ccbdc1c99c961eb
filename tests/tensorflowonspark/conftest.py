"""The package pyspark, without Java and without a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import tfapp.tensorflowonspark
from tests.clusters.spark.conftest import package_in


@pytest.fixture(scope="session")
def spark_packages() -> Path:
    """The folder in which pyspark is."""
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    return package_in(cache).parent


@pytest.fixture
def pyspark(spark_packages, monkeypatch):
    """pyspark can be imported. It is forgotten after the test, with the modules that have imported
    it: other tests are about machines without it."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(spark_packages))
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("pyspark", "py4j"):
            del sys.modules[name]
    for module in ("dfutil", "pipeline", "predicting"):
        sys.modules.pop(f"tfapp.tensorflowonspark.{module}", None)
        vars(tfapp.tensorflowonspark).pop(module, None)
