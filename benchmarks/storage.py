"""TensorFlow on URLs, against the same program on files of this machine and against the bytes alone
by the library that opens them: on an S3 server that it starts, and on the HDFS of `--hdfs URL`, a
folder that may be written. `--rate 2500mbit` lets no more than that pass between the processes of
this machine, as a network does. Says whether the bars are met."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.medians import compare, parser
from benchmarks.storage_steps import LOCAL
from tests.end_to_end.command_line import CommandLine, processes
from tests.storage import s3_server
from tests.waiting import wait

PARTS = ("start", "processors", "S3", "HDFS", "lost")
ROUNDS = 5
MEGABYTES = 500
LIMIT = 600.0  # seconds for a step
CPU = 1.5  # times TensorFlow's own
READING, CHECKPOINTS = 0.8, 0.7  # of the slower of the two
MEMORY = 64  # MiB more than local files
START = 0.010  # seconds more
RECOVERY = 1.0  # seconds more
STARTUP = Path(__file__).parent.parent / "tfapp" / "storage" / "startup"


class Steps:
    """Runs steps. `environ`: with what the URLs need."""

    def __init__(self, environ: Mapping[str, str], megabytes: int):
        kept = {name: v for name, v in os.environ.items() if not name.startswith("AWS_")}
        self._environ = {**kept, **environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._megabytes = megabytes

    def __call__(self, step: str, folder: str) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.storage_steps", step, folder, str(self._megabytes)],
            env=self._environ,
            cwd=Path(__file__).parent.parent,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if done.returncode != 0:
            raise SystemExit(f"{step} {folder} ended with {done.returncode}:\n{done.stderr}")
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def measure(self, step: str, folder: str, what: str = "seconds") -> Callable[[], float]:
        """`what` of a step."""
        return lambda: self(step, folder)[what]


def judged(value: float, is_met: bool, bar: str) -> str:
    return f"{value:.2f}x ({'met' if is_met else 'missed'}: at {bar}x)"


def against_both(steps: Steps, kind: str, url: str, local: str, rounds: int) -> None:
    """Reading, saving and restoring at `url`."""
    rows = {
        "read": ("records", "read_bytes", READING),
        "save": ("save", "write_bytes", CHECKPOINTS),
        "restore": ("restore", "read_bytes", CHECKPOINTS),
    }
    steps("make", url)
    for name, (step, alone, bar) in rows.items():
        on_url = f"{name}, {kind}"
        bytes_alone, on_disk = f"the bytes alone, {kind}", f"{name}, this machine's disk"
        found = compare(
            {
                on_disk: steps.measure(step, local),
                bytes_alone: steps.measure(alone, url),
                on_url: steps.measure(step, url),
            },
            rounds,
        )
        share = max(found[on_disk], found[bytes_alone]) / found[on_url]
        print(f"{name}, {kind}: {judged(share, share >= bar, f'least {bar}')}", flush=True)


def processors(steps: Steps, local: str, rounds: int) -> None:
    """The time on processors of reading local files, by TensorFlow and through the plug-in."""
    own, through = "processors, TensorFlow's own", "processors, through the plug-in"
    found = compare(
        {
            own: steps.measure("records", local, "processors"),
            through: steps.measure("records", f"{LOCAL}:/{local}", "processors"),
        },
        rounds,
    )
    ratio = found[through] / found[own]
    print(f"processors: {judged(ratio, ratio <= CPU, f'most {CPU}')}", flush=True)


def memory(steps: Steps, kind: str, url: str, local: str, rounds: int) -> None:
    """The peak of a program that reads 16 files at once, beyond that on local files."""
    peaks = {
        folder: statistics.median(steps("many_records", folder)["memory"] for _ in range(rounds))
        for folder in (local, url)
    }
    more = (peaks[url] - peaks[local]) / (1 << 20)
    met = "met" if more <= MEMORY else "missed"
    print(f"memory, {kind}: {more:.0f} MiB more ({met}: at most {MEMORY})", flush=True)


def start(rounds: int) -> None:
    """`import tensorflow` with what a program begins with, and without."""
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    libraries = {"PYTHONPATH": str(STARTUP), "TFAPP_STORAGE_PACKAGES": sys.path[-1]}

    def seconds(environ: Mapping[str, str]) -> float:
        begin = time.perf_counter()
        words = [sys.executable, "-c", "import tensorflow"]
        subprocess.run(words, env=environ, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - begin

    without, with_it = "import tensorflow", "import tensorflow, with storage"
    ways = {without: lambda: seconds(kept), with_it: lambda: seconds({**kept, **libraries})}
    found = compare(ways, rounds)
    more = found[with_it] - found[without]
    met = "met" if more <= START else "missed"
    print(f"start: {1000 * more:.0f} ms more ({met}: at most {1000 * START:.0f})", flush=True)


# Its first instance saves its steps. All say when they train in files of this machine, which is
# each of the nodes: to ask for their logs would take the processors that they need.
SAVES = """
import os, pathlib, time
import tensorflow as tf
step, folder = tf.Variable(0), os.environ["TFAPP_CHECKPOINT_DIR"]
manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), folder, max_to_keep=2)
manager.restore_or_initialize()
says = pathlib.Path(os.environ["SAYS"], os.environ["TFAPP_GENERATION"])
says.mkdir(parents=True, exist_ok=True)
(says / os.environ["TFAPP_INDEX"]).write_text(str(time.time()))
while True:
    step.assign_add(1)
    if os.environ["TFAPP_INDEX"] == "0" and step % 5 == 1:
        manager.save()
        (says / "saved").touch()
    time.sleep(0.2)
