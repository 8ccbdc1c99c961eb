"""Rows from Spark to the programs of an application, with mutual TLS, each figure beside what it is
compared with. On the cluster that the environment names.

    python -m benchmarks.spark_feed [ROWS]

Programs on the machine of Spark's tasks share memory with them. Each kind of data is also fed by
the network alone, as to programs on other machines. What is read alone is read by Python workers of
its own, without tfapp, and beside it by those that also feed: these search less for garbage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tfapp
from benchmarks.feed_programs import answer, fail, read
from benchmarks.medians import compare, parser
from tfapp.engines.credentials import new_credentials
from tfapp.errors import ApplicationFailedError
from tfapp.feed.driver import data as fed_data
from tfapp.feed.driver import travel
from tfapp.feed.task import pool
from tfapp.feed.wire import Credentials

ROUNDS = 3
ROWS = 60_000  # of an RDD
PARTITIONS, WIDTH = 8, 784
WORKERS = 2
TICKS = os.sysconf("SC_CLK_TCK")  # a second of CPU time in /proc
AT_LEAST = 0.7  # of the rows a second that are read and dropped
SENT = 1 << 20  # bytes that are sent at once where nothing else is done
CPU_LIMIT = 10.0  # microseconds of Spark's Python and of the programs for a row of a DataFrame
ANSWERED_AT_LEAST = 0.5  # of the rows a second that are read and dropped
SMALL = (40, 500)  # partitions, rows of each
SMALL_AT_LEAST = 14_000  # rows a second: 20 times what TensorFlowOnSpark does
GROWS_LIMIT = 32.0  # MiB of a program, at ten times the data
KNOWN_LIMIT = 2.0  # seconds until the driver knows that a program has failed


# ---- What Spark does -------------------------------------------------------------------------
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


def pump(batches: Iterable[Any], addresses: Sequence[str], credentials: str) -> Iterator[Any]:
    """For mapInArrow: only sends the bytes of batches, or of pickles, to one address after the
    other, over mutual TLS. Python workers keep their connections."""
    kept = sys.__dict__.setdefault(f"connections to {addresses}", [])
    if not kept:
        tls = Credentials.unpacked(credentials).tls(server=False)
        for address in addresses:
            host, _, port = address.rpartition(":")
            kept.append(tls.wrap_socket(socket.create_connection((host, int(port)))))
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch if isinstance(batch, bytes) else batch.serialize())
        if sum(map(len, waiting)) >= SENT:
            kept[0].sendall(b"".join(waiting))
            kept.append(kept.pop(0))
            waiting = []
    kept[0].sendall(b"".join(waiting))
    yield from ()


def pump_pickles(pickles: Iterable[bytes], addresses: Sequence[str], credentials: str) -> None:
    """For foreachPartition: only sends the pickles in which Spark stores the elements."""
    list(pump(pickles, addresses, credentials))


# A process that takes bytes from connections and drops them: host and credentials are its
# arguments, and its first line is its port.
SINK = """
import socket, sys, threading
from tfapp.feed.wire import Credentials
tls = Credentials.unpacked(sys.argv[2]).tls(server=True)
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
def serve(plain):
    space = bytearray(1 << 20)
    with tls.wrap_socket(plain, server_side=True) as connection:
        while connection.recv_into(space):
            pass
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of data. `reads`: reads and drops it; `pumps`: sends its bytes to sinks."""

    rows: int
    data: Any
    reads: Callable[[], Any]
    pumps: Callable[[Sequence[str], str], Any]


def kinds(spark: Any, folder: Path, rows: int) -> dict[str, Kind]:
    """By name. `rows`: of an RDD; a DataFrame has five times as many."""
    table = spark.range(0, 5 * rows, 1, PARTITIONS).selectExpr(
        f"transform(sequence(1, {WIDTH}), v -> cast((id * v) % 256 AS float)) x"
    )
    table.write.parquet(str(folder / "rows"), mode="overwrite")
    frame = spark.read.parquet(str(folder / "rows"))

    def pump_frame(addresses: Sequence[str], credentials: str) -> None:
        work = functools.partial(pump, addresses=addresses, credentials=credentials)
        frame.mapInArrow(work, frame.schema).count()

    found = {
        "DataFrame": Kind(
            5 * rows, frame, lambda: frame.mapInArrow(drop, frame.schema).count(), pump_frame
        )
    }
    numbers = spark.sparkContext.parallelize(range(PARTITIONS), PARTITIONS)
    for name, make in (("RDD of lists", lists), ("RDD of arrays", arrays)):
        data = numbers.flatMap(functools.partial(make, rows=rows // PARTITIONS)).persist()
        data.count()

        def pump_rdd(addresses: Sequence[str], credentials: str, data: Any = data) -> None:
            fed_data.pickles_of(data).foreachPartition(
                functools.partial(pump_pickles, addresses=addresses, credentials=credentials)
            )

        found[name] = Kind(
            rows, data, functools.partial(data.foreachPartition, drop_elements), pump_rdd
        )
    return found


# ---- Measurements ----------------------------------------------------------------------------
def seconds(work: Callable[[], Any]) -> float:
    """That it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def python_cpu() -> float:
    """Seconds of CPU time that Spark's Python workers on this machine have had."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (path / "cmdline").read_bytes():
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, fields[11:15]))
        except OSError:  # it has ended
            continue
    return total / TICKS


@contextlib.contextmanager
def without_shared_memory() -> Iterator[None]:
    """What tasks send goes by the network."""
    shared, pool.SHARED = pool.SHARED, 0
    travel._packed.cache_clear()
    try:
        yield
    finally:
        pool.SHARED = shared
        travel._packed.cache_clear()


def told(name: str, value: float, words: str, met: bool) -> bool:
    """Prints a figure and its bar."""
    print(f"{name}: {value:,.2f} {words}: {'met' if met else 'MISSED'}")
    return met


class Bench:
    """The measurements, on one Spark session."""

    def __init__(self, spark: Any, folder: Path, rows: int = ROWS, rounds: int = ROUNDS):
        self.more = {"spark": spark, "feed": True, "show": False}
        self.workers = {"worker": tfapp.Component("512 MiB", instances=WORKERS)}
        self.spark = spark
        self.kinds = kinds(spark, folder, rows)
        self.read = functools.partial(read, first_rows=5 * rows // WORKERS)
        self.rounds = rounds

    @contextlib.contextmanager
    def other_workers(self) -> Iterator[None]:
        """Spark takes other Python workers than for what is fed."""
        environ = self.spark.sparkContext.environment
        environ["TFAPP_BENCHMARK"] = "read"
        try:
            yield
        finally:
            del environ["TFAPP_BENCHMARK"]

    def sinks(self, credentials: str, held: contextlib.ExitStack) -> list[str]:
        """The addresses of as many processes as programs, which drop what they get."""
        host = self.spark.sparkContext.getConf().get("spark.driver.host")
        words = [sys.executable, "-c", SINK, host, credentials]
        found = []
        for _ in range(WORKERS):
            process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            held.enter_context(process)
            held.callback(process.kill)
            assert process.stdout is not None
            found.append(f"{host}:{process.stdout.readline().strip()}")
        return found

    def fed(self, name: str) -> bool:
        """A kind of data, beside its read alone, and the read with its bytes sent by TLS."""
        kind = self.kinds[name]
        credentials = Credentials(*new_credentials(time.time())).packed()
        spent: list[float] = []
        with (
            contextlib.ExitStack() as held,
            tfapp.submit(self.read, self.workers, **self.more) as app,
        ):
            addresses = self.sinks(credentials, held)

            def alone() -> float:
                with self.other_workers():
                    return seconds(kind.reads)

            def prepare() -> None:
                """Pickles the function of the tasks, as the first feed of a session does."""
                fed_data._jobs(kind.data, name == "DataFrame", (), None)

            def feed() -> float:
                prepare()
                before = python_cpu()
                took = seconds(lambda: app.feed(kind.data, final=False))
                spent.append(python_cpu() - before)
                return took

            def feed_by_network() -> float:
                with without_shared_memory():
                    prepare()
                    return seconds(lambda: app.feed(kind.data, final=False))

            measured = {
                f"{name}: read and dropped": alone,
                f"{name}: the same, by the workers that feed": lambda: seconds(kind.reads),
                f"{name}: read, and its bytes sent": lambda: seconds(
                    lambda: kind.pumps(addresses, credentials)
                ),
                f"{name}: fed by the network": feed_by_network,
                f"{name}: fed": feed,
            }
            for work in measured.values():
                work()  # starts Spark's Python workers
            spent.clear()
            # An RDD takes less than a second.
            rounds = self.rounds if name == "DataFrame" else 3 * self.rounds
            medians = compare(measured, rounds)
            app.end_feed()
            programs = app.result().returned.values()
        alone_took, beside, pumped, afar, fed = medians.values()
        cpu = 1e6 * sorted(spent)[len(spent) // 2] / kind.rows, max(one["cpu"] for one in programs)
        print(
            f"{name}: {kind.rows / fed:,.0f} rows/s, {kind.rows / afar:,.0f} by the network; "
            f"{beside / fed:.2f} of the read by the same workers; by the network "
            f"{alone_took / afar:.2f} of the read alone, with its bytes sent and nothing else "
            f"{alone_took / pumped:.2f}; CPU a row: {cpu[0]:.1f} us of Spark's Python, "
            f"{cpu[1]:.1f} us of the programs, by both ways"
        )
        ratio = alone_took / fed
        met = told(name, ratio, f"of the read alone (bar {AT_LEAST})", ratio >= AT_LEAST)
        if name == "DataFrame":
            words = f"us CPU a row in Python (bar {CPU_LIMIT:g})"
            met &= told(name, sum(cpu), words, sum(cpu) <= CPU_LIMIT)
        return met

    def small_partitions(self) -> bool:
        """Many partitions of few rows."""
        parts, each = SMALL
        frame = self.kinds["DataFrame"].data.limit(parts * each).repartition(parts).persist()
        count = frame.count()
        with tfapp.submit(self.read, self.workers, **self.more) as app:
            app.feed(frame, final=False)
            medians = compare(
                {
                    "small partitions: read and dropped": lambda: seconds(
                        frame.mapInArrow(drop, frame.schema).count
                    ),
                    "small partitions: fed": lambda: seconds(lambda: app.feed(frame, final=False)),
                },
                3 * self.rounds,  # Java needs some to become fast
            )
            app.end_feed()
            app.result()
        rate = count / medians["small partitions: fed"]
        words = f"rows/s from {parts} partitions of {each} rows (bar {SMALL_AT_LEAST:,})"
        return told("DataFrame", rate, words, rate >= SMALL_AT_LEAST)

    def memory(self) -> bool:
        """What programs grow by between the data and ten times the data."""
        with tfapp.submit(self.read, self.workers, **self.more) as app:
            app.feed(self.kinds["DataFrame"].data, epochs=10)
            grown = max(one["grown"] for one in app.result().returned.values())
        words = f"MiB more memory of a program at ten times the data (bar {GROWS_LIMIT:g})"
        return told("DataFrame", grown, words, grown <= GROWS_LIMIT)

    def answered(self) -> bool:
        """Inference, beside the read alone."""
        kind = self.kinds["DataFrame"]
        with tfapp.submit(answer, self.workers, **self.more) as app:
            found = app.infer(kind.data, "y float")

            def alone() -> float:
                with self.other_workers():
                    return seconds(kind.reads)

            def infer() -> None:
                found.write.format("noop").mode("overwrite").save()

            infer()
            medians = compare(
                {
                    "inference: read and dropped": alone,
                    "inference: answered": lambda: seconds(infer),
                },
                self.rounds,
            )
            app.end_feed()
            app.result()
        alone, answered = medians.values()
        ratio = alone / answered
        words = f"of the read alone (bar {ANSWERED_AT_LEAST})"
        return told("inference", ratio, words, ratio >= ANSWERED_AT_LEAST)

    def failed(self, how: str) -> bool:
        """Seconds from a program's failure until `app.feed` raises it."""
        program = functools.partial(fail, how=how)
        name = f"feed-{how}-{secrets.token_hex(2)}"
        with tfapp.submit(program, self.workers, name=name, retries=0, **self.more) as app:
            try:
                app.feed(self.kinds["DataFrame"].data, epochs=100)
            except ApplicationFailedError as error:
                known = time.time()
                at = re.search(r"failed at ([\d.]+)", str(error))
            else:
                raise RuntimeError("the program has not failed")
        if at is None:
            raise RuntimeError("the program's last lines do not say when it failed")
        took = known - float(at[1])
        words = f"s until the driver knows (bar {KNOWN_LIMIT:g})"
        return told(f"a program {how}", took, words, took <= KNOWN_LIMIT)


def main() -> int:
    """The exit code is 1 where a bar is missed."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("rows", metavar="ROWS", type=int, nargs="?", default=ROWS)
    args = arguments.parse_args()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    travel.travel_by_value()
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.config(map=quiet).getOrCreate()
    with tempfile.TemporaryDirectory(prefix="tfapp-spark-feed-") as folder:
        Path(folder).chmod(0o777)
        bench = Bench(spark, Path(folder), args.rows, args.rounds)
        met = [bench.fed(name) for name in bench.kinds]
        met += [bench.small_partitions(), bench.memory(), bench.answered()]
        met += [bench.failed("raises"), bench.failed("killed")]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
