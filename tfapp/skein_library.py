"""Skein, without the slow part of its import: `from tfapp.skein_library import skein`.

Skein asks `distutils` to compare two version numbers. From Python 3.12 on only setuptools has
that, and where setuptools is installed it takes the place of Python's own before: 0.2 of the
0.35 seconds that Skein takes to load. Containers do without it (tfapp.protocol).
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_ASKED_FOR = "distutils.version"


class LooseVersion:
    """As much of distutils' class as Skein uses: the order of numbers such as "1.18.0"."""

    def __init__(self, text: str):
        self._numbers = tuple(map(int, re.findall(r"\d+", text)))

    def __lt__(self, other: str) -> bool:
        return self._numbers < LooseVersion(other)._numbers


@contextlib.contextmanager
def _small_distutils() -> Iterator[None]:
    """A stand-in for distutils while Skein is imported. Later imports get the whole of it."""
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
    with _small_distutils():
        import skein
    return skein


skein: Any = _import_skein()
