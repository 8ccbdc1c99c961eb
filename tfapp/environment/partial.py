"""Folders of what is still being made. One whose maker was killed goes when the next is made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = ".new."


@contextlib.contextmanager
def partial_folder(environments: Path) -> Iterator[Path]:
    """A new folder below `environments`, which is made too. What is not moved away from it is
    deleted afterwards. OSError when the disk is full or not writable."""
    environments.mkdir(0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _locked(environments):  # so that nobody takes the new folder for an abandoned one
            _delete_abandoned(environments)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=environments))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(_locked(folder))
        yield folder


@contextlib.contextmanager
def _locked(folder: Path, flags: int = 0) -> Iterator[None]:
    """Holds the lock of a folder, which the kernel gives back when its holder dies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(descriptor)


def _delete_abandoned(environments: Path) -> None:
    for folder in environments.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(folder, fcntl.LOCK_NB):
            shutil.rmtree(folder, ignore_errors=True)
