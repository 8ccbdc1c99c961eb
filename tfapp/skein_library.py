"""Imports Skein without the slow part of its import: `from tfapp.skein_library import skein`.

Skein uses `distutils` to compare two version numbers. Since Python 3.12 only setuptools has that
module, and in older versions an installed setuptools replaces Python's own. Loading it takes 0.2 of
the 0.35 seconds of Skein's import. Containers do not need Skein (tfapp.protocol).
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tfapp.library_path import installed_first

_ASKED_FOR = "distutils.version"


class LooseVersion:
    """The part of distutils' class that Skein uses: the order of versions such as "1.18.0"."""

    def __init__(self, text: str):
        self._numbers = tuple(map(int, re.findall(r"\d+", text)))

    def __lt__(self, other: str) -> bool:
        return self._numbers < LooseVersion(other)._numbers


@contextlib.contextmanager
def _small_distutils() -> Iterator[None]:
    """Replaces distutils.version while Skein is imported. Later imports get the real one."""
    if _ASKED_FOR in sys.modules:
        yield
        return
    module = ModuleType(_ASKED_FOR)
    module.LooseVersion = LooseVersion  # type: ignore[attr-defined]
    sys.modules[_ASKED_FOR] = module
    try:
        yield
    finally:
        del sys.modules[_ASKED_FOR]


def _import_skein() -> Any:
    with _small_distutils(), installed_first():
        import skein
    return skein


skein: Any = _import_skein()
