"""What only an application's own containers may read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Private:
    """What must not be seen in a spec: environment of the user's programs, by component, and
    the values to strike out of every report."""

    env: Mapping[str, Mapping[str, str]]
    redact: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Private:
        return cls(env=data["env"], redact=tuple(data.get("redact", ())))
