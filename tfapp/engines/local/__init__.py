"""The engine of one machine: an application master in Python that speaks Skein's protocol, and
containers that are processes. Its state is under TFAPP_HOME (see tfapp.engines.machine.folders)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfapp.engines.local.engine import LocalEngine

# The definitions of its applications, below TFAPP_HOME.
DEFINITIONS = "apps/*/definition.json"


def open_engine(home: Path, environ: Mapping[str, str]) -> LocalEngine:
    """The local engine, with its state under `home`."""
    from tfapp.engines.local.engine import LocalEngine

    return LocalEngine(home, environ=environ)
