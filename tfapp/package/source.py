"""The source of a package's files: a folder or a .zip, refused as a whole when it is not safe.

A package holds regular files, each below its root. Links that lead out of it, absolute paths,
`..`, names that another system would mix up and archives that unpack to more than the limits
are `unsafe-path` or `package` findings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from tfapp.close_match import did_you_mean
from tfapp.errors import InvalidPackageError
from tfapp.package.find import ALL_NAMES, NAMES, nearby_hint
from tfapp.package.folder import FolderSource, Listing, list_folder
from tfapp.package.model import FILES, Source
from tfapp.package.safety import UNUSABLE, UnsafeSourceError, check_collisions, check_name
from tfapp.problems import Position, Problem, first_of
from tfapp.shipped import app_packages

T = TypeVar("T")

LARGE = 50_000_000  # bytes of files that are worth a word
_MOST = 8  # names in a line

_DOCUMENTS = (".yaml", ".yml", ".json")
_PERMISSIONS = "check its permissions"
_NO_PACKAGE = "there is no package here"


def open_source(path: Path, label: str, programs: bool = True) -> Source:
    """The package at `path`, which messages call `label`; without `programs` it lacks the files
    below files/. InvalidPackageError when there is none or when it is not safe to ship."""
    try:
        if path.is_dir():
            if above := _package_above(path):
                hint = f"the package is the folder above it: {above}"
                raise UnsafeSourceError("", _NO_PACKAGE, hint, UNUSABLE)
            return FolderSource(label, _kept(list_folder(path).files, programs))
        if path.is_file():
            if path.suffix.lower() in _DOCUMENTS:
                hint = f"give the folder that it is in: {path.parent}"
                raise UnsafeSourceError("", "this is a document, not a package", hint, UNUSABLE)
            from tfapp.package.archive import ZipSource, list_zip  # zipfile is slow to import

            return ZipSource(label, path, _kept(list_zip(path), programs))
        hint = "give the folder of an app package, or a .zip of one; `tfapp init` makes a new one"
        hint = did_you_mean(label, app_packages(), hint)
        raise UnsafeSourceError("", _NO_PACKAGE, nearby_hint(path, hint), UNUSABLE)
    except UnsafeSourceError as refused:
        raise InvalidPackageError((_problem(label, refused),)) from refused
    except OSError as error:
        message = f"the package cannot be read: {error.strerror}"
        unusable = UnsafeSourceError("", message, _PERMISSIONS, UNUSABLE)
        raise InvalidPackageError((_problem(label, unusable),)) from error


def _kept(files: dict[str, T], programs: bool) -> dict[str, T]:
    return {name: one for name, one in files.items() if programs or not name.startswith(FILES)}


def _package_above(path: Path) -> str:
    """The folder above `path`, if that one has a metainfo and `path`, such as a package's files/,
    has no document of a package; else ""."""
    above = Path(os.path.normpath(path / os.pardir))
    own = any((path / name).exists() for name in ALL_NAMES)
    return str(above) if not own and any((above / n).exists() for n in NAMES["metainfo"]) else ""


def collect_user_files(
    paths: Iterable[str | os.PathLike[str]], note: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """The files of `--files`, by their path below `files/` in a container. A file or a folder is
    shipped under its own name; of a folder that is written with a slash at its end, or as ".", the
    content alone. `note` is called with what is left out of a folder, and when the files are many
    megabytes. InvalidPackageError for all paths that do not exist or are not safe to ship, and for
    two files that would have one path."""
    found: dict[str, Path] = {}
    size = 0
    problems: list[Problem] = []
    for given in paths:
        path = Path(given)
        try:
            listing = _user_files(path)
            size += listing.size
            _add(found, listing.files, _folder_name(os.fspath(given)))
            check_collisions(found)
            words = [f"{name} ({why})" if why else name for name, why in listing.left_out]
            if words:
                note(f"{path}: does not ship {first_of(words, _MOST)}")
        except UnsafeSourceError as refused:
            problems.append(_problem(str(path), refused))
        except OSError as error:
            message = f"it cannot be read: {error.strerror}"
            unusable = UnsafeSourceError("", message, _PERMISSIONS, UNUSABLE)
            problems.append(_problem(str(path), unusable))
    if problems:
        raise InvalidPackageError(tuple(problems))
    if size > LARGE:
        note(
            f"ships {size / 1e6:.0f} MB, which every container gets: data is better read from a "
            "place that all of them see (site.global.user.data.dir)"
        )
    return found


def _folder_name(given: str) -> str:
    """The name under which a folder is shipped, with a slash; "" for a file, and where only the
    content is meant."""
    name = os.path.basename(given)
    return "" if name in ("", ".", "..") or not os.path.isdir(given) else f"{name}/"


def _add(found: dict[str, Path], files: dict[str, Path], folder: str) -> None:
    """UnsafeSourceError for another file of a path that `found` has."""
    for inside, path in files.items():
        name = folder + inside
        before = found.setdefault(name, path)
        if not before.samefile(path):
            message = f"{before} is to be shipped as {name} too"
            hint = "rename one of them, or give their folders, without a slash at the end"
            raise UnsafeSourceError(inside, message, hint, UNUSABLE)


def _user_files(path: Path) -> Listing:
    if path.is_dir():
        return list_folder(path)
    if path.is_file():
        return Listing({check_name(path.name): path}, path.stat().st_size, ())
    hint = "give your own programs to --files: files, or folders of them"
    raise UnsafeSourceError(
        "", "there is no such file or folder", nearby_hint(path, hint), UNUSABLE
    )


def _problem(label: str, refused: UnsafeSourceError) -> Problem:
    place = f"{label.rstrip('/')}/{refused.path}" if refused.path else label
    return Problem(Position(place), refused.code, refused.message, hint=refused.hint)
