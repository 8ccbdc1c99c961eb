"""Rows from Spark 3.5 to the programs of two workers, by TensorFlowOnSpark and by tfapp, in turns
on one cluster.

    python -m benchmarks.tensorflowonspark [ROWS]

TensorFlowOnSpark 2.2.5 needs TensorFlow 2.15 and Python 3.11 or older. The first call makes an
environment for it in the cache folder of the tests, and fetches Spark. The cluster is that of
examples/spark-cluster; it is stopped at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import spark_feed
from benchmarks.feed_programs import BATCH, count
from benchmarks.medians import compare, parser
from benchmarks.spark_feed import WIDTH, arrays, drop, drop_elements, lists, seconds
from tfapp.environment import build
from tfapp.environment.unpacked import unpack
from tfapp.ready import ready

ROOT = Path(__file__).parents[1]
CLUSTER = ROOT / "examples" / "spark-cluster" / "cluster.py"
SPARK = "3.5.9"
PEER, OURS = "TensorFlowOnSpark", "tfapp"
# Of TensorFlowOnSpark. With those of tfapp they make the environment of both drivers.
REQUIREMENTS = (
    "tensorflowonspark==2.2.5",
    "tensorflow-cpu==2.15.*",
    "six",  # imported and not declared
    "setuptools<81",  # for pkg_resources
    "pyarrow==21.*",  # for the NumPy of TensorFlow 2.15
    "pandas<3",
)
ROUNDS = 3
ROWS = 60_000
WORKERS = 2
PARTITIONS = WORKERS  # so both feed with as many tasks
SMALL = (40, 500)  # partitions, rows of each
LISTS, ARRAYS, FRAME = "RDD of lists", "RDD of arrays", "DataFrame"
FEW = f"RDD of lists, {SMALL[0]} partitions of {SMALL[1]}"
AIMS = {LISTS: 7, ARRAYS: 15, FRAME: 10, FEW: 20}  # times the rows a second of the other
LIMIT = 600.0  # seconds for an answer of a driver
WAIT = 300  # seconds that TensorFlowOnSpark waits for something

# Slots of each of two executors. TensorFlowOnSpark needs executors with one slot, and its programs
# occupy none. Those of tfapp occupy one each, possibly on the same executor: with three, there is
# a slot for feeding on both.
CORES = {PEER: 1, OURS: 3}
SETTINGS = {
    "spark.executor.memory": "1g",
    "spark.driver.memory": "512m",
    "spark.task.maxFailures": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.sql.files.minPartitionNum": str(PARTITIONS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


# ---- The program of TensorFlowOnSpark ---------------------------------------------------------
def peer_program(folder: str, ctx: Any) -> None:
    """Takes batches and drops them. The number of their rows goes to a file."""
    import pathlib

    feed = ctx.get_data_feed()
    rows = 0
    while not feed.should_stop():
        rows += len(feed.next_batch(BATCH))
    part = pathlib.Path(folder, f"{ctx.task_index}.part")
    part.write_text(str(rows))
    part.rename(part.with_suffix(".rows"))


# ---- A driver --------------------------------------------------------------------------------
def start_peer(spark: Any, folder: Path) -> tuple[Callable[[Any], object], Callable[[], int]]:
    """Starts the workers. How to feed them; and how to end them, which gives the number of rows
    that they have had."""
    from tensorflowonspark import TFCluster

    cluster = TFCluster.run(
        spark.sparkContext,
        peer_program,
        str(folder),
        WORKERS,
        0,
        input_mode=TFCluster.InputMode.SPARK,
        reservation_timeout=WAIT,
    )

    def feed(data: Any) -> None:
        rdd = data.rdd.map(list) if hasattr(data, "rdd") else data
        cluster.train(rdd, num_epochs=1, feed_timeout=WAIT)

    def end() -> int:
        cluster.shutdown()  # it does not wait for the programs
        until = time.monotonic() + WAIT
        while len(found := list(folder.glob("*.rows"))) < WORKERS:
            if time.monotonic() > until:
                raise SystemExit(f"the programs have not ended within {WAIT} s")
            time.sleep(0.1)
        return sum(int(path.read_text()) for path in found)

    return feed, end


def start_ours(spark: Any, _: Path) -> tuple[Callable[[Any], object], Callable[[], int]]:
    """The same of tfapp."""
    import tfapp

    workers = {"worker": tfapp.Component("512 MiB", instances=WORKERS)}
    application = tfapp.submit(count, workers, spark=spark, feed=True, show=False)

    def end() -> int:
        application.end_feed()
        return sum(application.result().returned.values())

    return functools.partial(application.feed, final=False, rest="share"), end


def make_data(spark: Any, kind: str, rows: int, folder: Path) -> Any:
    """It is in memory, or in a file."""
    if kind == FRAME:
        path = str(folder / "rows.parquet")
        columns = f"transform(sequence(1, {WIDTH}), v -> cast((id * v) % 256 AS float)) x"
        spark.range(0, rows, 1, PARTITIONS).selectExpr(columns).write.parquet(path)
        return spark.read.parquet(path)
    parts = SMALL[0] if kind == FEW else PARTITIONS
    make = functools.partial(arrays if kind == ARRAYS else lists, rows=rows // parts)
    data = spark.sparkContext.parallelize(range(parts), parts).flatMap(make).persist()
    read(data)
    return data


def read(data: Any) -> None:
    """Reads it in Spark's Python and drops it."""
    if hasattr(data, "rdd"):
        data.mapInArrow(drop, data.schema).count()
    else:
        data.foreachPartition(drop_elements)