"""


class OnCluster(CommandLine):
    """`tfapp --engine yarn`; the nodes are processes of this machine."""

    def living(self) -> list[int]:
        return processes()

    def mark(self, application: Mapping[str, Any]) -> bytes:
        number = application["id"].removeprefix("application_")
        return f"CONTAINER_ID=container_{number}_".encode()


def lost_container(hdfs: str, folder: Path, rounds: int) -> None:
    """On the YARN cluster of the environment: from the end of a worker's container until both train
    again."""
    tfapp = OnCluster(folder, folder / "home", flags=("--engine", "yarn"))
    (folder / "saves.py").write_text(SAVES)
    numbers = itertools.count()

    def seconds(prefix: str) -> float:
        flags = ("-w", 2, "--memory", "1200 MiB", "--detach", "--wait", str(LIMIT))
        name = f"lost-{os.getpid()}-{next(numbers)}"
        says = folder / name
        words = ("--name", name, "--checkpoints", prefix, "-e", f"SAYS={says}")
        tfapp.ok("run", "saves.py", *flags, *words)
        try:
            wait((says / "1" / "saved").exists, name, LIMIT)
            begin = time.time()
            os.kill(tfapp.process(name, "worker/1", "tfapp-runtime\0runner"), signal.SIGKILL)
            again = [says / "2" / str(index) for index in range(2)]
            wait(lambda: all(one.exists() and one.read_text() for one in again), name, LIMIT)
            return max(float(one.read_text()) for one in again) - begin
        finally:
            tfapp.ok("destroy", name, "--force")

    on_disk, on_hdfs = "lost container, a local mount", "lost container, HDFS"
    local = folder / "checkpoints"
    found = compare({on_disk: lambda: seconds(str(local)), on_hdfs: lambda: seconds(hdfs)}, rounds)
    more = found[on_hdfs] - found[on_disk]
    met = "met" if more <= RECOVERY else "missed"
    print(f"lost container: {more:.2f} s more ({met}: at most {RECOVERY:g})", flush=True)


@contextlib.contextmanager
def network(rate: str) -> Iterator[None]:
    """Between the processes of this machine nothing is faster than `rate`, in the words of `tc`. It
    takes root."""

    def tc(action: str, *more: str) -> None:
        subprocess.run(["tc", "qdisc", action, "dev", "lo", "root", *more], check=True)

    tc("add", "tbf", "rate", rate, "burst", "1mb", "latency", "50ms")
    try:
        yield
    finally:
        tc("delete")


def main() -> None:
    """All of it."""
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("--megabytes", metavar="N", type=int, default=MEGABYTES)
    arguments.add_argument("--hdfs", metavar="URL", help="also on HDFS and YARN, in this folder")
    arguments.add_argument("--rate", metavar="RATE", help="of the network, in the words of tc")
    arguments.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    args = arguments.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(s3_server.running(folder / "s3", ("bucket",)))
        steps, local = Steps(server, args.megabytes), str(folder / "local")
        parts = args.parts or PARTS
        if "start" in parts:
            start(3 * args.rounds - 2)
        if args.rate:
            stack.enter_context(network(args.rate))
        steps("make", local)
        if "processors" in parts:
            processors(steps, local, args.rounds)
        places = {"S3": "s3://bucket/base", **({"HDFS": args.hdfs} if args.hdfs else {})}
        for kind, url in places.items():
            if kind in parts:
                against_both(steps, kind, url, local, args.rounds)
                memory(steps, kind, url, local, args.rounds)
        if args.hdfs and "lost" in parts:
            lost_container(args.hdfs, folder, args.rounds)


if __name__ == "__main__":
    main()
