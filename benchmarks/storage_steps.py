"""One step of `benchmarks.storage` in a process of its own: `STEP FOLDER MEGABYTES`. Prints as JSON
how many seconds it took, of which how many on processors, and the peak of its memory in bytes."""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tfapp.storage.base import Status

FILES, AT_ONCE, MANY = 16, 4, 16
RECORD, BLOCK = 32 << 10, 4 << 20  # bytes
LOCAL = "measured"  # a scheme: files of this machine, through the plug-in


BYTES_ALONE = ("read_bytes", "write_bytes")  # steps without TensorFlow


class LocalFiles:
    """A Store that can be read."""

    def stat(self, path: str) -> Status:
        return Status(os.path.getsize(self._path(path)), 0, False)

    def source(self, path: str) -> Any:
        return LocalSource(self._path(path))

    def _path(self, path: str) -> str:
        return path.removeprefix(f"{LOCAL}:/")

    def __getattr__(self, name: str) -> Any:
        return None


class LocalSource:
    def __init__(self, path: str):
        self._file = os.open(path, os.O_RDONLY)
        self.length = os.path.getsize(path)

    def read_into(self, offset: int, target: memoryview) -> None:
        assert os.preadv(self._file, [target], offset) == len(target)


def files(folder: str) -> list[str]:
    return [f"{folder}/{number:02}.records" for number in range(FILES)]


def make(folder: str, megabytes: int) -> None:
    """Files of records."""
    record = os.urandom(RECORD)
    tf.io.gfile.makedirs(folder)
    for path in files(folder):
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(megabytes * 1_000_000 // FILES // RECORD):
                writer.write(record)


def records(folder: str, megabytes: int, at_once: int = AT_ONCE) -> None:
    """Reads them, as a training does."""
    paths = tf.data.Dataset.from_tensor_slices(files(folder))
    found = paths.interleave(
        lambda path: tf.data.TFRecordDataset(path, buffer_size=BLOCK),
        at_once,
        num_parallel_calls=at_once,
    )
    count = found.batch(32).reduce(
        tf.constant(0, tf.int64), lambda n, batch: n + tf.size(batch, tf.int64)
    )
    assert count == FILES * (megabytes * 1_000_000 // FILES // RECORD), count


def many_records(folder: str, megabytes: int) -> None:
    records(folder, megabytes, MANY)


def read_bytes(folder: str, megabytes: int) -> None:
    """The same bytes, by the library alone."""
    scheme, _, rest = folder.partition("://")
    if scheme == "hdfs":
        hdfs_client(rest.partition("/")[0])  # before threads do: it is kept then
    with ThreadPoolExecutor(AT_ONCE) as pool:
        read = sum(pool.map(read_file, files(folder)))
    assert read > megabytes * 900_000, read


def read_file(path: str) -> int:
    scheme, _, rest = path.partition("://")
    host, _, name = rest.partition("/")
    if scheme == "hdfs":
        reader = hdfs_client(host).read(f"/{name}")
        sizes = range(0, len(reader), BLOCK)
        return sum(len(reader.read_range(at, min(BLOCK, len(reader) - at))) for at in sizes)
    import obstore

    return sum(len(part) for part in obstore.get(bucket(host), name).stream(min_chunk_size=BLOCK))


def write_bytes(folder: str, megabytes: int) -> None:
    """One file, by the library alone."""
    scheme, _, rest = folder.partition("://")
    host, _, name = rest.partition("/")
    part = os.urandom(1_000_000)
    if scheme == "hdfs":
        import hdfs_native

        options = hdfs_native.WriteOptions(overwrite=True)
        with hdfs_client(host).create(f"/{name}/bytes", options) as file:
            for _ in range(megabytes):
                file.write(part)
        return
    import obstore

    with obstore.open_writer(bucket(host), f"{name}/bytes", buffer_size=8 << 20) as file:
        for _ in range(megabytes):
            file.write(part)


@functools.cache
def hdfs_client(host: str) -> Any:
    """One that is kept: some reads fail once it is freed."""
    import hdfs_native

    return hdfs_native.Client(f"hdfs://{host}")


def bucket(host: str) -> Any:
    from obstore.store import S3Store

    from tfapp.storage.objects import s3_options

    return S3Store(host, **s3_options(os.environ))


def save(folder: str, megabytes: int) -> None:
    """A checkpoint of that size, under a new name, as each of a training has."""
    checkpoint(megabytes).write(f"{folder}/saved-{time.time_ns()}")


def restore(folder: str, megabytes: int) -> None:
    """One of those."""
    saved = tf.io.gfile.glob(f"{folder}/saved-*.index")[0].removesuffix(".index")
    checkpoint(megabytes).read(saved).assert_consumed()


def checkpoint(megabytes: int) -> Any:
    shape = [megabytes * 1_000_000 // 4 // 8]
    return tf.train.Checkpoint(values=[tf.Variable(tf.ones(shape)) for _ in range(8)])


STEPS: dict[str, Callable[[str, int], None]] = {
    each.__name__: each
    for each in (make, records, many_records, read_bytes, write_bytes, save, restore)
}


def main(step: str, folder: str, megabytes: int) -> None:
    if step not in BYTES_ALONE:
        begin_tensorflow(folder)
    begin, processors = time.perf_counter(), time.process_time()
    STEPS[step](folder, megabytes)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - begin,
                "processors": time.process_time() - processors,
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


def begin_tensorflow(folder: str) -> None:
    """It can open `folder`, and has computed something."""
    global tf
    import tensorflow as tf

    import tfapp.storage
    from tfapp.storage.plugin import plugin_for

    if folder.startswith(LOCAL):
        load = tf.experimental.register_filesystem_plugin
        plugin_for(tf).load({LOCAL: LocalFiles()}, load)  # type: ignore[dict-item]
    elif "://" in folder:
        tfapp.storage.register()
    else:
        Path(folder).mkdir(parents=True, exist_ok=True)
    tf.zeros([1]).numpy()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