def drive(name: str, rows: Mapping[str, int], folder: Path) -> None:
    """Obeys the lines of stdin, and answers each. "start KIND": makes the data and starts the
    workers; "feed", "read": the answer is the seconds that it takes; "end": ends the workers, the
    answer is the number of rows that they have had. All else that is printed goes to stderr."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    cloudpickle.register_pickle_by_value(spark_feed)
    cores = CORES[name]
    settings = {"spark.executor.cores": str(cores), "spark.cores.max": str(WORKERS * cores)}
    spark = SparkSession.builder.config(map={**SETTINGS, **settings}).getOrCreate()
    start = start_peer if name == PEER else start_ours
    for line in sys.stdin:
        command, _, kind = line.strip().partition(" ")
        if command == "start":
            place = Path(tempfile.mkdtemp(dir=folder))
            data = make_data(spark, kind, rows[kind], place)
            feed, end = start(spark, place)
            print("ready", file=answers)
        elif command in ("feed", "read"):
            work = feed if command == "feed" else read
            print(seconds(functools.partial(work, data)), file=answers)
        else:
            print(end(), file=answers)
            data.unpersist()
    spark.stop()


class Driver:
    """A process that runs `drive`."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path):
        self._name, self._process, self._log = name, process, log

    def _ask(self, command: str) -> str:
        """The answer. SystemExit, with the end of the driver's log, where there is none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # there is no answer then
            print(command, file=self._process.stdin, flush=True)
        said, _ = ready([self._process.stdout], seconds=LIMIT)
        line = self._process.stdout.readline() if said else ""
        if not line:
            what = "has ended" if said else f"gives no answer in {LIMIT:g} s"
            last = "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])
            raise SystemExit(f"{last}\nThe driver of {self._name} {what}: see above.")
        return line.strip()

    def start(self, kind: str) -> None:
        """Data and workers."""
        self._ask(f"start {kind}")

    def fed(self) -> float:
        """Seconds that it takes."""
        return float(self._ask("feed"))

    def read(self) -> float:
        """Seconds that it takes Spark alone to read the data."""
        return float(self._ask("read"))

    def end(self) -> int:
        """The rows that the workers have had."""
        return int(self._ask("end"))


# ---- What is started, and stopped ------------------------------------------------------------
def environment(cache: Path) -> Path:
    """The Python of TensorFlowOnSpark; its environment is made where it was not."""
    if sys.version_info >= (3, 12):
        raise SystemExit("TensorFlow 2.15 needs Python 3.11 or older")
    ours = (one for one in importlib.metadata.requires("tfapp") or () if "extra ==" not in one)
    wanted = build.Wanted(tuple(sorted((*REQUIREMENTS, *ours))))
    folder = cache / "tensorflowonspark"
    archive = build.build(wanted, folder, sys.executable, os.environ, print)
    return unpack(archive, folder) / "bin" / "python"


@contextlib.contextmanager
def cluster(python: Path, cache: Path, folder: Path) -> Iterator[str]:
    """A cluster whose tasks have this Python; what a shell of a driver evaluates. Its own folder
    is in `folder`, and so is all that its processes leave."""
    places = ("--cache", str(cache), "--dir", str(folder / "cluster"))
    words = [str(python), str(CLUSTER)]
    environ = {**os.environ, "TMPDIR": str(folder)}
    # At 127.0.0.x: to find its address TensorFlowOnSpark needs a route to 8.8.8.8, which executors
    # in network namespaces lack.
    options = ("--spark", SPARK, "--network", "loopback", "--cores", str(sum(CORES.values())))
    try:
        yield subprocess.run(
            [*words, "start", *places, *options],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    finally:
        if (folder / "cluster").exists():
            subprocess.run([*words, "stop", *places], check=True)


@contextlib.contextmanager
def driver(name: str, python: Path, exports: str, rows: int, folder: Path) -> Iterator[Driver]:
    """A driver on the cluster."""
    place = folder / name
    place.mkdir()
    own = {"TFAPP_HOME": str(place / "home"), "TFOS_SERVER_HOST": "127.0.0.1"}
    words = (str(python), "-m", "benchmarks.tensorflowonspark", str(rows), "--drive", name, place)
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            ["sh", "-c", f'{exports}\nexec "$@"', "sh", *words],
            cwd=ROOT,
            env={**os.environ, **own, "TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        try:
            yield Driver(name, process, Path(log.name))
            process.communicate(timeout=LIMIT)  # the end of its stdin is its end
        finally:
            process.kill()  # its JVM ends with it


# ---- Measurements ----------------------------------------------------------------------------
def measure(kind: str, rows: int, drivers: Mapping[str, Driver], rounds: int) -> None:
    """Prints the figures of a kind of data."""
    for one in drivers.values():
        one.start(kind)
        one.fed()  # Python workers start, Java becomes fast
    ways = {f"{kind}: {name}": one.fed for name, one in drivers.items()}
    ways[f"{kind}: read and dropped"] = drivers[OURS].read
    peer, ours, alone = (rows / took for took in compare(ways, rounds).values())
    ratio, aim = ours / peer, AIMS[kind]
    print(
        f"{kind}: {PEER} {peer:,.0f} rows/s, {OURS} {ours:,.0f} rows/s: {ratio:.1f}x, "
        f"{'met' if ratio >= aim else 'MISSED'} (aim {aim}x); the read alone {alone / peer:.1f}x",
        flush=True,
    )
    fed = rows * (rounds + 1)
    for name, one in drivers.items():
        had = one.end()
        if had != fed:
            raise SystemExit(f"the workers of {name} have had {had} rows of {fed}")


def main() -> None:
    """See the module."""
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("rows", nargs="?", type=int, default=ROWS, metavar="ROWS")
    arguments.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    args = arguments.parse_args()
    asked = args.rows // PARTITIONS * PARTITIONS
    rows = {LISTS: asked, ARRAYS: asked, FRAME: asked, FEW: SMALL[0] * SMALL[1]}
    if args.drive:
        name, place = args.drive
        drive(name, rows, Path(place))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    python = environment(cache)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfapp-peer-")))
        exports = stack.enter_context(cluster(python, cache, folder))
        drivers = {
            name: stack.enter_context(driver(name, python, exports, asked, folder))
            for name in (PEER, OURS)
        }
        for kind in AIMS:
            measure(kind, rows[kind], drivers, args.rounds)


if __name__ == "__main__":
    main()
