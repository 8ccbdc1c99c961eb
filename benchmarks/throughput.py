"""Training on workers under tfapp, against the same processes started by hand with
TF_CONFIG: seconds for a number of steps, as the program itself measures them after warming up.

A training of 1000 steps takes half a minute to a minute, and each round has two."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.medians import compare, parser
from benchmarks.startup import environment

ROUNDS = 5
STEPS = 1000
DEADLINE = 600.0  # seconds for one training
AT_LEAST = 0.995  # of the throughput by hand
BY_HAND, TFAPP = "{} steps by hand", "{} steps under tfapp"

PROGRAM = Path(__file__).with_name("digits_steps.py")
EXAMPLE = Path(__file__).parent.parent / "examples" / "digits-multiworker" / "train.py"
# What appConfig of the TensorFlow package sets; see its comments.
ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": ""}


def seconds_in(output: str) -> float:
    """What the first worker has printed."""
    for line in output.splitlines():
        word, _, number = line.rpartition(" ")
        if word == "seconds":
            return float(number)
    raise SystemExit(f"the program did not say how long it took:\n{output}")


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def by_hand(folder: Path, steps: int, workers: int) -> float:
    """Seconds that the steps take in processes that know of each other by TF_CONFIG alone."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(workers)]}
    started = []
    for index in range(workers):
        config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environ = {**environment(folder), **ENVIRONMENT, "TF_CONFIG": json.dumps(config)}
        started.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(steps)],
                cwd=folder,
                env={**environ, "PYTHONPATH": str(EXAMPLE.parent)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=DEADLINE)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return seconds_in(outputs[0])


def under_tfapp(folder: Path, name: str, steps: int, workers: int) -> float:
    """Seconds that the same steps take as an application of the local engine."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfapp", "run", str(PROGRAM), "-w", str(workers)),
            *("--name", name, "--files", str(EXAMPLE), "--", str(steps)),
        ],
        env=environment(folder / "home"),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    if done.returncode != 0:
        raise SystemExit(f"tfapp ended with {done.returncode}:\n{done.stderr}")
    return seconds_in(done.stdout)


def measurements(folder: Path, steps: int, workers: int) -> dict[str, Callable[[], float]]:
    """By hand, then under tfapp."""
    numbers = itertools.count()
    return {
        BY_HAND.format(steps): lambda: by_hand(folder, steps, workers),
        TFAPP.format(steps): lambda: under_tfapp(
            folder, f"throughput-{next(numbers)}", steps, workers
        ),
    }


if __name__ == "__main__":
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("--steps", metavar="N", type=int, default=STEPS)
    arguments.add_argument("--workers", metavar="N", type=int, default=2)
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = measurements(Path(folder), args.steps, args.workers)
        hand, ours = compare(ways, args.rounds).values()
    throughput = hand / ours
    print(
        f"{throughput:.3f}x the throughput by hand "
        f"({'met' if throughput >= AT_LEAST else 'missed'}: at least {AT_LEAST}x)"
    )
