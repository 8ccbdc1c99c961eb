"""The files with which `start` runs an application that was created elsewhere: its definition, and
the small files that travel with each run. Together they are one file of the shared folder, for the
owner alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfapp.compiler.shipment import ShippedFile
from tfapp.compiler.store import store_files
from tfapp.compiler.tags import definition_file
from tfapp.engines.definition import Definition
from tfapp.frozen import frozen


@frozen
class Bundle:
    """`files`: the text of each by its name in the cache, those that lie in the shared folder left
    out. They have the values of credentials."""

    definition: Definition
    files: Mapping[str, str] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, definition: Definition) -> Bundle | None:
        """None where a file is gone."""
        try:
            files = {path.name: path.read_text("utf-8") for path in definition.local_files()}
        except FileNotFoundError:
            return None
        return cls(definition, files)

    @property
    def name(self) -> str:
        """The name of its file; "" where the cluster has no shared folder."""
        return definition_file(self.definition.tags)

    def encode(self) -> bytes:
        """One line of JSON. Equal bundles have equal bytes."""
        data = {"definition": dataclasses.asdict(self.definition), "files": self.files}
        return json.dumps(data, sort_keys=True).encode() + b"\n"

    def unpack(self, cache: Path) -> Definition:
        """The definition with its files in `cache`. UnavailableError when they cannot be written
        there."""
        store_files(ShippedFile(cache / name, text.encode()) for name, text in self.files.items())
        return self.definition.with_files_in(cache)


def decode(data: bytes) -> Iterator[Bundle]:
    """Of bundles in one piece."""
    for line in data.splitlines():
        found = json.loads(line)
        yield Bundle(Definition.from_dict(found["definition"]), found["files"])
