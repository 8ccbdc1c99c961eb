"""One step of `benchmarks.object_stores` in a process of its own: `LIBRARY STEP MEGABYTES`. Prints
as JSON how many seconds it took, and of which how many on processors."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from tfapp.storage.objects import s3_options

BUCKET, NAME, WRITTEN = "bucket", "measured", "written"
PIECE = 4 << 20  # bytes of a read or a write
PART = 8 << 20  # bytes of a part of an upload
AT_ONCE = 4  # requests of one file, as tfapp has of a large read


class Library(Protocol):
    """One that opens S3, as its documentation says, with its own defaults."""

    def size(self) -> int: ...
    def read(self) -> int: ...
    def read_range(self, at: int, count: int) -> int: ...
    def write(self, content: bytes) -> None: ...
    def write_pieces(self, pieces: Iterator[bytes]) -> None: ...


class Obstore:
    def __init__(self) -> None:
        from obstore.store import S3Store

        self._library = importlib.import_module("obstore")
        self._store: Any = S3Store(BUCKET, **s3_options(os.environ))

    def size(self) -> int:
        return int(self._library.head(self._store, NAME)["size"])

    def read(self) -> int:
        return len(self._library.get(self._store, NAME).bytes())

    def read_range(self, at: int, count: int) -> int:
        return len(self._library.get_range(self._store, NAME, start=at, length=count))

    def write(self, content: bytes) -> None:
        self._library.put(self._store, WRITTEN, content)

    def write_pieces(self, pieces: Iterator[bytes]) -> None:
        with self._library.open_writer(self._store, WRITTEN, buffer_size=PART) as file:
            for piece in pieces:
                file.write(piece)


class S3fs:
    def __init__(self) -> None:
        found = s3_options(os.environ)
        keys = {"key": found["access_key_id"], "secret": found["secret_access_key"]}
        library = importlib.import_module("s3fs")
        self._store: Any = library.S3FileSystem(endpoint_url=found["endpoint"], **keys)

    def size(self) -> int:
        return int(self._store.info(f"{BUCKET}/{NAME}")["size"])

    def read(self) -> int:
        return len(self._store.cat_file(f"{BUCKET}/{NAME}"))

    def read_range(self, at: int, count: int) -> int:
        return len(self._store.cat_file(f"{BUCKET}/{NAME}", start=at, end=at + count))

    def write(self, content: bytes) -> None:
        self._store.pipe_file(f"{BUCKET}/{WRITTEN}", content)

    def write_pieces(self, pieces: Iterator[bytes]) -> None:
        with self._store.open(f"{BUCKET}/{WRITTEN}", "wb", block_size=PART) as file:
            for piece in pieces:
                file.write(piece)


LIBRARIES: dict[str, Callable[[], Library]] = {"obstore": Obstore, "s3fs": S3fs}


def ranges(size: int) -> list[tuple[int, int]]:
    return [(at, min(PIECE, size - at)) for at in range(0, size, PIECE)]


def read_whole(library: Library, megabytes: int) -> None:
    assert library.read() == megabytes * 1_000_000


def read_pieces(library: Library, megabytes: int) -> None:
    size = library.size()
    assert sum(library.read_range(*piece) for piece in ranges(size)) == megabytes * 1_000_000


def read_pieces_at_once(library: Library, megabytes: int) -> None:
    size = library.size()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        read = pool.map(lambda piece: library.read_range(*piece), ranges(size))
        assert sum(read) == megabytes * 1_000_000


def write_whole(library: Library, megabytes: int) -> None:
    library.write(bytes(megabytes * 1_000_000))


def write_pieces(library: Library, megabytes: int) -> None:
    content = memoryview(bytes(PIECE))
    pieces = ranges(megabytes * 1_000_000)
    library.write_pieces(bytes(content[:count]) for _, count in pieces)


STEPS: dict[str, Callable[[Library, int], None]] = {
    "read whole": read_whole,
    "read pieces": read_pieces,
    "read pieces, 4 at once": read_pieces_at_once,
    "write whole": write_whole,
    "write pieces": write_pieces,
}


def main(name: str, step: str, megabytes: int) -> None:
    library = LIBRARIES[name]()
    library.size()  # it is connected
    begin, processors = time.perf_counter(), time.process_time()
    STEPS[step](library, megabytes)
    seconds, on_processors = time.perf_counter() - begin, time.process_time() - processors
    print(json.dumps({"seconds": seconds, "processors": on_processors}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
