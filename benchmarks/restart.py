"""From the death of one program, by a signal or with an exit code, or of its container, until all
programs of the next generation run, against starting that program by hand."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.medians import compare, parser
from tests.end_to_end.command_line import PLAIN_PACKAGE, CommandLine

ROUNDS = 5
DEADLINE = 120.0  # seconds
PACKAGE = PLAIN_PACKAGE.parent / "counting"
# Programs of a benchmark fail sooner than those that are taken for broken.
POLICY = "  failurePolicy: {startupSeconds: 0}\n"
# Says where it stands by a file, as soon as it runs.
PROGRAM = """
import os, pathlib, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
folder = pathlib.Path(os.environ.get("TFAPP_CHECKPOINT_DIR", "."))
folder.mkdir(parents=True, exist_ok=True)
name = os.environ.get("TFAPP_INSTANCE", "hand").replace("/", "-")
(folder / (name + "." + os.environ.get("TFAPP_GENERATION", "1"))).touch()
signal.pause()
"""


def await_files(folder: Path, pattern: str, count: int) -> None:
    """Until so many files are there."""
    end = time.perf_counter() + DEADLINE
    while len(list(folder.glob(pattern))) < count:
        if time.perf_counter() > end:
            raise SystemExit(f"no {count} programs ran in {DEADLINE:g} s")
        time.sleep(0.002)


def by_hand(folder: Path) -> float:
    """Seconds until the program has started."""
    (folder / "hand.1").unlink(missing_ok=True)
    begin = time.perf_counter()
    with subprocess.Popen([sys.executable, folder / "program.py"], cwd=folder) as process:
        await_files(folder, "hand.1", 1)
        seconds = time.perf_counter() - begin
        process.kill()
    return seconds


def restart(
    tfapp: CommandLine, name: str, workers: int, command: str, number: signal.Signals
) -> float:
    """Seconds from the signal `number` to the process `command` of worker/0 until all programs
    run in generation 2."""
    checkpoints = tfapp.work / "checkpoints"
    tfapp.ok(
        *("create", name, "--appdef", tfapp.work / "package"),
        *("--files", tfapp.work / "program.py"),
        *("--option", "site.global.user.checkpoint.prefix", checkpoints),
        *("--component", "chief", 0, "--component", "ps", 0, "--resopt", "yarn.memory", 64),
        *("--component", "worker", workers, "--detach", "--wait", DEADLINE),
    )
    await_files(checkpoints / name, "*.1", workers)
    pid = tfapp.process(name, "worker/0", command)
    begin = time.perf_counter()
    os.kill(pid, number)
    await_files(checkpoints / name, "*.2", workers)
    seconds = time.perf_counter() - begin
    tfapp.ok("stop", name, "--force")
    return seconds


def measurements(folder: Path, instances: Sequence[int]) -> dict[str, Callable[[], float]]:
    """By hand, then a program killed, a program failed and a runner killed among N instances."""
    tfapp = CommandLine(folder, folder / "home")
    (folder / "program.py").write_text(PROGRAM)
    metainfo = shutil.copytree(PACKAGE, folder / "package") / "metainfo.yaml"
    metainfo.write_text(metainfo.read_text() + POLICY)
    numbers = itertools.count()

    def signalled(workers: int, command: str, number: signal.Signals) -> Callable[[], float]:
        return lambda: restart(tfapp, f"restart-{next(numbers)}", workers, command, number)

    kinds = {
        "a program of {} is killed": ("program.py", signal.SIGKILL),
        "a program of {} exits with 3": ("program.py", signal.SIGUSR1),
        "a runner of {} is killed": ("tfapp-runtime\0runner", signal.SIGKILL),
    }
    return {
        "by hand": lambda: by_hand(folder),
        **{kind.format(n): signalled(n, *how) for kind, how in kinds.items() for n in instances},
    }


if __name__ == "__main__":
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("--instances", metavar="N", type=int, nargs="+", default=(1, 2, 3))
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(measurements(Path(folder), args.instances), args.rounds)
