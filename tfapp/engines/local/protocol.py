"""Skein's protocol buffers without the rest of Skein.

`import skein` imports what a master has no use for (its client, YAML), and a user waits for the
master at every start. So the package is found but not executed, unless somebody has imported it
already.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from tfapp.errors import UnavailableError


def _load(name: str) -> Any:
    if "skein" in sys.modules:
        return importlib.import_module(name)
    sys.modules["skein"] = _hollow_skein()
    try:
        return importlib.import_module(name)
    finally:
        del sys.modules["skein"]  # whoever imports it later gets the whole of it


def _hollow_skein() -> ModuleType:
    spec = importlib.util.find_spec("skein")
    if spec is None:
        raise UnavailableError("Skein is not installed", "`pip install skein` installs it.")
    return importlib.util.module_from_spec(spec)


messages = _load("skein.proto.skein_pb2")
services = _load("skein.proto.skein_pb2_grpc")
