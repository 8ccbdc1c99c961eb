import subprocess
import sys

from tests.engines.applications import DEADLINE

# A process of its own, that is the parent of orphans. Threads call `subprocess` while containers
# and their orphans end.
PROGRAM = """
import asyncio, subprocess, sys
from tfapp.engines.machine.processes import Reaper
from tfapp.processes import adopt_orphans, left_behind

ORPHANS = "(sleep 0.01; exit 1) & (setsid sleep 0.01) & exit 5"

async def main():
    adopt_orphans()
    reaper = Reaper()
    reaper.start()
    def container(command):
        process = subprocess.Popen(["bash", "-c", command], start_new_session=True)
        process.returncode = 0
        return reaper.watch(process.pid)
    def call():
        return subprocess.run(["bash", "-c", "exit 3"]).returncode
    calls = asyncio.gather(*(asyncio.to_thread(call) for _ in range(60)))
    containers = [container(ORPHANS) for _ in range(20)]
    print(sorted(set(await calls)), sorted(set(await asyncio.gather(*containers))))
    while left_behind():
        await reaper.next_death(1)
    print("no orphan is left")

asyncio.run(main())
"""


def test_an_exit_status_goes_to_the_process_that_waits_for_it():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=4 * DEADLINE
    )
    assert done.stdout.splitlines() == ["[3] [5]", "no orphan is left"], done.stderr
