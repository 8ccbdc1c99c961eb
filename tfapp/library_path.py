"""Imports tfapp's libraries from where they are installed, whatever a program has put before that.
They are imported late, and `import cluster_pack`, for example, puts an old `attrs` first on
sys.path and on sys.meta_path, with which jsonschema cannot be imported."""

from __future__ import annotations

import contextlib
import site
import sys
from collections.abc import Callable, Iterator
from typing import Any

_PYTHONS_OWN = ("_frozen_importlib", "_frozen_importlib_external")


@contextlib.contextmanager
def installed_first() -> Iterator[None]:
    """Within the block, Python's own finders come first, and folders of installed packages."""
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    own = _first(sys.meta_path, lambda finder: finder.__module__ in _PYTHONS_OWN)
    with own, _first(sys.path, lambda folder: folder in installed):
        yield


@contextlib.contextmanager
def _first(places: list[Any], wanted: Callable[[Any], bool]) -> Iterator[None]:
    before = tuple(places)
    places[:] = sorted(places, key=lambda place: not wanted(place))
    try:
        yield
    finally:
        places[:] = [*before, *(place for place in places if place not in before)]
