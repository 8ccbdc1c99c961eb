"""How an engine writes: for its user alone, whole or not at all, and with the reason if not."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfapp.errors import UnavailableError

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
def needing_room(path: Path) -> Iterator[None]:
    """As `writing`, for full disks only: other errors are not about `path` itself."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with writing(path):
            raise


def make_private(path: Path) -> Path:
    """Makes a folder that only its owner may enter, and those above it. Returns `path`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file of mode 0600 that is never seen half-written."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes a dataclass or plain JSON data, for people to read too. Bytes of the environment
    that are no UTF-8 come back from `read_json` as they were."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="surrogatepass"))


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
def locked(path: Path) -> Iterator[bool]:
    """Holds the lock `path` if it is free; yields whether it is held now. Never waits. The
    kernel gives the lock back when its holder dies."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
