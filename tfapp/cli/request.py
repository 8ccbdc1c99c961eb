"""What a command asks to have compiled, and perhaps launched."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tfapp.package.overrides import Overrides


@dataclasses.dataclass(frozen=True)
class Request:
    """A package, and all that the command line says about it."""

    name: str
    appdef: Path
    template: Path | None = None
    resources: Path | None = None
    overrides: Overrides = dataclasses.field(default_factory=Overrides)
    files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    programs: bool = True  # also the package's own
    queue: str = "default"
    tags: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
