"""The master of an application on this machine is killed while two workers train: seconds until the
next one answers, until the command and the Python call that follow say so, and until N clients,
each with what a runner has, have found it; and the steps of the training while there is no master,
with those just before and after."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks.medians import parser
from benchmarks.throughput import EXAMPLE
from tests.end_to_end.command_line import CommandLine
from tests.engines.applications import FOREVER, compiled, local_engine, run_folder, service
from tests.waiting import wait
from tfapp.engines.local.engine import LocalEngine
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import MasterState, read_state
from tfapp.protocol.connection import Connection, connect
from tfapp.protocol.watch import Broken, Put

ROUNDS = 5
CLIENTS = 1000
AWAY = 15.0  # seconds without a master; runners wait for it for 30
MASTERS = 100  # more than any round needs
LIMIT = 120.0  # seconds for anything
ANSWERS, VIEW, FOUND, STEPS = 3.0, 3.0, 10.0, 0.98  # the bars
PROGRAM = Path(__file__).with_name("lost_master_steps.py")
BACK = re.compile("the application's master was lost and is back")
CALL = "import tfapp; tfapp.open('lost', engine='local').follow()"


def master_of(run: RunFolder) -> MasterState:
    """The newest master of a run."""
    state = read_state(run)
    assert state is not None and state.parent is not None, "a master of the local engine has one"
    return state


def opened(run: RunFolder) -> Connection:
    """A client of its master."""
    return connect(
        master_of(run).address, run.certificate.read_bytes(), run.key.read_bytes(), LIMIT
    )


def kill(run: RunFolder) -> float:
    """Kills its master. Returns when, in seconds since 1970."""
    now = time.time()
    os.kill(master_of(run).process.pid, signal.SIGKILL)
    return now


class Follower:
    """A process that follows an application, and when it has said that the master is back."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process
        self.back: list[float] = []  # seconds since 1970
        self.said = threading.Event()  # anything
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.set()
            if BACK.search(line):
                self.back.append(time.time())


