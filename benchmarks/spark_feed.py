"""Rows of 784 float32 from Spark to the programs of an application, against the same rows read in
Spark's Python workers that do nothing with them. On the cluster that the environment names."""

from __future__ import annotations

import functools
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import tfapp
from benchmarks.medians import compare

ROUNDS = 5
ROWS, PARTITIONS, WIDTH = 60_000, 8, 784
AT_LEAST = 0.7  # of the rows a second that are read and dropped: the bar
WORKERS = 2


def read(ctx: Any) -> dict[str, float]:
    """The program: takes batches and drops them. Its largest memory, in MiB, and the CPU time of
    its process for a row, in microseconds."""
    import resource

    batches, rows = ctx.feed.batches(256), 0
    next(batches)
    before = resource.getrusage(resource.RUSAGE_SELF)
    for found in batches:
        rows += len(next(iter(found.values())))
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    grown = (after.ru_maxrss - before.ru_maxrss) / 1024
    return {"rows": rows, "grown": grown, "cpu": 1e6 * spent / max(1, rows)}


def drop(batches: Iterable[Any]) -> Iterator[Any]:
    """For mapInArrow: reads and gives nothing."""
    for _ in batches:
        pass
    yield from ()


def drop_elements(elements: Iterable[Any]) -> None:
    """For foreachPartition."""
    for _ in elements:
        pass


def lists(part: int, rows: int) -> Iterator[list[float]]:
    """Elements that are lists."""
    import random

    draw = random.Random(part)
    numbers = [draw.random() for _ in range(WIDTH)]
    return ([number + row for number in numbers] for row in range(rows))


def arrays(part: int, rows: int) -> Iterator[Any]:
    """Elements that are arrays."""
    import numpy as np

    row = np.random.RandomState(part).rand(WIDTH).astype("float32")
    return (row.copy() for _ in range(rows))


def seconds(work: Callable[[], Any]) -> float:
    """That it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def sources(spark: Any, folder: Path) -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Each kind of data, and what reads and drops it."""
    context = spark.sparkContext
    each = ROWS // PARTITIONS
    table = spark.range(0, ROWS, 1, PARTITIONS).selectExpr(
        f"transform(sequence(1, {WIDTH}), v -> cast((id * v) % 256 AS float)) x"
    )
    table.write.parquet(str(folder / "rows"), mode="overwrite")
    frame = spark.read.parquet(str(folder / "rows"))
    numbers = context.parallelize(range(PARTITIONS), PARTITIONS)
    found: dict[str, tuple[Any, Callable[[], Any]]] = {
        "DataFrame": (frame, lambda: frame.mapInArrow(drop, frame.schema).count())
    }
    for name, make in (("RDD of lists", lists), ("RDD of arrays", arrays)):
        data = numbers.flatMap(functools.partial(make, rows=each)).persist()
        data.count()
        found[name] = (data, functools.partial(data.foreachPartition, drop_elements))
    return found


def main() -> int:
    """The exit code is 1 where the bar is missed."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark = SparkSession.builder.config("spark.log.level", "ERROR").getOrCreate()
    components = {"worker": tfapp.Component("512 MiB", instances=WORKERS)}
    missed = False
    with tempfile.TemporaryDirectory(prefix="tfapp-spark-feed-") as folder:
        Path(folder).chmod(0o777)
        for name, (data, reads) in sources(spark, Path(folder)).items():
            more: dict[str, Any] = {"spark": spark, "feed": True, "show": False}
            with tfapp.submit(read, components, **more) as app:
                app.feed(data, final=False)  # the first one starts Spark's Python workers
                feeds = functools.partial(app.feed, data, final=False)
                medians = compare(
                    {
                        f"{name}: read and dropped": functools.partial(seconds, reads),
                        f"{name}: fed": functools.partial(seconds, feeds),
                    },
                    ROUNDS,
                )
                app.end_feed()
                returned = app.result().returned.values()
            alone, fed = medians.values()
            cpu = max(one["cpu"] for one in returned)
            grown = max(one["grown"] for one in returned)
            print(
                f"{name}: {ROWS / fed:,.0f} rows/s, {alone / fed:.2f} of the read alone (bar "
                f"{AT_LEAST}); a program: {cpu:.1f} us CPU a row, {grown:.0f} MiB more memory"
            )
            missed |= alone / fed < AT_LEAST
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
