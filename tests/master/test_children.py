from tests import programs
from tests.engines.applications import DEADLINE

# A master of its own, with a parent that adopts orphans. Threads call `subprocess` while containers
# and their orphans end.
PROGRAM = """
import asyncio, os, pathlib, socket, subprocess, sys
from tfapp.master.parent import Parent
from tfapp.master.children import ParentLine, Processes
from tfapp.processes import left_behind

folder = pathlib.Path(sys.argv[1])
folder.joinpath(".skein.sh").write_text("(sleep 0.01; exit 1) & (setsid sleep 0.01) & exit 5")

async def main(line):
    processes = Processes(line)
    def call():
        return subprocess.run(["bash", "-c", "exit 3"]).returncode
    calls = asyncio.gather(*(asyncio.to_thread(call) for _ in range(60)))
    for number in range(20):
        processes.start(str(number), folder, dict(os.environ), folder / "log")
    ends = [processes.exit(str(number)) for number in range(20)]
    print(sorted(set(await calls)), sorted(set(await asyncio.gather(*ends))))
    processes.start("nowhere", folder / "missing", dict(os.environ), folder / "log")
    try:
        await processes.exit("nowhere")
    except FileNotFoundError as error:
        print(error.strerror)
    late = folder / "late"
    late.mkdir()
    late.joinpath(".skein.sh").write_text("exec sleep 1000")
    for number in range(20):
        processes.start(f"late {number}", late, dict(os.environ), folder / "log")
    ends = asyncio.gather(*(processes.end(f"late {number}") for number in range(20)))
    await asyncio.sleep(0)
    for number in range(20):
        processes.noted(f"late {number}")  # void: the parent has not even answered
    await asyncio.wait_for(asyncio.gather(ends, processes.end_all()), 60)
    print(len(left_behind(line.pid)), "orphans are left", flush=True)

parent = Parent()
line, end = socket.socketpair()
child = os.fork()
if not child:
    parent.become_master()
    line.close()
    asyncio.run(main(ParentLine(end, {}, frozenset(), os.getppid())))
    os._exit(7)
end.close()
print(parent.look_after(child, line, 1000.0), sum(c.code == 5 for c in parent.children.values()))
"""


def test_an_exit_status_goes_to_the_process_that_waits_for_it(tmp_path):
    done = programs.python("-c", PROGRAM, tmp_path, limit=4 * DEADLINE, start_new_session=True)
    assert done.stdout.splitlines() == [
        "[3] [5]",
        "No such file or directory",
        "0 orphans are left",
        "7 20",
    ], done.stderr
