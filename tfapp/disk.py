"""Private files and folders, atomic writes, errors of disks, and lock files."""

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

_PARTIAL = ".new."  # prefix of the names of folders that are not complete
FULL = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOSPC: "there is no space left on its disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "its file system is read-only",
}


class Below:
    """An attribute of a class with a `path`: the path of these names below it."""

    def __init__(self, *names: str):
        self._names = names

    def __get__(self, folder: Any, owner: type) -> Path:
        below: Path = folder.path.joinpath(*self._names)
        return below


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError in the block into an UnavailableError that says that `path` cannot be
    written, and why."""
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
    """Like `writing`, for the folder TFAPP_HOME, with a hint on how to move it."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            message = f"the disk of {folder} is full"
            hint = "Free some space there, or set TFAPP_HOME to a folder on another disk."
        else:
            number = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
            place = error.filename if error.errno in (errno.EISDIR, errno.ELOOP) else folder
            message = f"{place} cannot be used: {os.strerror(number or errno.EIO)}"
            hint = "Make it writable, or set TFAPP_HOME to a folder of your own."
        raise UnavailableError(message, hint) from error


@contextlib.contextmanager
def needing_room(path: Path) -> Iterator[None]:
    """Like `writing`, but only for errors of a full disk; other errors pass through."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        with writing(path):
            raise


def in_words(error: OSError, home: Path) -> UnavailableError | None:
    """What is wrong with a disk or a file of tfapp's own, for an error that nothing has caught.
    None if it is something else. `home`: TFAPP_HOME."""
    file = Path(str(error.filename or ""))
    if error.errno in FULL:
        return UnavailableError(str(error), "Free some space and try again.")
    if home in (file, *file.parents):
        message = f"{file} cannot be used: {error.strerror}"
        return UnavailableError(message, "tfapp has made it, and somebody has changed it.")
    hint = "Name a folder that you may write to with TMPDIR."
    try:
        ours = os.path.join(tempfile.gettempdir(), "tfapp-")
    except OSError as nowhere:
        return UnavailableError(str(nowhere), hint) if nowhere.args == error.args else None
    if str(file).startswith(ours):
        return UnavailableError(f"{file} cannot be used: {error.strerror}", hint)
    return None


def make_private(path: Path) -> Path:
    """Creates a folder of mode 0700, and missing folders above it. Returns `path`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_atomically(path: Path, data: bytes | memoryview, durable: bool = False) -> None:
    """Writes a file of mode 0600 that no reader sees half-written. `durable`: also after a power
    cut, which takes a few milliseconds."""
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
    """Writes a dataclass or plain JSON data as indented JSON, with `write_atomically`. `read_json`
    also restores text with bytes that are not UTF-8, as the environment may have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="surrogatepass"), durable)


def read_json(path: Path) -> Any:
    """The content of a JSON file. OSError; ValueError if it is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def delete_tree(path: Path) -> None:
    """Deletes a folder if it exists, whatever the modes of its content. Links in it are not
    followed."""
    if not path.is_symlink() and path.exists():
        for folder, _, _ in os.walk(path):
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def partial_folder(parent: Path) -> Iterator[Path]:
    """Creates a temporary folder in `parent`, which is created too, for content that is moved
    elsewhere once it is complete. The folder is deleted at the end of the block; if the process is
    killed, by the next call. OSError if the disk is full or not writable."""
    parent.mkdir(0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        # The lock keeps other processes from deleting the new folder as an abandoned one.
        with _locked_folder(parent, None):
            _delete_abandoned(parent)
            folder = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(_locked_folder(folder, None))
        yield folder


def put_in_place(new: Path, target: Path, old: Path) -> None:
    """Moves `new` to `target`, and whatever was there to `old`, on one file system. Of processes
    that do so at the same time, one succeeds."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(target, old)
    try:
        os.rename(new, target)
    except OSError:
        if not target.exists():
            raise


def _delete_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError), _locked_folder(folder, 0.0) as held:
            if held:
                shutil.rmtree(folder, ignore_errors=True)


def locked(
    path: Path, timeout: float | None, shared: bool = False
) -> contextlib.AbstractContextManager[bool]:
    """Opens the lock file `path` at once, or raises OSError. The `with` statement then waits up to
    `timeout` seconds (None: without limit) for the lock, yields whether it got it, and releases it
    at the end. `shared`: other processes may hold a shared lock at the same time. The kernel
    releases the lock of a process that dies. UnavailableError where the file system has no
    locks."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return _holding(descriptor, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, timeout)


def _locked_folder(folder: Path, timeout: float | None) -> contextlib.AbstractContextManager[bool]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return _holding(descriptor, folder, fcntl.LOCK_EX, timeout)


def lock_file(path: Path) -> int | None:
    """The descriptor of the lock file `path`, which has the lock until all copies of it are closed;
    None if others have it. See `locked`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        held = _lock(descriptor, path, fcntl.LOCK_EX, 0.0)
    except BaseException:
        os.close(descriptor)
        raise
    if held:
        return descriptor
    os.close(descriptor)
    return None


@contextlib.contextmanager
def _holding(descriptor: int, path: Path, how: int, timeout: float | None) -> Iterator[bool]:
    try:
        yield _lock(descriptor, path, how, timeout)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, how: int, timeout: float | None) -> bool:
    try:
        return _flock(descriptor, how, timeout)
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be locked: {error.strerror}",
            "Its file system may have no locks. Name a folder on another one with TFAPP_HOME.",
        ) from error


def _flock(descriptor: int, how: int, timeout: float | None) -> bool:
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
            time.sleep(0.02)  # flock has no timeout, so the lock is polled
        else:
            return True


def size_of(path: Path) -> int:
    """The size of a file, or of all files below a folder, in bytes; 0 if it does not exist."""
    total = 0
    with contextlib.suppress(OSError):
        total = path.lstat().st_size
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
