"""N instances find each other on the local master: the two-phase rendezvous, in which one reader
gathers N answers and publishes one key, against every instance waiting for each of N keys."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.medians import compare
from tests.engines.applications import FOREVER, compiled, local_engine, run_folder, service
from tfapp.contract.encoding import encode
from tfapp.contract.names import ANSWER_PREFIX, KEY_CLUSTER
from tfapp.engines.state import read_state
from tfapp.protocol.connection import Connection, connect
from tfapp.protocol.watch import Put

ROUNDS = 3
DEADLINE = 300.0  # seconds
Connect = Callable[[], Connection]


def wait_for_each(connections: list[Connection], round_: str) -> None:
    """Every instance puts its key, then waits for all keys, one after the other."""

    def instance(index: int) -> None:
        kv = connections[index]._client.kv
        kv.put(f"{round_}.{index}", b"127.0.0.1:1")
        for other in range(len(connections)):
            kv.wait(f"{round_}.{other}")

    everywhere(instance, len(connections))


def two_phases(connections: list[Connection], round_: str, gather: Connect) -> None:
    """What runners and the coordinator do: N answers are gathered, one key is published."""
    answers, cluster = f"{ANSWER_PREFIX}{round_}.", f"{KEY_CLUSTER}{round_}"
    with gather() as coordinator:
        watch = coordinator.watch(prefixes=[answers])

        def gather_all(count: int) -> None:
            found = dict(watch.read())
            while len(found) < count:
                event = watch.get(DEADLINE)
                assert isinstance(event, Put), event
                found[event.key] = event.value
            coordinator.put(cluster, encode(sorted(value.decode() for value in found.values())))

        def instance(index: int) -> None:
            own = connections[index].watch(keys=[cluster])
            value = own.read().get(cluster)
            connections[index].put(f"{answers}{index}", b"127.0.0.1:1")
            while value is None:
                event = own.get(DEADLINE)
                assert isinstance(event, Put), event
                value = event.value
            assert len(json.loads(value)) == len(connections)
            own.close()

        with ThreadPoolExecutor(1) as pool:
            gathered = pool.submit(gather_all, len(connections))
            everywhere(instance, len(connections))
            gathered.result()


def everywhere(instance: Callable[[int], None], count: int) -> None:
    """Runs `instance` once for each index, all at the same time."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(instance, range(count)))


def main(count: int, rounds: int) -> None:
    """Prints both, and by how much the first is faster."""
    with tempfile.TemporaryDirectory() as folder, local_engine(Path(folder) / "home") as engine:
        engine.create("app", compiled(master=FOREVER, w=service(instances=0)))
        run = run_folder(engine)
        state = read_state(run)
        assert state is not None

        def open_one() -> Connection:
            certificate, key = run.certificate.read_bytes(), run.key.read_bytes()
            return connect(state.address, certificate, key, DEADLINE)

        connections = [open_one() for _ in range(count)]
        everywhere(lambda index: connections[index].put(f"warm.{index}", b""), count)
        numbers = iter(range(10**6))

        def timed(rendezvous: Callable[[str], None]) -> float:
            name = f"round{next(numbers)}"
            begin = time.perf_counter()
            rendezvous(name)
            return time.perf_counter() - begin

        compared = {
            f"two phases, N={count}": lambda: timed(lambda n: two_phases(connections, n, open_one))
        }
        if "--alone" not in sys.argv:
            compared[f"one wait for each key, N={count}"] = lambda: timed(
                lambda n: wait_for_each(connections, n)
            )
        compare(compared, rounds)
        for connection in connections:
            connection.close()


if __name__ == "__main__":
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, ROUNDS)
