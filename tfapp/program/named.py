"""A function that is referred to by its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class NamedFunction:
    """The function `name` of `module`, imported where it runs. Use it for a function that cannot be
    pickled. It is called with `args` and `kwargs`, which must be plain data, and then with the
    `tfapp.Context` if it has one more parameter.

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
