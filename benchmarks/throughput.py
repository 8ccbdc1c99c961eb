"""Training on two workers under tfapp, against the same two processes started by hand with
TF_CONFIG: seconds for a number of steps, as the program itself measures them after warming up."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.medians import compare

ROUNDS = 7
STEPS = 1000
WORKERS = 2
DEADLINE = 600.0  # seconds for one training
AT_LEAST = 0.98  # of the throughput by hand: the bar of the specification
BY_HAND, TFAPP = f"{STEPS} steps by hand", f"{STEPS} steps under tfapp"

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


def by_hand(folder: Path) -> float:
    """Seconds that the steps take in processes that know of each other by TF_CONFIG alone."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]}
    started = []
    for index in range(WORKERS):
        config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environ = {**os.environ, **ENVIRONMENT, "TF_CONFIG": json.dumps(config)}
        started.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(STEPS)],
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


def under_tfapp(folder: Path, name: str) -> float:
    """Seconds that the same steps take as an application of the local engine."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfapp", "run", str(PROGRAM), "-w", str(WORKERS)),
            *("--name", name, "--files", str(EXAMPLE), "--", str(STEPS)),
        ],
        env={**os.environ, "TFAPP_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    if done.returncode != 0:
        raise SystemExit(f"tfapp ended with {done.returncode}:\n{done.stderr}")
    return seconds_in(done.stdout)


def measurements(folder: Path) -> dict[str, Callable[[], float]]:
    """By hand, then under tfapp."""
    numbers = itertools.count()
    return {
        BY_HAND: lambda: by_hand(folder),
        TFAPP: lambda: under_tfapp(folder, f"throughput-{next(numbers)}"),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        medians = compare(measurements(Path(folder)), ROUNDS)
    throughput = medians[BY_HAND] / medians[TFAPP]
    print(
        f"{throughput:.3f}x the throughput by hand "
        f"({'met' if throughput >= AT_LEAST else 'missed'}: at least {AT_LEAST}x)"
    )
