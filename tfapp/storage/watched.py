"""Tells a program's runner what the program writes to URLs: that it has saved something, by its
TFAPP_PROGRESS_FILE, and what it writes for TensorBoard, by a copy in its working folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tfapp.storage.base import Store, Writer

COPIES = ".tfapp-events"  # below the working folder
MOST_COPIED = 64 << 20  # bytes of an event file

_EVENT_FILE = re.compile(r"\btfevents\b")


def watching(store: Store, environ: Mapping[str, str]) -> Any:
    """`store`, for a program with `environ`; itself where the program has no runner."""
    return _Watched(store, environ) if "TFAPP_PROGRESS_FILE" in environ else store


class _Watched:
    """A Store. What it does not have is the store's own."""

    def __init__(self, store: Store, environ: Mapping[str, str]):
        self._store = store
        self._checkpoints = environ.get("TFAPP_CHECKPOINT_DIR", "").rstrip("/")
        self._touched = environ["TFAPP_PROGRESS_FILE"]
        self._copies = Path(environ.get("TFAPP_WORK_DIR", ""), COPIES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def writer(self, path: str, append: bool) -> Writer:
        writer = self._store.writer(path, append)
        if _EVENT_FILE.search(path.rpartition("/")[2]):
            return _Copied(writer, self._copy(path))
        return _Saving(writer, lambda: self._saved(path))

    def rename(self, old: str, new: str) -> None:
        self._store.rename(old, new)
        self._saved(new)

    def _saved(self, path: str) -> None:
        if self._checkpoints and path.startswith(f"{self._checkpoints}/"):
            with contextlib.suppress(OSError):  # a full disk here is no error of the program
                Path(self._touched).touch()

    def _copy(self, path: str) -> BinaryIO | None:
        folder = self._copies / path.rstrip("/").split("/")[-2]
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            return open(folder / path.rpartition("/")[2], "ab", buffering=0)
        return None


class _Saving:
    def __init__(self, writer: Writer, saved: Any):
        self._writer, self._saved = writer, saved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def close(self) -> None:
        self._writer.close()
        self._saved()


class _Copied:
    def __init__(self, writer: Writer, copy: BinaryIO | None):
        self._writer, self._copy = writer, copy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, content: bytes) -> None:
        self._writer.append(content)
        if self._copy is not None:
            with contextlib.suppress(OSError):
                if os.fstat(self._copy.fileno()).st_size + len(content) <= MOST_COPIED:
                    self._copy.write(content)

    def close(self) -> None:
        try:
            self._writer.close()
        finally:
            if self._copy is not None:
                self._copy.close()
