"""The files with which `start` runs an application that was created on another machine: its
definition and small files of each run. They are stored as one file in the shared folder, readable
for the owner only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp.compiler.shipment import ShippedFile
from tfapp.compiler.store import store_files
from tfapp.engines.definition import Definition, definition_file
from tfapp.frozen import frozen


@frozen
class Bundle:
    """`files`: name in the cache -> content, without files of the shared folder. They contain the
    values of credentials."""

    definition: Definition
    files: Mapping[str, str] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, definition: Definition) -> Bundle | None:
        """The bundle of a definition; None if a file is missing."""
        try:
            files = {path.name: path.read_text("utf-8") for path in definition.local_files()}
        except FileNotFoundError:
            return None
        return cls(definition, files)

    @property
    def name(self) -> str:
        """The name of its file; "" if the cluster has no shared folder."""
        return definition_file(self.definition.tags)

    def encode(self) -> bytes:
        """The bundle as one line of JSON. Equal bundles have equal encodings."""
        data = {"definition": dataclasses.asdict(self.definition), "files": self.files}
        return json.dumps(data, sort_keys=True).encode() + b"\n"

    def unpack(self, cache: Path) -> Definition:
        """The definition, with its files written to `cache`. UnavailableError if that fails."""
        store_files(ShippedFile(cache / name, text.encode()) for name, text in self.files.items())
        return self.definition.with_files_in(cache)


def decode(data: bytes) -> Iterator[Bundle]:
    for line in data.splitlines():
        found = json.loads(line)
        yield Bundle(Definition.from_dict(found["definition"]), found["files"])
