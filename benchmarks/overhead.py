"""What tfapp's own processes take from the machine while programs run: CPU seconds, by the
kernel's count, of the following command, the master, the coordinator and the runners. Unlike a
ratio of two trainings it does not depend on what else the machine does."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

WORKERS = 2
SECONDS = 60.0  # that the programs run, unless it is given
LINES = 10  # of output a second, as of a progress bar
BAR = 0.012  # of one core for each worker

# Its last argument is a file: it is there when all has been counted.
PROGRAM = """import pathlib, sys, time
print("begins", flush=True)
seconds, lines = map(float, sys.argv[1:3])
for number in range(int(seconds * lines)):
    time.sleep(1 / lines)
    print("step", number, "loss 0.1234 accuracy 0.9876", flush=True)
print("ends", flush=True)
while not pathlib.Path(sys.argv[3]).exists():
    time.sleep(0.05)
"""
# What each is called here -> what its command line has.
OWN = {
    "tfapp run": "-m\0tfapp\0run",
    "master": "tfapp.engines.machine.daemon",
    "coordinator": "tfapp-runtime\0coordinator",
    "runner": "tfapp-runtime\0runner",
}


def cpu_seconds(home: Path) -> Iterator[tuple[str, float]]:
    """(what it is called, CPU seconds so far) of each of tfapp's processes under `home`."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            if str(home).encode() not in (entry / "environ").read_bytes() + command.encode():
                continue
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        ticks = int(fields[11]) + int(fields[12])  # utime, stime: proc(5)
        for name, words in OWN.items():
            if words in command:
                yield name, ticks / os.sysconf("SC_CLK_TCK")


def total(home: Path) -> dict[str, float]:
    """CPU seconds so far, by what the processes are called."""
    sums = dict.fromkeys(OWN, 0.0)
    for name, seconds in cpu_seconds(home):
        sums[name] += seconds
    return sums


def main(folder: Path, seconds: float) -> None:
    """Prints a line for each kind of process."""
    script = folder / "prints.py"
    script.write_text(PROGRAM)
    home = folder / "home"
    command = [sys.executable, "-m", "tfapp", "run", str(script), "-w", str(WORKERS)]
    counted = folder / "counted"
    command += ["--", str(seconds), str(LINES), str(counted)]
    with subprocess.Popen(
        command,
        env={**os.environ, "TFAPP_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "begins\n":
                before, began = total(home), time.perf_counter()
            if line == "ends\n":
                after, passed = total(home), time.perf_counter() - began
                counted.touch()
        _, said = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"tfapp ended with {process.returncode}:\n{said}")
    taken = {name: (after[name] - before[name]) / passed for name in OWN}
    for name, share in taken.items():
        print(f"{share:8.2%} of one core  {name}{' (all)' if name == 'runner' else ''}")
    share = sum(taken.values()) / WORKERS
    met = "met" if share <= BAR else "missed"
    print(f"{share:8.2%} of one core for each of {WORKERS} workers ({met}: at most {BAR:.1%})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that the programs run")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder).resolve(), seconds)
