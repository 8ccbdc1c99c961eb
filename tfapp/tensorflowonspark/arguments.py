"""Shared helpers of the functions that start programs, for the driver."""

from __future__ import annotations

import os
import warnings
from typing import Any

from tfapp.compiler.options import new_name
from tfapp.tensorflowonspark.TFNode import Place


def session_of(sc: Any) -> Any:
    """The SparkSession of a SparkContext."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession(sc)


def place_of(sc: Any, master: str = "") -> Place:
    """The settings of this driver that its programs need."""
    default_fs = sc._jsc.hadoopConfiguration().get("fs.defaultFS")
    if default_fs.startswith("file:"):
        return Place("file://", os.getcwd(), master)
    return Place(default_fs.rstrip("/"), os.getcwd(), master)


def name_of(map_fun: Any) -> str:
    """A new application name, after the name of the function."""
    return new_name(getattr(map_fun, "__name__", "tensorflow").strip("_<>") or "tensorflow")


def meaningless(argument: str, why: str) -> None:
    """Warns that an argument has no effect."""
    warnings.warn(f"{argument} has no meaning here: {why}", stacklevel=3)
