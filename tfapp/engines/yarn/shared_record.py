"""The local record of a cluster's shared folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path

from tfapp.disk import make_private, read_json, write_json, writing
from tfapp.frozen import frozen


@frozen
class Record:
    """The record: the URL of the folder; for each uploaded file its local copy ("" for none); the
    files that were deleted since; and the times of the last listing and of the last sweep, in
    seconds since 1970."""

    url: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    looked: float = 0.0
    swept: float = 0.0

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record; an empty one if there is none."""
        data = read_json(path)
        if data is None:
            return cls()
        times = data.get("looked", 0.0), data.get("swept", 0.0)
        return cls(data["url"], data["files"], tuple(data.get("gone", ())), *times)

    def write(self, path: Path) -> None:
        """Writes the record. UnavailableError if that fails."""
        with writing(path):
            make_private(path.parent)
            write_json(path, self)

    def brought(self, copies: Mapping[str, str]) -> Record:
        """A record with these uploaded files added."""
        gone = tuple(name for name in self.gone if name not in copies)
        return dataclasses.replace(self, files={**self.files, **copies}, gone=gone)

    def only(self, names: Collection[str]) -> Record:
        """A record with only these files."""
        return dataclasses.replace(self, gone=tuple(n for n in self.files if n not in names))
