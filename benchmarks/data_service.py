"""An input-bound training with 0, 1 and 2 data workers of tf.data service.

    python -m benchmarks.data_service [--rounds 3] [--wait 0.01]

Each element takes `--wait` seconds of one processor to prepare, as a large picture to decode, and a
step of training takes next to nothing. Without data workers the trainer prepares each element
itself; with N, N elements are prepared at a time, as far as there are processors. Printed: elements
per second, the median of the rounds, and their ratio to the trainer alone.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 600  # seconds for one application
ELEMENTS = 1000
PROGRAM = f"""
import os, time
import tensorflow as tf

WAIT = float(os.environ["WAIT"])

def prepare(number):
    # In the graph that data workers run, without Python: a function of Python stays in its process.
    end = tf.timestamp() + WAIT
    tf.while_loop(lambda now: now < end, lambda now: [tf.timestamp()], [tf.timestamp()])
    return tf.cast(number, tf.float32)

data = tf.data.Dataset.range({ELEMENTS}).map(prepare).batch(10)
if "TFAPP_DATA_SERVICE" in os.environ:
    service = tf.data.experimental.service
    dynamic = service.ShardingPolicy.DYNAMIC
    data = data.apply(service.distribute(dynamic, os.environ["TFAPP_DATA_SERVICE"]))
weight = tf.Variable(0.0)
for batch in data.take(5):
    weight.assign_add(tf.reduce_mean(batch))
begun, seen = time.monotonic(), 0
for batch in data:
    weight.assign_add(tf.reduce_mean(batch))
    seen += len(batch)
print(f"elements per second: {{seen / (time.monotonic() - begun):.1f}}")
"""


def speed(data_workers: int, wait: float, folder: Path) -> float:
    """Elements per second of one application."""
    program = folder / "train.py"
    program.write_text(PROGRAM)
    counts = {"dispatcher": min(data_workers, 1), "dataworker": data_workers, "worker": 1}
    words = [word for name, count in counts.items() for word in ("--component", name, str(count))]
    command = [sys.executable, "-m", "tfapp", "create", "input", "--appdef", "data-service"]
    command += ["--files", str(program), "--option", "env.WAIT", str(wait), *words, "--replace"]
    done = subprocess.run(
        command,
        env={**os.environ, "TFAPP_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    found = re.search(r"elements per second: ([0-9.]+)", done.stdout)
    if done.returncode or found is None:
        sys.exit(done.stdout + done.stderr)
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait", type=float, default=0.01, help="seconds of an element")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            [speed(count, args.wait, Path(folder)) for count in (0, 1, 2)]
            for _ in range(args.rounds)
        ]
    alone, *others = map(statistics.median, zip(*rounds))
    print(f"no data worker   {alone:7.1f} elements/s")
    for count, found in enumerate(others, start=1):
        print(f"{count} data worker(s) {found:7.1f} elements/s  {found / alone:.2f}x")


if __name__ == "__main__":
    main()
