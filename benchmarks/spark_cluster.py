"""`tfapp.run` of a function of one line on Spark's executors, up and down: from the call until it
returns. Against as many Spark jobs of one task, in the same session, that do the same by
themselves. What is left between the two is tfapp's own cost. Then, where executors are on this
machine, how long it takes until a death is known, and until nothing is left of a killed driver.

    eval "$(python examples/spark-cluster/cluster.py env)"
    python -m benchmarks.spark_cluster [CONTAINERS]

On the cluster that the environment names: that of examples/spark-cluster is one. It has 6 slots;
64 containers, for example, need `cluster.py start --cores 32`. Without a number they are 2.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import tfapp
from benchmarks.medians import compare, parser

ROUNDS = 5
CONTAINERS = 2
BAR = 3.0  # seconds
TOLD_BAR = 2.0
DEADLINE = 300.0
EXECUTOR = "CoarseGrainedExecutorBackend"  # in the command line of one

# A driver of its own, which is killed. Its argument is a folder for files.
DRIVER = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from benchmarks.spark_cluster import submit
spark = SparkSession.builder.config("spark.log.level", "ERROR").getOrCreate()
submit(spark, Path(sys.argv[1])).wait()
"""


class Bench:
    """`folder` is for files; the executors see it."""

    def __init__(self, folder: Path, spark: Any, containers: int):
        self._folder, self._spark, self._containers = folder, spark, containers
        self._numbers = itertools.count()
        self.up: dict[str, list[float]] = {"Spark": [], "tfapp": []}  # seconds until all run

    def by_spark(self) -> float:
        """Seconds that the jobs take."""
        begin = self._program()
        context = self._spark.sparkContext

        def job() -> None:
            context.parallelize([0], 1).foreach(begin)

        def jobs() -> None:
            from pyspark import InheritableThread

            threads = [InheritableThread(target=job) for _ in range(self._containers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return self._measure("Spark", jobs)

    def by_tfapp(self) -> float:
        """Seconds that the application takes."""
        begin = self._program()
        workers = {"worker": tfapp.Component("256 MiB", instances=self._containers)}
        name = f"up-{os.getpid()}-{next(self._numbers)}"
        more = {"spark": self._spark, "name": name, "show": False}
        return self._measure("tfapp", lambda: tfapp.run(begin, workers, **more))

    def _program(self) -> Callable[[Any], None]:
        """Notes when it has begun; it ends at once."""

        def begin(_: Any, folder: str = str(self._folder)) -> None:
            import tempfile
            import time

            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
                file.write(str(time.time()))

        return begin

    def _measure(self, what: str, call: Callable[[], object]) -> float:
        began = time.time()
        call()
        seconds = time.time() - began
        times = [float(path.read_text()) for path in self._folder.iterdir()]
        for path in self._folder.iterdir():
            path.unlink()
        if len(times) != self._containers:
            raise SystemExit(f"{len(times)} programs of {self._containers} have run")
        self.up[what].append(max(times) - began)
        return seconds


def submit(spark: Any, folder: Path) -> tfapp.Application:
    """Two workers that note their process ids in `folder`, and wait in generation 1. The second
    raises when there is a file `raise`."""

    def wait(ctx: Any, folder: str = str(folder)) -> None:
        import os
        import pathlib
        import time

        partial = pathlib.Path(folder, f"{ctx.index}-{ctx.generation}.partial")
        partial.write_text(str(os.getpid()))
        partial.replace(partial.with_suffix(""))
        while ctx.generation == 1:
            if ctx.index == 1 and pathlib.Path(folder, "raise").exists():
                raise RuntimeError("as it was told")
            time.sleep(0.005)

    workers = {"worker": tfapp.Component("256 MiB", instances=2)}
    return tfapp.submit(wait, workers, spark=spark, name="deaths", replace=True, show=False)


def pids(folder: Path) -> list[int]:
    """Of the two programs, once both run."""
    paths = [folder / "0-1", folder / "1-1"]
    await_all(lambda: all(path.exists() for path in paths), "programs")
    return [int(path.read_text()) for path in paths]


def until_known(spark: Any, how: str) -> float:
    """Seconds from the death of worker/1 until the driver knows of it: it has failed, or
    generation 2 has begun, for which what is missing is asked of Spark."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        application = submit(spark, folder)
        pid = pids(folder)[1]
        victim = executor_of(pid) if how == "an executor is killed" else pid
        begun = time.perf_counter()
        if how == "a program raises":
            (folder / "raise").touch()
        else:
            os.kill(victim, signal.SIGKILL)

        def known() -> bool:
            status = application.status()
            return status.generation > 1 or status.verdict is not None

        await_all(known, "word of it")
        seconds = time.perf_counter() - begun
        application.wait()
    return seconds


def until_nothing_is_left() -> float:
    """Seconds from the death of a driver until none of its programs runs."""
    with tempfile.TemporaryDirectory() as name:
        words = [sys.executable, "-c", DRIVER, name]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL) as driver:
            try:
                found = pids(Path(name))
            finally:
                begun = time.perf_counter()
                driver.kill()
            await_all(lambda: not any(map(runs, found)), "end of the programs")
            return time.perf_counter() - begun


def await_all(ready: Callable[[], bool], what: str) -> None:
    """Until it is so."""
    end = time.perf_counter() + DEADLINE
    while not ready():
        if time.perf_counter() > end:
            raise SystemExit(f"no {what} in {DEADLINE:g} s")
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Whether it is alive on this machine."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def executor_of(pid: int) -> int:
    """The executor that a process belongs to."""
    while EXECUTOR.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def main() -> None:
    """Prints the medians, and each beside its bar."""
    from pyspark.sql import SparkSession

    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument(
        "containers", metavar="CONTAINERS", type=int, nargs="?", default=CONTAINERS
    )
    args = arguments.parse_args()
    containers, rounds = args.containers, args.rounds
    builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        os.environ["TFAPP_HOME"] = home
        measured = Bench(Path(folder), spark, containers)
        if rounds > 1:
            measured.by_spark()  # executors, their Pythons, and what tfapp keeps
            measured.by_tfapp()
        for seconds in measured.up.values():
            seconds.clear()
        ways = {
            f"{containers} Spark jobs": measured.by_spark,
            f"tfapp.run, {containers} containers": measured.by_tfapp,
        }
        alone, ours = compare(ways, rounds).values()
    for what, seconds in measured.up.items():
        print(f"{what}: {median(seconds):.3f} s until all have begun")
    own = ours - alone
    print(f"{own:.3f} s is tfapp's own ({verdict(own, BAR)})")
    with tempfile.TemporaryDirectory() as home:
        os.environ["TFAPP_HOME"] = home
        for how in ("a program raises", "a program is killed", "an executor is killed"):
            told = median(until_known(spark, how) for _ in range(rounds))
            print(f"{told:.3f} s until the driver knows that {how} ({verdict(told, TOLD_BAR)})")
        spark.stop()
        left = median(until_nothing_is_left() for _ in range(rounds))
        print(f"{left:.3f} s until nothing is left of a killed driver's programs")


def verdict(seconds: float, bar: float) -> str:
    """Whether it is met."""
    return f"{'met' if seconds <= bar else 'missed'}: at most {bar:g} s"


if __name__ == "__main__":
    main()
