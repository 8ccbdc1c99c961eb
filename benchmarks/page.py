"""CPU time of `tfapp ui` while a page is open over an application that runs and reports metrics,
and of its coordinator: in percent of a core, beside the bar. The page is played: it listens as its
script does, and then asks, as it does where it cannot listen. The last line is of the page that a
coordinator serves on YARN, with a played status that is new each time, and played nodes.

    python -m benchmarks.page [INSTANCES] [SECONDS]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import subprocess
import tempfile
import time
import urllib.request
from multiprocessing.connection import Connection
from pathlib import Path

from tests.coordinator.test_page import Connection as PlayedMaster
from tests.coordinator.test_page import Nodes
from tests.end_to_end.command_line import CommandLine
from tests.page.applications import slow
from tfapp.coordinator import page
from tfapp.coordinator.page import LogReader
from tfapp.page.server import PageAnswer, PageRequest, PageServer

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


def coordinator(home: Path) -> int:
    """Its process."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = ((folder / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if b"coordinator" in command and str(home).encode() in environ:
            return int(folder.name)
    raise SystemExit("there is no coordinator")


def listen(address: str, seconds: float) -> tuple[int, int]:
    """Listens for so long. How often there was news, and the bytes of all."""
    news = size = 0
    end = time.monotonic() + seconds
    with urllib.request.urlopen(f"{address}events?log=worker/0", timeout=60) as answer:
        while time.monotonic() < end:
            line = answer.readline()
            news, size = news + line.startswith(b"data:"), size + len(line)
    return news, size


def ask(address: str, seconds: float) -> tuple[int, int]:
    """Asks for so long. How often there was news, and the bytes of all."""
    seen, pause, news, size = "", 0.0, 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(pause)
        url = f"{address}data.json?log=worker/0&seen={seen}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            told = answer.read()
        found, size = json.loads(told), size + len(told)
        if found:
            seen, pause, news = found["seen"], found["document"]["pause"], news + 1
    return news, size


def serve(instances: int, pipe: Connection) -> None:
    """Serves the page of a coordinator until it is told to end."""
    status = slow(instances)
    master = PlayedMaster()
    logs = LogReader(master, Nodes(), "ada")  # type: ignore[arg-type]

    def answer(request: PageRequest) -> PageAnswer:
        newest = dataclasses.replace(status, updated=time.time())
        return page.answer(request, newest, logs, master)  # type: ignore[arg-type]

    with PageServer(answer, proxied=True).serving() as server:
        pipe.send(server.address)
        pipe.recv()


def of_coordinator(instances: int, seconds: float) -> None:
    """Prints a line."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(instances, there))
    server.start()
    try:
        address = here.recv()
        ask(address, 1.0)
        before, begin = used(server.pid or 0), time.monotonic()
        news, size = ask(address, seconds)
        took = time.monotonic() - begin
        percent = 100 * (used(server.pid or 0) - before) / took
    finally:
        here.send(None)
        server.join(60)
    print(
        f"page of a coordinator: {percent:.2f} % of a core, {percent / BAR:.2f} of the bar, "
        f"{instances} instances, {news} times news, {size / took / 1024:.1f} KiB/s"
    )


def main(instances: int, seconds: float) -> None:
    """Prints a line for each way."""
    with tempfile.TemporaryDirectory(prefix="tfapp-page-") as folder:
        work = Path(folder)
        tfapp = CommandLine(work, work / "home")
        program = tfapp.program(PROGRAM)
        tfapp.ok("run", program, "-w", instances, "--name", "app", "--detach", "--wait", 300)
        ui = tfapp.start("ui", "app", stderr=subprocess.DEVNULL)
        try:
            address = ui.stdout.readline().strip()  # type: ignore[union-attr]
            pids = ui.pid, coordinator(work)
            ask(address, min(5.0, seconds))  # it has followed for a while
            for way in (listen, ask):
                before, begin = [used(pid) for pid in pids], time.monotonic()
                news, size = way(address, seconds)
                took = time.monotonic() - begin
                percent, other = (100 * (used(p) - b) / took for p, b in zip(pids, before))
                print(
                    f"{way.__name__}: {percent:.2f} % of a core, {percent / BAR:.2f} of the bar, "
                    f"coordinator {other:.2f} %, {instances} instances, {news} times news, "
                    f"{size / took / 1024:.1f} KiB/s"
                )
        finally:
            ui.terminate()
            ui.wait(60)
            tfapp("stop", "app", "--force")
            tfapp.kill_living()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", metavar="INSTANCES", type=int, nargs="?", default=2)
    parser.add_argument("seconds", metavar="SECONDS", type=float, nargs="?", default=60.0)
    args = parser.parse_args()
    main(args.instances, args.seconds)
    of_coordinator(args.instances, args.seconds)
