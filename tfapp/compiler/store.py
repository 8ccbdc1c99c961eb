"""The cache of shipped files under TFAPP_HOME: the only place where compiled files are written,
and deleted when the last application that is made of them is destroyed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from tfapp.compiler.shipment import OWNER_ONLY, ShippedFile
from tfapp.errors import UnavailableError

PRIVATE_KEY_FILE = "private.key"

_PRIVATE_KEY_BYTES = 32
_LOCK_FILE = ".lock"
_FOLDER_MODE = 0o700
_FULL = (errno.ENOSPC, errno.EDQUOT)


def store_files(files: Iterable[ShippedFile]) -> None:
    """Writes what is not in the cache yet; a file appears whole or not at all.

    A file of the same name and other content (a damaged one) is replaced. UnavailableError when
    the disk is full or the folder cannot be written.
    """
    for file in files:
        with _disk_errors(file.path.parent):
            _make_folder(file.path.parent)
            if not _holds(file):
                _write(file)


@contextlib.contextmanager
def keeping_files(cache: Path) -> Iterator[None]:
    """While a command stores files and has an engine write down that they are used, no other
    command deletes any. UnavailableError as `store_files`."""
    with _disk_errors(cache):
        _make_folder(cache)
        descriptor = os.open(cache / _LOCK_FILE, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # who has it alone, deletes a few files
        yield
    finally:
        os.close(descriptor)


def delete_files(
    cache: Path, names: Iterable[str], used: Callable[[], Collection[str]], timeout: float = 10.0
) -> None:
    """Deletes from `cache` the files called `names` but for those in `used()`. Waits at most
    `timeout` seconds for commands that are storing files; then nothing is deleted."""
    with nobody_stores(cache, timeout) as alone:
        if alone:
            for name in set(names) - set(used()):
                (cache / name).unlink(missing_ok=True)


@contextlib.contextmanager
def nobody_stores(cache: Path, timeout: float = 10.0) -> Iterator[bool]:
    """Keeps commands from storing files until those are deleted that nobody uses. Waits at most
    `timeout` seconds for those that are at it; yields whether none is."""
    try:
        descriptor = os.open(cache / _LOCK_FILE, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    except OSError as error:  # no cache, or a disk that takes nothing
        yield isinstance(error, FileNotFoundError)
        return
    try:
        yield _locked(descriptor, timeout)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, timeout: float) -> bool:
    end = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)  # nothing tells when a lock is given back
        else:
            return True


def load_private_key(cache: Path) -> bytes:
    """The secret that goes into the names of private files, made on first use.
    UnavailableError when it can neither be read nor written."""
    path = cache / PRIVATE_KEY_FILE
    with _disk_errors(cache):
        _make_folder(cache)
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        key = os.urandom(_PRIVATE_KEY_BYTES)
        with contextlib.suppress(FileExistsError), _temporary(cache, key, OWNER_ONLY) as temporary:
            # Unlike a rename, this does not replace a key that another process made since.
            os.link(temporary, path)
        return path.read_bytes()


def _make_folder(folder: Path) -> None:
    """`folder` and its missing parents, for the owner alone."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    try:
        folder.mkdir(_FOLDER_MODE, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None


def _holds(file: ShippedFile) -> bool:
    try:
        status = file.path.stat()
    except FileNotFoundError:
        return False
    if status.st_size != len(file.data) or status.st_mode & 0o777 != file.mode:
        return False
    return file.path.read_bytes() == file.data


def _write(file: ShippedFile) -> None:
    with _temporary(file.path.parent, file.data, file.mode) as temporary:
        os.replace(temporary, file.path)


@contextlib.contextmanager
def _temporary(folder: Path, data: bytes, mode: int) -> Iterator[str]:
    """A file in `folder` with `data`, flushed to the disk; gone after the block unless moved."""
    descriptor, name = tempfile.mkstemp(prefix=".new.", dir=folder)
    try:
        with open(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fchmod(handle.fileno(), mode)
            os.fsync(handle.fileno())
        yield name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            message = f"the disk of {folder} is full"
            hint = "Free some space there, or set TFAPP_HOME to a folder on another disk."
        else:
            message = f"{folder} cannot be used: {error.strerror or error}"
            hint = "Make it writable, or set TFAPP_HOME to a folder of your own."
        raise UnavailableError(message, hint) from error
