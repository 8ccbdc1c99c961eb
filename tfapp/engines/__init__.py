"""Where applications run. A new engine is one folder here and one line in ENGINES."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.errors import UsageError

if TYPE_CHECKING:
    from tfapp.engines.base import Engine

# Name on the command line -> module, which has `open_engine(home, environ) -> Engine`.
ENGINES: dict[str, str] = {
    "local": "tfapp.engines.local",
    "yarn": "tfapp.engines.yarn",
}
DEFAULT_ENGINE = "local"


def open_engine(name: str, home: Path, environ: Mapping[str, str]) -> Engine:
    """The engine `name`, its state under `home`. UsageError when there is none of this name."""
    try:
        module = ENGINES[name]
    except KeyError:
        known = ", ".join(sorted(ENGINES))
        raise UsageError(f"there is no engine {name!r}", f"Engines: {known}.") from None
    return importlib.import_module(module).open_engine(home, environ)
