"""From `tfapp run` to the first line of the user's program, against starting that program by
hand, and against the interpreters that have to start one after the other in between."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.medians import compare

ROUNDS = 7
LINE = b"the first line\n"
# The command, then the master; the coordinator and then a runner, both of which need Skein.
FLOOR = (
    ("-c", "import tfapp.cli.main, skein"),
    ("-c", "import grpc"),
    *[("-c", "import skein")] * 2,
)


def first_line(words: list[str], home: Path) -> float:
    """Seconds until a command prints LINE; waits for its end."""
    environ = {**os.environ, "TFAPP_HOME": str(home)}
    begin = time.perf_counter()
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout is not None
        found = next((time.perf_counter() - begin for line in process.stdout if line == LINE), None)
        _, said = process.communicate()
    if found is None:
        raise SystemExit(f"{words} did not print its line:\n{said.decode()}")
    return found


def chain() -> float:
    """Seconds that the bare interpreters of an application's start take."""
    begin = time.perf_counter()
    for words in FLOOR:
        subprocess.run([sys.executable, *words], check=True)
    return time.perf_counter() - begin


def measurements(folder: Path) -> dict[str, Callable[[], float]]:
    """By hand, the floor, then N = 1, 2, 4 instances."""
    script, home = folder / "program.py", folder / "home"
    script.write_text(f"print({LINE.decode().strip()!r}, flush=True)\n")
    numbers = itertools.count()

    def run(workers: int) -> float:
        name = f"startup-{next(numbers)}"
        words = ["-m", "tfapp", "run", str(script), "-w", str(workers), "--name", name]
        return first_line([sys.executable, *words], home)

    return {
        "by hand": lambda: first_line([sys.executable, str(script)], home),
        "imports and process starts alone": chain,
        **{f"tfapp run -w {n}": lambda n=n: run(n) for n in (1, 2, 4)},
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        compare(measurements(Path(folder)), ROUNDS)
