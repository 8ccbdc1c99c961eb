"""The engine of Spark: each container is a Spark job with one task, on the executors of the
SparkContext in this process, the driver. The application master is a process beside the driver. Its
state is under TFAPP_HOME/spark (see tfapp.engines.machine.folders)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfapp.engines.spark.engine import SparkEngine

DEFINITIONS = "spark/apps/*/definition.json"  # below TFAPP_HOME


def open_engine(home: Path, environ: Mapping[str, str]) -> SparkEngine:
    """The engine for the SparkContext of this process, with its state under `home`."""
    from tfapp.engines.spark.engine import SparkEngine

    return SparkEngine(home, environ)


def require(environ: Mapping[str, str]) -> None:
    """UnavailableError if pyspark is not installed."""
    from tfapp.engines.spark.session import require_pyspark

    require_pyspark()
