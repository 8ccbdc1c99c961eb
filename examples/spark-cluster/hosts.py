"""A Spark job that says on which hosts its tasks have run.

    spark-submit hosts.py [TASKS]

The tasks wait for each other (a barrier stage), so all slots that they need are in use at once.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Iterable

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession


def host(_: Iterable[int]) -> list[str]:
    """In a task: the address of its executor, which it has from its worker."""
    BarrierTaskContext.get().barrier()
    return [os.environ.get("SPARK_LOCAL_IP") or socket.gethostname()]


def main(tasks: int) -> None:
    """Prints each host, and the number of tasks on it."""
    builder = SparkSession.builder.appName(os.path.basename(__file__))
    # The stage may have to wait for executors. By default Spark looks for them every 15 s.
    builder = builder.config("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
    spark = builder.getOrCreate()
    numbers = spark.sparkContext.parallelize(range(tasks), tasks)
    hosts = Counter(numbers.barrier().mapPartitions(host).collect())
    for name, count in sorted(hosts.items()):
        print(name, count)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 6)
