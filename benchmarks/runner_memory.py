"""Memory of a runner whose program runs, in run mode local and docker, and of the guard beside it
in docker, against a Python that has imported what a runner cannot do without.

In docker on a real engine of the tests' own, which takes root on Debian; --local leaves it out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.end_to_end.command_line import PLAIN_PACKAGE, CommandLine
from tests.runner.docker.engine import BASE, Engine, processes_with

BARS = {"local": 50.0, "docker": 65.0}  # MB resident, of a runner, by run mode
DEADLINE = 120  # seconds
PROGRAM = "import signal\nprint('at work', flush=True)\nsignal.pause()\n"
FLOORS = {
    "Python with tfapp's protocol": "import tfapp.protocol.client",
    "Python with tfapp's protocol and Docker's library": "import tfapp.protocol.client, docker",
}
RUNNER, GUARD = "tfapp-runtime\0runner", "tfapp.runner.docker.guard"


def memory(pid: int) -> tuple[float, float]:
    """MB of a process: resident, and its share of it where pages are shared."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, kibibytes = line.split()[:2]
        found[name] = int(kibibytes) * 1024 / 1e6
    return found["Rss:"], found["Pss:"]


def show(what: str, pid: int, bar: float | None = None) -> None:
    resident, share = memory(pid)
    beside = f", {resident / bar:.2f} of the bar of {bar:g} MB" if bar else ""
    print(f"{resident:7.1f} MB  ({share:.1f} MB by share)  {what}{beside}")


def floor(what: str, imports: str) -> None:
    """Of a Python that has run `imports`."""
    code = f"{imports}; print('ready', flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        show(what, process.pid)
        process.kill()


def runner(tfapp: CommandLine, mode: str, *options: str) -> None:
    """Of one that has an instance at work, and of its guard."""
    name = f"memory-{mode}"
    tfapp.ok(
        *("create", name, "--appdef", PLAIN_PACKAGE, "--files", tfapp.program(PROGRAM)),
        *("--component", "worker", 1, "--option", "site.global.run.mode", mode, *options),
        *("--detach", "--wait", DEADLINE),
    )
    pid = tfapp.process(name, "worker/0", RUNNER)
    show(f"runner, run mode {mode}", pid, BARS[mode])
    for guard in processes_with(GUARD, f":{pid}:"):
        show("its guard", guard)
    tfapp.ok("stop", name, "--force")


def main(folder: Path, with_docker: bool) -> None:
    """Prints a line for each."""
    for what, imports in FLOORS.items():
        floor(what, imports)
    tfapp = CommandLine(folder, folder / "home")
    runner(tfapp, "local")
    if not with_docker:
        return
    engine = Engine(folder / "engine", Path("~/.cache/tfapp").expanduser())
    try:
        engine.start()
        runner(
            tfapp,
            "docker",
            *("--option", "site.global.docker.image", BASE),
            *("--option", "site.global.docker.host", engine.host),
        )
    finally:
        engine.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local", action="store_true", help="without run mode docker")
    local = parser.parse_args().local
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder), not local)
