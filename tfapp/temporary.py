"""The temporary folders of programs. A process that is killed deletes nothing: what it has left is
deleted by `sweep`, which the next such process of the same user calls."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

from tfapp.disk import delete_tree

PREFIX = "tfapp-tmp-"
_NEW = "tfapp-new-"  # not locked yet, so never swept


class TemporaryFolder:
    """A new folder in `parent`, by default that of TMPDIR, until `delete` or, if the process ends
    without it, the next `sweep`. OSError if it cannot be created."""

    def __init__(self, parent: str | None = None):
        sweep(parent)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=parent))
        self._lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):  # without locks it is not swept either
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = new.rename(new.with_name(new.name.replace(_NEW, PREFIX, 1)))

    def delete(self) -> None:
        delete_tree(self.path)
        os.close(self._lock)


def sweep(parent: str | None = None) -> None:
    """Deletes this user's folders in `parent` whose processes have ended."""
    with contextlib.suppress(OSError):
        for folder in Path(parent or tempfile.gettempdir()).glob(f"{PREFIX}*"):
            if _is_left(folder):
                delete_tree(folder)


def _is_left(folder: Path) -> bool:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # another user's
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(lock).st_uid == os.geteuid()
    except OSError:  # it is in use
        return False
    finally:
        os.close(lock)
