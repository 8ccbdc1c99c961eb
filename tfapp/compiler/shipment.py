"""The files of an application, named by their content."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
from pathlib import Path

from tfapp.compiler.contents import ArchiveEntry, UserFile, file_entries, pack, package_entries
from tfapp.compiler.options import CompileOptions
from tfapp.compiler.runtime import read_runtime
from tfapp.contract.encoding import encode
from tfapp.contract.job import Job, Private
from tfapp.frozen import frozen
from tfapp.package.model import AppPackage

OWNER_ONLY = 0o600


@frozen
class ShippedFile:
    """One file as it will lie in the cache. Equal content has an equal path. `place`: the URL of a
    folder that the file is brought to, "" for none."""

    path: Path
    data: bytes = dataclasses.field(repr=False)
    mode: int = OWNER_ONLY
    place: str = ""

    @property
    def source(self) -> str:
        """The URL or path from which containers get it."""
        return f"{self.place}/{self.path.name}" if self.place else f"file://{self.path}"


@frozen
class Shipment:
    """The files that are localised into containers."""

    runtime: ShippedFile
    package: ShippedFile
    files: ShippedFile
    job: ShippedFile
    private: ShippedFile

    @property
    def all(self) -> tuple[ShippedFile, ...]:
        """Every file, in the order of the fields."""
        return (self.runtime, self.package, self.files, self.job, self.private)


def build_shipment(
    package: AppPackage,
    options: CompileOptions,
    user_files: tuple[UserFile, ...],
    job: Job,
    private: Private,
) -> Shipment:
    """Packs the archives; nothing is written. Reads the package, the user's files and, unless
    the options bring them, tfapp's own."""
    sources = read_runtime() if options.runtime is None else options.runtime
    runtime = pack((ArchiveEntry(path, data) for path, data in sources), options.small)
    return Shipment(
        runtime=_archive(options, runtime),
        package=_archive(options, pack(package_entries(package))),
        files=_archive(options, pack(file_entries(package, user_files))),
        job=_named(options.cache, encode(job), ".json"),
        private=_named_privately(options, encode(private)),
    )


def _archive(options: CompileOptions, data: bytes) -> ShippedFile:
    return dataclasses.replace(_named(options.cache, data, ".zip"), place=options.place)


def _named(cache: Path, data: bytes, suffix: str) -> ShippedFile:
    return ShippedFile(cache / (hashlib.sha256(data).hexdigest() + suffix), data)


def _named_privately(options: CompileOptions, data: bytes) -> ShippedFile:
    # The name stands in the spec; a plain hash would let its readers test guesses.
    digest = hmac.new(options.private_key, data, hashlib.sha256).hexdigest()
    return ShippedFile(options.cache / f"{digest}.private.json", data)
