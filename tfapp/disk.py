"""Files and folders for their user alone, written whole or not at all; disk errors; locks."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfapp.errors import UnavailableError

_PARTIAL = ".new."  # begins the names of folders that are not complete
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOSPC: "there is no space left on its disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "its file system is read-only",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError into an UnavailableError that says what cannot be written, and why."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        if isinstance(error, (NotADirectoryError, FileExistsError)):
            reason = f"{error.filename} is not a folder"
        raise UnavailableError(
            f"{path} cannot be written: {reason}",
            "Make room or access, or name another folder with TFAPP_HOME.",
        ) from error


@contextlib.contextmanager
def using_cache(folder: Path) -> Iterator[None]:
    """As `writing`, for the folder that tfapp needs whatever the command."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            message = f"the disk of {folder} is full"
            hint = "Free some space there, or set TFAPP_HOME to a folder on another disk."
        else:
            number = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
            message = f"{folder} cannot be used: {os.strerror(number or errno.EIO)}"
            hint = "Make it writable, or set TFAPP_HOME to a folder of your own."
        raise UnavailableError(message, hint) from error


@contextlib.contextmanager
def needing_room(path: Path) -> Iterator[None]:
    """As `writing`, for full disks only: other errors are not about `path` itself."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        with writing(path):
            raise


def make_private(path: Path) -> Path:
    """Makes a folder that only its owner may enter, and those above it. Returns `path`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_atomically(path: Path, data: bytes, durable: bool = False) -> None:
    """Writes a file of mode 0600 that is never seen half-written. `durable`: after a power cut
    neither, which takes a disk some milliseconds."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(path: Path, value: Any, durable: bool = False) -> None:
    """Writes a dataclass or plain JSON data, for people to read too, as `write_atomically` does.
    Bytes of the environment that are no UTF-8 come back from `read_json` as they were."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="surrogatepass"), durable)


def read_json(path: Path) -> Any:
    """The content, or None when there is no such file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def delete_tree(path: Path) -> None:
    """Deletes a folder whatever its content's modes are; links in it are not followed. Nothing
    happens when there is none."""
    if not path.is_symlink() and path.exists():
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def partial_folder(parent: Path) -> Iterator[Path]:
    """A new folder below `parent`, which is made too: for content that is moved elsewhere when it
    is complete. The folder is deleted afterwards; after a killed process, by the next call.
    OSError when the disk is full or not writable."""
    parent.mkdir(0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        # So that no other process takes the new folder for an abandoned one.
        with _locked_folder(parent, None):
            _delete_abandoned(parent)
            folder = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(_locked_folder(folder, None))
        yield folder


def _delete_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError), _locked_folder(folder, 0.0) as held:
            if held:
                shutil.rmtree(folder, ignore_errors=True)


def locked(
    path: Path, timeout: float | None = 0.0, shared: bool = False
) -> contextlib.AbstractContextManager[bool]:
    """Opens the lock file `path` now (OSError) and holds its lock in the `with` block, if it is
    free within `timeout` seconds (None: waits for it); the block is told whether it is held.
    `shared`: beside others that share it. The kernel releases the lock of a process that dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return _holding(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, timeout)


def _locked_folder(folder: Path, timeout: float | None) -> contextlib.AbstractContextManager[bool]:
    return _holding(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX, timeout)


@contextlib.contextmanager
def _holding(descriptor: int, how: int, timeout: float | None) -> Iterator[bool]:
    try:
        yield _lock(descriptor, how, timeout)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: int, timeout: float | None) -> bool:
    if timeout is None:
        fcntl.flock(descriptor, how)
        return True
    end = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)  # nothing tells when a lock is released
        else:
            return True
