"""The engine of a Hadoop cluster: YARN runs the containers, Skein's application master serves
them. What finds an application again is on the cluster; what is kept under TFAPP_HOME (see
`layout`) makes that faster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfapp.engines.yarn.engine import YarnEngine


def open_engine(home: Path, environ: Mapping[str, str]) -> YarnEngine:
    """The engine of the cluster that `environ` names, its own files under `home`."""
    from tfapp.engines.yarn.engine import YarnEngine

    return YarnEngine(home, environ)
