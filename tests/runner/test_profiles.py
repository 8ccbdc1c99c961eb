"""Traces of programs that import a TensorFlow: a played one, whose profiler writes a file."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tfapp.storage
from tests.runner.driving import PATIENCE, alive, eventually
from tests.waiting import wait
from tfapp import processes
from tfapp.contract.profiles import MEMORY_FILE
from tfapp.runner import profiles

STARTUP = str(Path(tfapp.storage.__file__).with_name("startup"))
TENSORFLOW = """
import os, shutil, sys, time, types
def start(folder):
    if os.path.exists("busy"):
        raise RuntimeError("Another profiler is running.")
    global begun
    begun = folder, time.monotonic()
def stop():
    place = os.path.join(begun[0], "plugins/profile/2026")
    os.makedirs(place)
    with open(os.path.join(place, "host.xplane.pb"), "w") as file:
        file.write("x" * round((time.monotonic() - begun[1]) * 1000))
    if os.path.exists("ends"):
        os._exit(0)
Space = types.SimpleNamespace
profiler = Space(experimental=Space(start=start, stop=stop))
io = Space(gfile=Space(makedirs=lambda at: os.makedirs(at, exist_ok=True), copy=shutil.copyfile))
"""
PROGRAM = """
import os, sys, time
{before}
import tensorflow
{after}
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path):
    found = []
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)

    def start(before: str = "", after: str = "", command: str = ""):
        (tmp_path / "temporary").mkdir(exist_ok=True)
        code = command or PROGRAM.format(before=before, after=after)
        found.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env={
                    **os.environ,
                    "PYTHONPATH": f"{STARTUP}:{tmp_path}",
                    "TMPDIR": str(tmp_path / "temporary"),
                },
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert found[-1].stdout.readline() == "ready\n"
        if not command:  # a moment later it waits at the pipe
            eventually(lambda: profiles._read(memory(found[-1])), "it can be asked")
        return found[-1]

    yield start
    for process in found:
        for each in processes.tree(process.pid):
            os.kill(each.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        process.stdin.close()
        process.stdout.close()


def memory(process):
    return processes.memory_file(process.pid, MEMORY_FILE) or Path("/none")


def take(tmp_path, *found, seconds=0.1, id="7", **more):
    pids = [one.pid for process in found for one in processes.tree(process.pid)]
    place = str(tmp_path / "shown")
    return profiles.take(pids, id, seconds, place, "worker_0", **more)


def test_a_trace_is_where_tensorboard_finds_it_and_the_program_goes_on(start, tmp_path):
    place = profiles.run_folder(f"{tmp_path}/shown/", "2026_11_28")
    assert place == f"{tmp_path}/shown/plugins/profile/2026_11_28"
    program = start()
    for number in range(3):
        pids, run = [program.pid], f"{place}-{number}"
        files, size, why = profiles.take(pids, str(number), 0.1, run, "worker_0")
        assert (files, why) == ((f"{run}/worker_0.xplane.pb",), "")
        assert size == os.path.getsize(files[0]) >= 100
    assert os.listdir(tmp_path / "temporary") == []
    assert alive(program.pid)


def test_processes_trace_at_the_same_time_each_into_a_file_of_its_own(start, tmp_path):
    programs = [start() for _ in range(3)]
    first, *others = (process.pid for process in programs)
    clock = iter(range(1000))
    files, _, why = take(tmp_path, *programs, clock=lambda: next(clock) / 1000)
    assert why == ""
    names = ["worker_0.xplane.pb", *(f"worker_0-{pid}.xplane.pb" for pid in others)]
    assert list(files) == [f"{tmp_path}/shown/{name}" for name in names]


def test_a_child_made_by_fork_is_not_asked_a_second_time(start, tmp_path):
    program = start(after="if os.fork() == 0: time.sleep(600)")
    wait(lambda: len(processes.tree(program.pid)) == 2, "the child", PATIENCE)
    files, _, why = take(tmp_path, program)
    assert (len(files), why) == (1, "")


def test_why_there_is_no_trace(start, tmp_path):
    program = start()
    (tmp_path / "busy").touch()
    assert take(tmp_path, program) == ((), 0, "RuntimeError: Another profiler is running.")
    (tmp_path / "busy").unlink()
    (tmp_path / "shown").write_text("")  # no folder can be made there
    assert take(tmp_path, program, id="8")[2].startswith("FileExistsError: ")
    (tmp_path / "shown").unlink()
    os.kill(program.pid, signal.SIGSTOP)
    assert take(tmp_path, program, id="9", write_limit=0.2) == ((), 0, "it has not answered")
    os.kill(program.pid, signal.SIGCONT)
    # What it was asked while it stood still is over, and not done any more.
    assert len(take(tmp_path, program, id="10")[0]) == 1
    (tmp_path / "ends").touch()
    assert take(tmp_path, program, id="11") == ((), 0, "its process has ended")


@pytest.mark.parametrize(
    "code",
    ["", "import os; os.memfd_create = None\ntry:\n    import tensorflow\nfinally:\n    pass"],
    ids=["no TensorFlow", "no file of memory"],
)
def test_a_program_that_cannot_be_asked(start, tmp_path, code):
    program = start(command=f"{code}\nprint('ready', flush=True)\nimport sys; sys.stdin.read()")
    assert take(tmp_path, program) == (
        (),
        0,
        "it runs no Python that has imported TensorFlow and answers",
    )


def test_until_tensorflow_is_imported_there_is_no_thread_and_no_file(start):
    program = start(command="print('ready', flush=True)\nimport sys; sys.stdin.read()")
    assert (len(processes.tasks(program.pid)), memory(program)) == (1, Path("/none"))