class Training:
    """Two workers that train, and a command and a Python call that follow them."""

    def __init__(self, folder: Path):
        self._times = folder / "times"
        tfapp = CommandLine(folder, folder / "home")
        command = tfapp.start(
            *("run", PROGRAM, "-w", 2, "--name", "lost", "--files", EXAMPLE),
            *("--option", "site.global.master.attempts", MASTERS, "--", self._times),
        )
        self._followers = [Follower(command)]
        wait(lambda: len(self.times()) > 20, "the training", LIMIT)
        call = subprocess.Popen(
            (sys.executable, "-c", CALL),
            env={**os.environ, "TFAPP_HOME": str(tfapp.home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._followers.append(Follower(call))
        wait(self._followers[-1].said.is_set, "the Python call", LIMIT)
        self.run = LocalEngine(tfapp.home, environ=dict(os.environ))._home.app("lost").run(1)

    def times(self) -> list[float]:
        """When steps were made, in seconds since 1970."""
        if not self._times.exists():
            return []
        return [float(line) for line in self._times.read_text().split("\n")[:-1]]

    def lost_and_back(self) -> tuple[float, ...]:
        """Seconds from the kill to an answer, and from that to the command and to the Python call
        that follow."""
        told = [len(one.back) for one in self._followers]
        with opened(self.run) as client:
            client.put("benchmark.before", b"")
            killed = kill(self.run)
            client.put("benchmark.after", b"")
            answered = time.time()
        for one, before in zip(self._followers, told):
            wait(lambda o=one, n=before: len(o.back) > n, "who follows", LIMIT)
        back = [one.back[before] for one, before in zip(self._followers, told)]
        return answered - killed, *(max(0.0, moment - answered) for moment in back)

    def away(self) -> float:
        """The steps a second while there is no master, over those before and after."""
        parent = master_of(self.run).parent
        assert parent is not None
        time.sleep(AWAY)
        os.kill(parent.pid, signal.SIGSTOP)  # who starts the next one
        try:
            killed = kill(self.run)
            time.sleep(AWAY)
        finally:
            os.kill(parent.pid, signal.SIGCONT)
        begun = time.time()
        with opened(self.run) as client:
            client.put("benchmark.again", b"")
        time.sleep(AWAY + 3)
        times = self.times()
        before = steps(times, killed - AWAY, killed)
        after = steps(times, begun + 3, begun + 3 + AWAY)
        return 2 * steps(times, killed, begun) / (before + after)

    def close(self) -> None:
        """Ends it."""
        self._followers[0].process.send_signal(signal.SIGINT)
        for one in self._followers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(LIMIT)
            one.process.kill()
            one.process.wait()


def steps(times: Sequence[float], begin: float, end: float) -> float:
    """Marks a second between the first and the last one in these seconds."""
    found = [one for one in times if begin <= one <= end]
    return (len(found) - 1) / (found[-1] - found[0])


@contextlib.contextmanager
def clients(folder: Path, count: int) -> Iterator[tuple[RunFolder, list[Connection]]]:
    """An application without instances, and so many clients of its master."""
    with contextlib.ExitStack() as held:
        engine = held.enter_context(local_engine(folder / "home"))
        app = compiled(master=FOREVER, w=service(instances=0))
        engine.create("app", replace(app, job=replace(app.job, attempts=MASTERS)))
        run = run_folder(engine)
        yield run, [held.enter_context(opened(run)) for _ in range(count)]


def found_by_all(run: RunFolder, connections: Sequence[Connection], number: int) -> float:
    """Seconds from the kill until each client has told the next master of itself, and has heard by
    its watch what that one published then."""
    key, ready = f"benchmark.cluster.{number}", threading.Barrier(len(connections) + 1)

    def client(connection: Connection) -> None:
        watch = connection.watch(keys=[key])
        for _ in range(2):
            ready.wait(LIMIT)  # the kill is between them
        connection.put(f"benchmark.beat.{id(connection)}", b"")
        # As a runner: a stream that broke is opened again, and what was missed is read.
        value = None
        while value is None:
            event = watch.get(LIMIT)
            assert event is not None, "the watch is silent"
            if isinstance(event, Broken):
                watch.close()
                watch = connection.watch(keys=[key])
                value = watch.read().get(key)
            elif isinstance(event, Put):
                value = event.value
        watch.close()

    with ThreadPoolExecutor(len(connections)) as pool:
        done = [pool.submit(client, connection) for connection in connections]
        ready.wait(LIMIT)
        begin = time.perf_counter()
        kill(run)
        ready.wait(LIMIT)
        with opened(run) as coordinator:
            coordinator.put(key, b"1")
        for one in done:
            one.result()
        return time.perf_counter() - begin


def say(
    what: str, values: Sequence[float], bar: float, unit: str = " s", least: bool = False
) -> None:
    median = statistics.median(values)
    met = "met" if (median >= bar if least else median <= bar) else "missed"
    spread = f"({min(values):.2f} to {max(values):.2f})"
    side = "least" if least else "most"
    print(f"{median:7.2f}{unit}  {spread}  {what} ({met}: at {side} {bar:g}{unit})", flush=True)


def main(rounds: int, count: int) -> None:
    """Prints a line for each bar."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(Path(folder).resolve())
        try:
            found = [training.lost_and_back() for _ in range(rounds)]
            answers, command, call = zip(*found)
            say("the next master answers", answers, ANSWERS)
            say("the command that follows says so, after that", command, VIEW)
            say("the Python call that follows does, after that", call, VIEW)
            shares = [training.away() for _ in range(rounds)]
            say("the steps without a master", shares, STEPS, "x", least=True)
        finally:
            training.close()
    with (
        tempfile.TemporaryDirectory() as folder,
        clients(Path(folder).resolve(), count) as (run, connections),
    ):
        seconds = [found_by_all(run, connections, number) for number in range(rounds)]
        say(f"{count} clients have found it", seconds, FOUND)


if __name__ == "__main__":
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("--clients", metavar="N", type=int, default=CLIENTS)
    args = arguments.parse_args()
    main(args.rounds, args.clients)
