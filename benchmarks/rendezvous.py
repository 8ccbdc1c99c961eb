"""N instances find each other on the local master: the two-phase rendezvous, in which one reader
gathers N answers and publishes one key, against every instance waiting for each of N keys, with
Skein's own client, as tf-yarn does."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import skein

from benchmarks.medians import compare, parser
from tests.engines.applications import (
    FOREVER,
    compiled,
    local_engine,
    run_folder,
    service,
    stock_client,
)
from tfapp.contract.encoding import encode
from tfapp.contract.names import ANSWER_PREFIX, KEY_CLUSTER
from tfapp.engines.machine.state import read_state
from tfapp.protocol.connection import Connection, connect
from tfapp.protocol.watch import Put

ROUNDS = 3
INSTANCES = 100
AT_LEAST = 40  # times as fast: the bar for INSTANCES
DEADLINE = 300.0  # seconds
Connect = Callable[[], Connection]


def wait_for_each(clients: Sequence[skein.ApplicationClient], round_: str) -> None:
    """Every instance puts its key, then waits for all keys, one after the other."""

    def instance(index: int) -> None:
        kv = clients[index].kv
        kv.put(f"{round_}.{index}", b"127.0.0.1:1")
        for other in range(len(clients)):
            kv.wait(f"{round_}.{other}")

    everywhere(instance, len(clients))


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


def main(count: int, rounds: int, alone: bool) -> None:
    """Prints both, and by how much the first is faster."""
    with contextlib.ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory())
        engine = held.enter_context(local_engine(Path(folder) / "home"))
        engine.create("app", compiled(master=FOREVER, w=service(instances=0)))
        run = run_folder(engine)
        state = read_state(run)
        assert state is not None

        def open_one() -> Connection:
            certificate, key = run.certificate.read_bytes(), run.key.read_bytes()
            return connect(state.address, certificate, key, DEADLINE)

        connections = [held.enter_context(open_one()) for _ in range(count)]
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
        if not alone:
            clients = [held.enter_context(stock_client(engine)) for _ in range(count)]
            everywhere(lambda index: clients[index].kv.put(f"warm.{index}", b""), count)
            compared[f"one wait for each key, N={count}"] = lambda: timed(
                lambda n: wait_for_each(clients, n)
            )
        ours, *others = compare(compared, rounds).values()
    for other in others:
        met = "met" if other / ours >= AT_LEAST else "missed"
        bar = f" ({met}: at least {AT_LEAST}x)" if count == INSTANCES else ""
        print(f"{other / ours:.1f}x as fast{bar}")


if __name__ == "__main__":
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("count", metavar="N", type=int, nargs="?", default=INSTANCES)
    arguments.add_argument("--alone", action="store_true", help="only the two phases")
    args = arguments.parse_args()
    main(args.count, args.rounds, args.alone)
