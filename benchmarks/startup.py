"""From `tfapp run` to the first line of the user's program, against starting that program by
hand, and against the floor: the bare interpreters with the libraries that have to start one
after the other in between, of N instances at the same time."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.medians import compare, parser

ROUNDS = 7
LINE = b"the first line\n"
BY_HAND, FLOOR, TFAPP = "by hand", "floor of {} at once", "tfapp run -w {}"
INSTANCES = (1, 2, 4)
SKEIN = "from tfapp.skein_library import skein"
PROTOCOL = "import tfapp.protocol.client"  # what coordinator and runners need
TIMES_THE_FLOOR = 1.25  # the bar


def environment(home: Path) -> dict[str, str]:
    """In which an installed tfapp runs: Python may keep what it compiles."""
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "TFAPP_HOME": str(home)}


def first_line(words: list[str], environ: Mapping[str, str]) -> float:
    """Seconds until a command prints LINE; waits for its end."""
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


def floor(workers: int, environ: Mapping[str, str]) -> float:
    """Seconds that the command, then the master, the coordinator beside the runners, and the
    programs take as interpreters that only import."""
    begin = time.perf_counter()
    for program, count in (
        (f"import tfapp.cli.main; {SKEIN}", 1),
        ("import grpc", 1),
        (PROTOCOL, 1 + workers),
        ("pass", workers),
    ):
        started = [
            subprocess.Popen([sys.executable, "-c", program], env=environ) for _ in range(count)
        ]
        for process in started:
            process.wait()
    return time.perf_counter() - begin


def measurements(folder: Path, instances: Sequence[int]) -> dict[str, Callable[[], float]]:
    """By hand, then the floor and tfapp for each number of instances."""
    script, environ = folder / "program.py", environment(folder / "home")
    script.write_text(f"print({LINE.decode().strip()!r}, flush=True)\n")
    numbers = itertools.count()

    def run(workers: int) -> float:
        name = f"startup-{next(numbers)}"
        words = ["-m", "tfapp", "run", str(script), "-w", str(workers), "--name", name]
        return first_line([sys.executable, *words], environ)

    measured: dict[str, Callable[[], float]] = {
        BY_HAND: lambda: first_line([sys.executable, str(script)], environ)
    }
    for n in instances:
        measured[FLOOR.format(n)] = lambda n=n: floor(n, environ)
        measured[TFAPP.format(n)] = lambda n=n: run(n)
    return measured


def judge(medians: Mapping[str, float], instances: Sequence[int]) -> None:
    """Prints how the medians stand to the bars."""
    for n in instances:
        seconds = medians[TFAPP.format(n)]
        more, times = seconds - medians[BY_HAND], seconds / medians[FLOOR.format(n)]
        met = "met" if times <= TIMES_THE_FLOOR else "missed"
        print(
            f"N={n}: {more:.2f} s more than by hand, {times:.2f}x the floor "
            f"({met}: at most {TIMES_THE_FLOOR}x)"
        )


if __name__ == "__main__":
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("--instances", metavar="N", type=int, nargs="+", default=INSTANCES)
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measurements(Path(folder), args.instances)
        for measure in measured.values() if args.rounds > 1 else ():
            measure()  # the first time, bytecode is made and the disk is read
        judge(compare(measured, args.rounds), args.instances)
