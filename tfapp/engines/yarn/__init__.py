"""The engine of a Hadoop cluster: YARN runs the containers, Skein's application master serves them.
An application is found again by its record on the cluster; the files under TFAPP_HOME (see
`layout`) make that faster."""

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
    """The engine of the cluster that `environ` names, its own files under `home`."""
    from tfapp.engines.yarn.engine import YarnEngine

    return YarnEngine(home, environ)
