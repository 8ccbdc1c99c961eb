"""A cache of the documents that fit their schema, kept from one command to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tfapp.disk import make_private, write_atomically
from tfapp.schema.failure import KNOWN_TO_FIT

MOST = 1000  # digests; then all are forgotten


@contextlib.contextmanager
def remembering(path: Path, keep: bool) -> Iterator[None]:
    """Skips the check of data that fitted its schema before, according to the file `path`. With
    `keep`, data that is found to fit now is added to the file. A failure to write it is ignored."""
    try:
        known = set(path.read_text("ascii").split())
    except (OSError, UnicodeDecodeError):
        known = set()
    before = frozenset(known)
    token = KNOWN_TO_FIT.set(known)
    try:
        yield
    finally:
        KNOWN_TO_FIT.reset(token)
    if keep and known != before:
        kept = known if len(known) <= MOST else known - before
        with contextlib.suppress(OSError):
            write_atomically(make_private(path.parent) / path.name, "\n".join(kept).encode())
