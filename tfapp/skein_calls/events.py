"""What a watch delivers."""

from __future__ import annotations

import dataclasses
from typing import Union


@dataclasses.dataclass(frozen=True)
class Put:
    """A key was written. `owner` is a container id or None."""

    key: str
    value: bytes
    owner: str | None = None


@dataclasses.dataclass(frozen=True)
class Deleted:
    """A key is gone: deleted, or its owner's container ended."""

    key: str


@dataclasses.dataclass(frozen=True)
class Broken:
    """The last event of a watch whose stream ended. Events may have been missed."""

    message: str


StoreEvent = Union[Put, Deleted, Broken]
