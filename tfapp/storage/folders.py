"""What tfapp itself does with a folder that is a URL: lists it, copies files from and to it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tfapp.contract.names import (
    ENV_STORAGE_SCHEMES,
    HDFS_SCHEMES,
    OPENED_SCHEMES,
    opened_schemes,
)
from tfapp.errors import TfappError, UnavailableError
from tfapp.storage.base import BLOCK, Store, blocks, told

NEEDS = "Install the extra: pip install 'tfapp[storage]'. It needs Python 3.10 or newer."


def store_of(url: str, environ: Mapping[str, str] = os.environ, schemes: str = "") -> Store | None:
    """The store that opens `url`, None for a path and for other schemes than tfapp's, those of
    `schemes` (an application's) and those of the variable. UnavailableError if its library is not
    installed."""
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in opened_schemes(f"{schemes},{environ.get(ENV_STORAGE_SCHEMES, '')}"):
        return None
    library = "obstore" if scheme in OPENED_SCHEMES else "fsspec"
    library = "hdfs_native" if scheme in HDFS_SCHEMES else library
    if importlib.util.find_spec(library) is None:
        raise UnavailableError(f"{url} cannot be opened: there is no {library} here", NEEDS)
    if scheme in HDFS_SCHEMES:
        from tfapp.storage.hdfs import Hdfs

        return Hdfs()
    if scheme not in OPENED_SCHEMES:
        from tfapp.storage.others import Others

        return Others(environ)
    from tfapp.storage.objects import Objects

    return Objects(environ)


@contextlib.contextmanager
def opening(url: str) -> Iterator[None]:
    """Within it, an error of the store of `url` is an UnavailableError; FileNotFoundError passes,
    and so does what is no error of a store."""
    try:
        yield
    except (FileNotFoundError, TfappError):
        raise
    except Exception as error:
        raise UnavailableError(told(error, url)[1]) from error


def walk(store: Store, url: str) -> Iterator[tuple[str, int]]:
    """The files at or below `url`: their paths relative to it ("" for itself), and their sizes in
    bytes. FileNotFoundError if there is neither a file nor a folder."""
    found = store.stat(url)
    if not found.is_folder:
        yield "", found.length
        return
    for name in store.children(url):
        with contextlib.suppress(FileNotFoundError):  # gone meanwhile
            for path, size in walk(store, f"{url.rstrip('/')}/{name}"):
                yield f"{name}/{path}" if path else name, size


def fetch(store: Store, url: str, target: Path) -> None:
    """Copies a file to this machine, in blocks. FileNotFoundError if there is none."""
    source = store.source(url)
    with target.open("wb") as file:
        file.writelines(blocks(source))


def send(store: Store, source: Path, url: str) -> None:
    """Copies a file from this machine. It appears as a whole."""
    with source.open("rb") as file:
        put(store, iter(lambda: file.read(BLOCK), b""), url)


def put(store: Store, content: Iterable[bytes], url: str) -> None:
    """Writes a file. It appears as a whole."""
    store.make_folder(url.rpartition("/")[0], parents=True)
    writer = store.writer(url, append=False)
    for block in content:
        writer.append(block)
    writer.close()


def read(store: Store, url: str, size: int) -> bytes:
    """The content of a file of `size` bytes; of one of another size, nothing. FileNotFoundError if
    there is none."""
    source = store.source(url)
    return b"".join(blocks(source)) if source.length == size else b""
