"""Python environments that are unpacked under TFAPP_HOME, once for each content of an archive. They
are used for checks and for containers of the local engine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path

from tfapp import tools
from tfapp.disk import make_private, partial_folder, put_in_place
from tfapp.environment.archive import PYTHON, UnfitError, is_pex

LIMIT = 1800.0  # seconds for unpacking
A_PACKAGE = "fsspec/__init__.py"  # of those that travel without an interpreter


def folder_of(archive: Path, environments: Path) -> Path:
    """The folder of the unpacked `archive`, which need not exist. OSError if there is no
    archive."""
    status = os.stat(archive)
    text = f"{archive.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    return environments / hashlib.sha256(text.encode()).hexdigest()[:24]


def is_unpacked(folder: Path) -> bool:
    """Whether there is an environment in a folder, or the packages of `libraries`, and nothing else
    in their place."""
    return any(os.path.lexists(folder / one) for one in (PYTHON, A_PACKAGE))


def unpack(archive: Path, environments: Path) -> Path:
    """Unpacks `archive` if necessary. Returns its folder. UnfitError if tar fails; OSError if the
    disk is full or not writable."""
    folder = folder_of(archive, environments)
    if not is_unpacked(folder):
        with partial_folder(environments) as partial:
            extract(archive, make_private(partial / "new"))
            if not is_unpacked(folder):  # by another command, in the meantime
                put_in_place(partial / "new", folder, partial / "damaged")
    note_use(folder)
    return folder


def note_use(path: Path) -> None:
    """Records that a folder or an archive in the cache is in use. Those that are not used for long
    are deleted. `last_use` reads it."""
    with contextlib.suppress(OSError):  # of another user, or read-only
        if path.is_dir():
            os.utime(path)
        else:  # `folder_of` has the time of its last change
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def last_use(status: os.stat_result) -> float:
    """The time of the last use of a folder or an archive in the cache, in seconds since 1970."""
    if stat.S_ISDIR(status.st_mode):  # the time of its last access changes when it is listed
        return status.st_mtime
    return max(status.st_atime, status.st_mtime)


def extract(archive: Path, folder: Path) -> None:
    """Unpacks an archive like a NodeManager does: by tar, without resolving links. UnfitError if
    tar fails."""
    command = ["tar", "-x", "--no-same-owner", "-f", str(archive), "-C", str(folder)]
    try:
        done = tools.run(command, None, LIMIT)
    except tools.ToolError as error:
        raise UnfitError(f"cannot be unpacked: {error}") from error
    if done.code:
        words = [line for line in done.err.splitlines() if "exit" not in line.lower()]
        raise UnfitError(f"cannot be unpacked: {words[-1] if words else 'tar failed'}")


def interpreter(archive: Path, environments: Path) -> tuple[list[str], dict[str, str]]:
    """The command of the interpreter in `archive` on this machine, and its environment variables.
    Unpacks the archive if necessary. UnfitError and OSError as `unpack`."""
    if is_pex(archive.name):
        root = folder_of(archive, environments)
        if not root.is_dir():
            root.unlink(missing_ok=True)  # something else in its place
        root.mkdir(0o700, parents=True, exist_ok=True)
        note_use(root)
        return [str(archive)], {"PEX_INTERPRETER": "1", "PEX_ROOT": str(root)}
    return [str(unpack(archive, environments) / PYTHON)], {}
