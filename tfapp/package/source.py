"""The source of a package's files: a folder or a .zip, refused as a whole when it is not safe.

A package holds regular files, each below its root. Links that lead out of it, absolute paths,
`..`, names that another system would mix up and archives that unpack to more than the limits
are `unsafe-path` or `package` findings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tfapp.errors import InvalidPackageError
from tfapp.frozen import frozen
from tfapp.package.find import NAMES
from tfapp.package.folder import FolderSource, Listing, list_folder
from tfapp.package.model import FILES, Source
from tfapp.package.nearby import nearby_hint
from tfapp.package.safety import UNUSABLE, UnsafeSourceError, check_collisions, check_name
from tfapp.problems import Position, Problem

LARGE = 50_000_000  # bytes of files that are worth a word
_MOST = 8  # names in a line

_DOCUMENTS = (".yaml", ".yml", ".json")
_PERMISSIONS = "check its permissions"
_NO_PACKAGE = "there is no package here"


@frozen
class WithoutPrograms:
    """A package without the files below files/."""

    whole: Source

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.whole.label

    def files(self) -> tuple[str, ...]:
        """Every regular file but for the programs, sorted."""
        return tuple(f for f in self.whole.files() if not f.startswith(FILES))

    def read(self, path: str) -> bytes:
        """See Source.read."""
        return self.whole.read(path)

    def executable(self, path: str) -> bool:
        """See Source.executable."""
        return self.whole.executable(path)


def open_source(path: Path, label: str) -> Source:
    """The package at `path`, which messages call `label`. InvalidPackageError when there is none
    or when it is not safe to ship."""
    try:
        if path.is_dir():
            if above := _package_above(path):
                hint = f"the package is the folder above it: {above}"
                raise UnsafeSourceError("", _NO_PACKAGE, hint, UNUSABLE)
            return FolderSource(label, list_folder(path).files)
        if path.is_file():
            if path.suffix.lower() in _DOCUMENTS:
                hint = f"give the folder that it is in: {path.parent}"
                raise UnsafeSourceError("", "this is a document, not a package", hint, UNUSABLE)
            from tfapp.package.archive import ZipSource, list_zip  # zipfile is slow to import

            return ZipSource(label, path, list_zip(path))
        hint = "give the folder of an app package, or a .zip of one; `tfapp init` makes a new one"
        raise UnsafeSourceError("", _NO_PACKAGE, nearby_hint(path, hint), UNUSABLE)
    except UnsafeSourceError as refused:
        raise _invalid(label, refused) from refused
    except OSError as error:
        message = f"the package cannot be read: {error.strerror}"
        raise _invalid(label, UnsafeSourceError("", message, _PERMISSIONS, UNUSABLE)) from error


def _package_above(path: Path) -> str:
    """The folder above `path`, if that one has a metainfo and `path`, such as a package's files/,
    has no document of a package; else ""."""
    above = Path(os.path.normpath(path / os.pardir))
    own = any((path / name).exists() for names in NAMES.values() for name in names)
    return str(above) if not own and any((above / n).exists() for n in NAMES["metainfo"]) else ""


def collect_user_files(
    paths: Iterable[Path], note: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """The files of `--files`, by their path below `files/` in a container. A file is shipped under
    its own name, the content of a folder under the paths that it has in there. Of two files with
    one path the later one wins. `note` is called with what is left out of a folder, and when the
    files are many megabytes. InvalidPackageError for a path that does not exist or is not safe to
    ship."""
    found: dict[str, Path] = {}
    size = 0
    for path in paths:
        try:
            listing = _user_files(path)
            size += listing.size
            found.update(listing.files)
            check_collisions(found)
            if listing.left_out:
                note(f"{path}: does not ship {_named(listing.left_out)}")
        except UnsafeSourceError as refused:
            raise _invalid(str(path), refused) from refused
        except OSError as error:
            message = f"it cannot be read: {error.strerror}"
            unusable = UnsafeSourceError("", message, _PERMISSIONS, UNUSABLE)
            raise _invalid(str(path), unusable) from error
    if size > LARGE:
        note(
            f"ships {size / 1e6:.0f} MB, which every container gets: data is better read from a "
            "place that all of them see (site.global.user.data.dir)"
        )
    return found


def _named(left_out: Sequence[tuple[str, str]]) -> str:
    words = [f"{name} ({why})" if why else name for name, why in left_out]
    more = f" and {len(words) - _MOST} more" if len(words) > _MOST else ""
    return ", ".join(words[:_MOST]) + more


def _user_files(path: Path) -> Listing:
    if path.is_dir():
        return list_folder(path)
    if path.is_file():
        return Listing({check_name(path.name): path}, path.stat().st_size, ())
    hint = "give your own programs to --files: files, or folders of them"
    raise UnsafeSourceError(
        "", "there is no such file or folder", nearby_hint(path, hint), UNUSABLE
    )


def _invalid(label: str, refused: UnsafeSourceError) -> InvalidPackageError:
    place = f"{label.rstrip('/')}/{refused.path}" if refused.path else label
    problem = Problem(Position(place), refused.code, refused.message, hint=refused.hint)
    return InvalidPackageError((problem,))
