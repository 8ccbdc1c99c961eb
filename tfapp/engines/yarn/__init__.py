"""The engine of a Hadoop cluster: YARN runs the containers, and Skein's application master serves
them. Records of applications are on the cluster; files under TFAPP_HOME (see `layout`) are a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.engines import EngineOption

if TYPE_CHECKING:
    from tfapp.engines.yarn.engine import YarnEngine

DEFINITIONS = (
    "yarn/applications/*/definition.json"  # where it keeps what applications are, below TFAPP_HOME
)
OPTIONS = (EngineOption("queue", "default", "YARN queue"),)


def open_engine(home: Path, environ: Mapping[str, str]) -> YarnEngine:
    """The engine of the cluster that `environ` selects, with its files under `home`."""
    from tfapp.engines.yarn.engine import YarnEngine

    return YarnEngine(home, environ)


def require(environ: Mapping[str, str]) -> None:
    """UnavailableError without Java or Hadoop's command yarn."""
    from tfapp.engines.yarn.hadoop_client import find_java, find_yarn

    find_java(environ)
    find_yarn(environ)
