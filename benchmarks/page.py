"""CPU time of `tfapp ui` while a page is open over an application that runs and reports metrics: in
percent of a core, beside the bar. The page is played: it asks as its script does, for all news.

    python -m benchmarks.page [INSTANCES] [SECONDS]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.end_to_end.command_line import CommandLine

BAR = 1.0  # percent of a core
PROGRAM = """
import time
from tfapp.program.reporting import report
step = 0
while True:
    report({"loss": 1 / (step + 1), "accuracy": step / (step + 1)}, step=step)
    if step % 10 == 0:
        print("step", step, flush=True)
    step += 1
    time.sleep(0.1)
"""


def used(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(address: str, seconds: float) -> tuple[int, int]:
    """Looks at the page for so long. How often, and how often there was news."""
    seen, pause, looks, news = "", 0.0, 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(pause)
        url = f"{address}data.json?log=worker/0&seen={seen}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            told = json.load(answer)
        looks += 1
        if told:
            seen, pause, news = told["seen"], told["document"]["pause"], news + 1
    return looks, news


def main(instances: int, seconds: float) -> None:
    """Prints one line."""
    with tempfile.TemporaryDirectory(prefix="tfapp-page-") as folder:
        work = Path(folder)
        tfapp = CommandLine(work, work / "home")
        program = tfapp.program(PROGRAM)
        tfapp.ok("run", program, "-w", instances, "--name", "app", "--detach", "--wait", 300)
        ui = tfapp.start("ui", "app", stderr=subprocess.DEVNULL)
        try:
            address = ui.stdout.readline().strip()  # type: ignore[union-attr]
            watch(address, min(5.0, seconds))  # it has followed for a while
            before, begin = used(ui.pid), time.monotonic()
            looks, news = watch(address, seconds)
            percent = 100 * (used(ui.pid) - before) / (time.monotonic() - begin)
        finally:
            ui.terminate()
            ui.wait(60)
            tfapp("stop", "app", "--force")
            tfapp.kill_living()
    print(
        f"{percent:.2f} % of a core, {percent / BAR:.2f} of the bar, {instances} instances, "
        f"{looks} looks, {news} with news"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", metavar="INSTANCES", type=int, nargs="?", default=2)
    parser.add_argument("seconds", metavar="SECONDS", type=float, nargs="?", default=60.0)
    args = parser.parse_args()
    main(args.instances, args.seconds)
