"""A function by its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class NamedFunction:
    """The function `name` of `module`, which is imported where it runs: for what does not pickle.
    `args` and `kwargs`, plain data, are what it is called with; a `tfapp.Context` comes after them
    if it takes one more.

    >>> NamedFunction("digits", "experiment", (0.1,)).name
    'experiment'
    """

    module: str
    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def __name__(self) -> str:
        return self.name
