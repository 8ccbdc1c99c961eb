"""The engine of Spark: each container is a Spark job with one task, on the executors of the
SparkContext in this process, the driver. The application master is a process beside the driver. Its
state is under TFAPP_HOME/spark (see tfapp.engines.folders)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfapp.engines.spark.engine import SparkEngine

DEFINITIONS = "spark/apps/*/definition.json"  # below TFAPP_HOME

CONTROL_FILE = "control"  # of a run: the address of its master's control server
WORDS_LIMIT = 10.0  # seconds for Spark's own words about a task of an executor that has ended
# What a definition keeps for this engine.
ON_DRIVER = "on_driver"  # the components that run on the driver's machine
MASTER, SETTINGS = "master", "settings"  # how a command opens the session


def open_engine(home: Path, environ: Mapping[str, str]) -> SparkEngine:
    """The engine for the SparkContext of this process, with its state under `home`."""
    from tfapp.engines.spark.engine import SparkEngine

    return SparkEngine(home, environ)
