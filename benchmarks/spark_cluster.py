"""`tfapp.run` of a function of one line on Spark's executors, up and down: from the call until it
returns. Against as many Spark jobs of one task, in the same session, that do the same by
themselves. What is left between the two is tfapp's own cost.

    eval "$(python examples/spark-cluster/cluster.py env)"
    python -m benchmarks.spark_cluster [CONTAINERS]

On the cluster that the environment names: that of examples/spark-cluster is one. It has 6 slots;
64 containers, for example, need `cluster.py start --cores 32`. Without a number they are 2.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import tfapp
from benchmarks.medians import compare

ROUNDS = 5
CONTAINERS = 2
BAR = 3.0  # seconds


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


def main() -> None:
    """Prints the medians, and the difference beside its bar."""
    from pyspark.sql import SparkSession

    containers = int(sys.argv[1]) if sys.argv[1:] else CONTAINERS
    builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
        os.environ["TFAPP_HOME"] = home
        measured = Bench(Path(folder), spark, containers)
        measured.by_spark()  # executors, their Pythons, and what tfapp keeps
        measured.by_tfapp()
        for seconds in measured.up.values():
            seconds.clear()
        ways = {
            f"{containers} Spark jobs": measured.by_spark,
            f"tfapp.run, {containers} containers": measured.by_tfapp,
        }
        alone, ours = compare(ways, ROUNDS).values()
    for what, seconds in measured.up.items():
        print(f"{what}: {median(seconds):.3f} s until all have begun")
    own = ours - alone
    print(f"{own:.3f} s ({'met' if own <= BAR else 'missed'}: at most {BAR:g} s)")
    spark.stop()


if __name__ == "__main__":
    main()
