"""This machine's record of the folder that applications share on a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path

from tfapp.disk import make_private, read_json, write_json, writing
from tfapp.frozen import frozen


@frozen
class Record:
    """The record of the folder: its URL; for each file that was brought there its copy on this
    machine, "" for none; the files that were deleted since; and the times of the last listing, and
    of the last look for what is not needed any more, in seconds since 1970."""

    url: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    looked: float = 0.0
    swept: float = 0.0

    @classmethod
    def read(cls, path: Path) -> Record:
        """An empty one when nothing is known."""
        data = read_json(path)
        if data is None:
            return cls()
        times = data.get("looked", 0.0), data.get("swept", 0.0)
        return cls(data["url"], data["files"], tuple(data.get("gone", ())), *times)

    def write(self, path: Path) -> None:
        """UnavailableError when that is impossible."""
        with writing(path):
            make_private(path.parent)
            write_json(path, self)

    def brought(self, copies: Mapping[str, str]) -> Record:
        """With files that are there now."""
        gone = tuple(name for name in self.gone if name not in copies)
        return dataclasses.replace(self, files={**self.files, **copies}, gone=gone)

    def only(self, names: Collection[str]) -> Record:
        """With nothing there but `names`."""
        return dataclasses.replace(self, gone=tuple(n for n in self.files if n not in names))
