"""The cache of shipped files under TFAPP_HOME. Only this module writes compiled files, and deletes
them when the last application that uses them is destroyed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from tfapp.compiler.shipment import ShippedFile
from tfapp.disk import locked, make_private, using_cache, write_atomically

CACHE = "cache"  # below TFAPP_HOME
PRIVATE_KEY_FILE = "private.key"

_PRIVATE_KEY_BYTES = 32
_LOCK_FILE = ".lock"


def store_files(files: Iterable[ShippedFile]) -> None:
    """Writes the files that the cache lacks; a file appears whole or not at all. A damaged file,
    whose content does not fit its name, is replaced. UnavailableError when the disk is full or the
    folder cannot be written."""
    for file in files:
        with using_cache(file.path.parent):
            make_private(file.path.parent)
            if not _holds(file):
                write_atomically(file.path, file.data, durable=True)


@contextlib.contextmanager
def keeping_files(cache: Path) -> Iterator[None]:
    """Keeps other commands from deleting files, from before the files are stored until the engine
    has recorded that they are used. UnavailableError as `store_files`."""
    with using_cache(cache):
        make_private(cache)
        lock = locked(cache / _LOCK_FILE, None, shared=True)
    with lock:
        yield


def delete_files(
    cache: Path, names: Iterable[str], used: Callable[[], Collection[str]], timeout: float = 10.0
) -> None:
    """Deletes the files called `names` from `cache`, except those in `used()`. Waits at most
    `timeout` seconds for commands that are storing files, and deletes nothing after that."""
    with nobody_stores(cache, timeout) as alone:
        if alone:
            for name in set(names) - set(used()):
                (cache / name).unlink(missing_ok=True)


@contextlib.contextmanager
def nobody_stores(cache: Path, timeout: float = 10.0) -> Iterator[bool]:
    """Locks the cache, so that no command stores files while unused ones are deleted. Waits at most
    `timeout` seconds for commands that are storing files. Yields whether the lock was taken."""
    try:
        lock = locked(cache / _LOCK_FILE, timeout)
    except OSError as error:  # no cache, or a disk that takes nothing
        yield isinstance(error, FileNotFoundError)
        return
    with lock as held:
        yield held


def load_private_key(cache: Path) -> bytes:
    """The secret from which the names of private files are made. It is created on first use.
    UnavailableError when it can neither be read nor written."""
    path = cache / PRIVATE_KEY_FILE
    with using_cache(cache):
        make_private(cache)
        with contextlib.suppress(FileNotFoundError):
            found = path.read_bytes()
            if len(found) == _PRIVATE_KEY_BYTES:
                return found
            path.unlink()  # damaged
        key = path.with_name(f".{PRIVATE_KEY_FILE}.{os.getpid()}")
        write_atomically(key, os.urandom(_PRIVATE_KEY_BYTES), durable=True)
        try:
            # Unlike a rename, this does not replace a key that another process made since.
            with contextlib.suppress(FileExistsError):
                os.link(key, path)
        finally:
            key.unlink()
        return path.read_bytes()


def _holds(file: ShippedFile) -> bool:
    try:
        status = file.path.stat()
    except FileNotFoundError:
        return False
    if status.st_size != len(file.data) or status.st_mode & 0o777 != file.mode:
        return False
    return file.path.read_bytes() == file.data
