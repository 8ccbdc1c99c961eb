"""Shared helpers of the functions that start programs, for the driver."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from tfapp.compiler.options import new_name
from tfapp.tensorflowonspark.TFNode import Place


def named_for(map_fun: Any, sc: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `tfapp.submit`: `more`, and where they do not say it the name, and Spark's
    session, on whose executors the programs run unless `more` names another engine."""
    found = {"name": name_of(map_fun), **more}
    if found.get("engine") in (None, "spark"):
        found.setdefault("spark", session_of(sc))
    return found


def session_of(sc: Any) -> Any:
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
