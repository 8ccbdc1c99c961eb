"""The packages by which programs open URLs (tfapp.storage), as an archive that travels with an
application: those of this interpreter where they fit the nodes, else wheels that pip fetches."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfapp import tools
from tfapp.disk import partial_folder
from tfapp.environment import build
from tfapp.environment.unpacked import note_use
from tfapp.errors import UnavailableError
from tfapp.standalone import foreign_pip

PACKAGES = ("certifi", "fsspec", "hdfs-native", "obstore")
_BESIDE = ("typing-extensions",)  # what they need
_OLDEST = (3, 10)
_LIMIT = 600.0  # seconds for pip
_KEPT_LINES = 3  # of its last words
_COMPRESSION = 1


def are_here() -> bool:
    """Whether this interpreter has them."""
    return all(_distribution(name) is not None for name in PACKAGES)


def place(version: str, platform: str, environments: Path) -> Path:
    """The path of the archive for Python `version` ("3.11") on `platform` ("linux-x86_64"), which
    need not exist. UnavailableError if there can be none."""
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        raise UnavailableError(f"it needs Python 3.10 or newer, and the programs have {version}")
    decisive = list(_versions()) if _are_mine(version, platform) else [version, platform, *PACKAGES]
    digest = hashlib.sha256(json.dumps(["storage", *decisive]).encode()).hexdigest()[:24]
    return environments / f"{digest}.tar.gz"


def make(
    archive: Path,
    version: str,
    platform: str,
    python: str,
    environ: Mapping[str, str],
    note: Callable[[str], None],
) -> None:
    """Makes the `archive` that `place` names, unless it is there. UnavailableError if pip fails."""
    if _is_whole(archive):
        note_use(archive)
        return
    with partial_folder(archive.parent) as partial:
        folder = partial / "packages"
        folder.mkdir()
        if _are_mine(version, platform):
            _copy(folder)
        else:
            note("fetches the packages by which programs open URLs: once")
            _fetch(folder, version, platform, python, environ)
        with tarfile.open(partial / "packed", "w:gz", compresslevel=_COMPRESSION) as packed:
            for name in sorted(os.listdir(folder)):
                packed.add(folder / name, name, filter=build.packed)
        os.replace(partial / "packed", archive)


def _is_whole(archive: Path) -> bool:
    """Whether it is there and not cut off, as after a full disk or a crash: its last four bytes are
    the length of what is compressed, and that of a tar is a multiple of its records."""
    with contextlib.suppress(FileNotFoundError), archive.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4))
        length = int.from_bytes(file.read(), "little")
        return length > 0 and length % tarfile.RECORDSIZE == 0
    return False


def _are_mine(version: str, platform: str) -> bool:
    return version == build.version_here() and platform == build.HERE and are_here()


def _distribution(name: str) -> Any:
    metadata = importlib.import_module("importlib.metadata")  # slow to load
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _mine() -> Iterator[Any]:
    yield from filter(None, map(_distribution, (*PACKAGES, *_BESIDE)))


def _versions() -> Iterator[str]:
    yield ".".join(map(str, sys.version_info[:2]))
    yield from (f"{one.metadata['Name']}=={one.version}" for one in _mine())


def _copy(folder: Path) -> None:
    for distribution in _mine():
        for file in distribution.files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)


def _fetch(
    folder: Path, version: str, platform: str, python: str, environ: Mapping[str, str]
) -> None:
    wanted = build.Wanted(PACKAGES, version, platform)
    pip = build.with_pip(python, folder.parent / "helper", environ)
    command = [pip, foreign_pip.__file__, json.dumps(build.markers(wanted)), "install"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--target", str(folder)]
    command += [*build.wheels(wanted), "--", *PACKAGES, *_BESIDE]
    try:
        done = tools.run(command, {**environ, "PIP_USER": "0"}, _LIMIT)
        said = done.err.strip().splitlines()[-_KEPT_LINES:] if done.code else []
        reason = "\n  ".join(said) or (done.reason if done.code else "")
    except tools.ToolError as error:
        reason = str(error)
    if reason:
        raise UnavailableError(
            f"pip cannot fetch {', '.join(PACKAGES)} for Python {version} on {platform}:\n  "
            f"{reason}",
            "Install them here, if the nodes are like this machine: pip install 'tfapp[storage]'.",
        )
