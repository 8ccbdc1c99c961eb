"""The stacks of real programs: which are asked, what they say, and that none is harmed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tfapp.storage
from tests.runner.driving import PATIENCE, alive, eventually
from tfapp import processes
from tfapp.contract.stacks import MEMORY_FILE, SIGNAL, Frame
from tfapp.runner import stacks
from tfapp.runner.stacks import Taker, parse, spied

STARTUP = str(Path(tfapp.storage.__file__).with_name("startup"))
PROGRAM = """
import os, sys, threading, time
def load():
    {load}
def main():
    {main}
    print("ready", flush=True)
    load()
main()
"""


@pytest.fixture
def start(tmp_path):
    found = []

    def start(load: str = "time.sleep(600)", main: str = "pass", *flags: str, command=None):
        path = tmp_path / "train.py"
        path.write_text(PROGRAM.format(load=load, main=main))
        environ = {**os.environ, "PYTHONPATH": STARTUP, "PEX_EXTRA_SYS_PATH": STARTUP}
        found.append(
            subprocess.Popen(
                command or [sys.executable, *flags, str(path)],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        if not command:
            assert found[-1].stdout.readline() == "ready\n"
            # It is in `load` a moment later.
            if "while True" not in load:
                eventually(lambda: processes.stat(found[-1].pid).state in "SD", "it sleeps")
        return found[-1]

    yield start
    for process in found:
        for each in processes.tree(process.pid):
            os.kill(each.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        process.stdin.close()
        process.stdout.close()


def take(tmp_path, *pids: int, quickly=True, ends=False, path: str = "", limit: float = 3.0):
    return Taker([tmp_path], path, lambda text: text.replace("s3cret", "***")).take(
        pids, quickly, ends, limit
    )


def family(process: subprocess.Popen) -> tuple[int, ...]:
    return tuple(one.pid for one in processes.tree(process.pid))


def test_a_program_says_where_it_is_and_goes_on(start, tmp_path):
    program = start(load="sys.stdin.readline(); print('went on')")
    for _ in range(3):
        (found,), why = take(tmp_path, program.pid)
        assert (found.by, why, found.pid) == ("handler", "", program.pid)
        assert list(map(str, found.threads[0].frames)) == [
            "load at train.py:4",
            "main at train.py:8",
            "<module> at train.py:9",
        ]
        assert found.place == "load at train.py:4"
    file = processes.memory_file(program.pid, MEMORY_FILE)
    assert file is not None
    assert file.read_bytes() == b""
    assert program.communicate("\n", timeout=PATIENCE) == ("went on\n", None)


def test_all_its_threads_are_told_the_main_thread_first(start, tmp_path):
    program = start(
        load="threading.Event().wait()",
        main="threading.Thread(target=lambda: time.sleep(600), daemon=True).start()",
    )
    (found,), _ = take(tmp_path, program.pid)
    assert found.place == "wait at train.py:4, a thread in <lambda> at train.py:6"
    assert [frame.file for frame in found.threads[0].frames][:2] == ["threading.py"] * 2


def test_children_that_were_forked_or_started_are_told_too(start, tmp_path):
    code = "import time; time.sleep(600)"
    program = start(
        load="(os.fork() == 0 and time.sleep(600)); time.sleep(500)",
        main=f"import subprocess; subprocess.Popen([sys.executable, '-c', {code!r}])",
    )
    eventually(lambda: len(family(program)) == 3, "three processes")

    def all_told():
        found, _ = take(tmp_path, *family(program))
        return sorted(str(one.threads[0].frames[0]) for one in found if one.threads)

    expected = ["<module> at <string>:1", "load at train.py:4", "load at train.py:4"]
    eventually(lambda: all_told() == expected, "three stacks")


@pytest.mark.parametrize("flag", ["-I", "-S"])
def test_a_python_without_the_handler_is_left_alone(start, tmp_path, flag):
    program = start("time.sleep(600)", "pass", flag)
    (found,), _ = take(tmp_path, program.pid)
    assert (found.threads, found.by) == ((), "")
    assert found.why == (
        "handler: its Python is older than 3.8, or has not run tfapp's sitecustomize; "
        "py-spy: it is not installed where the program is"
    )
    assert alive(program.pid)


@pytest.mark.parametrize(
    "main",
    [
        pytest.param("os.closerange(3, 100)", id="it has closed all files"),
        pytest.param(
            "os.closerange(3, 100); open('/dev/null'); open('/dev/null')", id="and opened others"
        ),
        pytest.param(
            "import signal; os.closerange(3, 100)"
            f"; signal.signal({SIGNAL}, lambda *_: os._exit(3))",
            id="it catches the signal itself",
        ),
    ],
)
def test_a_program_that_has_taken_the_handler_away_is_left_alone(start, tmp_path, main):
    program = start(main=main)
    (found,), _ = take(tmp_path, program.pid)
    assert not found.threads
    time.sleep(0.1)
    assert alive(program.pid)


def test_what_is_no_python_gets_no_signal(start, tmp_path):
    program = start(command=["sleep", "600"])
    eventually(lambda: processes.executable(program.pid).endswith("sleep"), "sleep runs")
    assert take(tmp_path, program.pid) == ((), "it runs no Python, but sleep")
    assert alive(program.pid)
    assert take(tmp_path) == ((), "it runs no Python, but nothing")


def test_a_program_that_was_stopped_is_not_waited_for(start, tmp_path):
    program = start()
    program.send_signal(signal.SIGSTOP)
    eventually(lambda: processes.stat(program.pid).state == "T", "it stops")
    before = time.monotonic()
    (found,), _ = take(tmp_path, program.pid)
    assert time.monotonic() - before < 1
    assert (found.place, found.threads) == ("stopped (SIGSTOP)", ())


# As vfork does, it waits until its child has opened its files, and takes no signal meanwhile.
IN_STATE_D = (
    "os.posix_spawn('/bin/true', ['true'], {{}}, "
    "file_actions=[(os.POSIX_SPAWN_OPEN, 0, {pipe!r}, os.O_RDONLY, 0)])"
)
STATE_D = r"state D: it waits for a disk or a file server( \(\w+\))?"


def test_a_program_that_no_signal_reaches_says_what_it_waits_for(start, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = start(load=IN_STATE_D.format(pipe=str(pipe)))
    eventually(lambda: processes.stat(program.pid).state == "D", "it waits")
    (found,), why = take(tmp_path, program.pid)
    assert re.fullmatch(STATE_D, found.place)
    told = "it does not run, and answers nobody"
    assert (found.threads, found.why, why) == ((), told, "")


def test_a_thread_that_no_signal_reaches_is_told_with_the_others(start, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waits = IN_STATE_D.format(pipe=str(pipe))
    program = start(f"threading.Thread(target=lambda: {waits}).start(); time.sleep(600)")

    def told() -> bool:
        (found,), _ = take(tmp_path, program.pid)
        return re.fullmatch(rf"\w+ at train.py:4, a thread is in {STATE_D}", found.place)

    eventually(told, "a thread in state D")


def test_a_program_that_does_not_take_the_signal_is_waited_for_shortly(start, tmp_path):
    program = start(
        main=f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [{SIGNAL}])",
    )
    before = time.monotonic()
    (found,), _ = take(tmp_path, program.pid, limit=0.5)
    assert time.monotonic() - before < 2
    assert "handler: no thread was at rest and answered" in found.why


def test_a_thread_that_never_rests_is_asked_only_before_its_end(start, tmp_path):
    """faulthandler may come upon a frame that is half made, and end the program with it."""
    program = start(
        load="exec('while True: pass')",
        main="threading.Thread(target=lambda: time.sleep(600), daemon=True).start()",
    )
    eventually(lambda: not processes.rests(program.pid, program.pid), "it computes")

    def told() -> bool:
        (found,), _ = take(tmp_path, program.pid, ends=True)
        return "load at train.py:4" in map(str, found.threads[0].frames)

    eventually(told, "it is in `load`")
    spared = "a thread in <lambda> at train.py:6, its main thread never rests"
    eventually(lambda: take(tmp_path, program.pid)[0][0].place == spared, "it is spared")
    assert alive(program.pid)


def test_secrets_are_struck_out(start, tmp_path):
    program = start(load="s3cret()", main="global s3cret; s3cret = lambda: time.sleep(600)")
    (found,), _ = take(tmp_path, program.pid)
    assert "s3cret" not in str(found)


def test_py_spy_is_asked_first_where_there_is_time_and_says_why_it_could_not(start, tmp_path):
    program, folder = start(), tmp_path / "bin"
    folder.mkdir()
    spy = folder / "py-spy"
    spy.write_text("#!/bin/sh\necho 'Permission denied (os error 13)' >&2; exit 1\n")
    spy.chmod(0o755)
    (found,), _ = take(tmp_path, program.pid, quickly=False, path=str(folder))
    assert (found.by, found.why) == ("handler", "py-spy: Permission denied (os error 13)")
    (found,), _ = take(tmp_path, program.pid, quickly=True, path=str(folder))
    assert (found.by, found.why) == ("handler", "")


def test_what_py_spy_prints(start, tmp_path):
    frames = [{"name": "load", "filename": "/a/train.py", "line": 4, "module": None}]
    text = (
        (
            '[{"pid": 1, "thread_name": "worker", "frames": []}, '
            f'{{"pid": 1, "thread_name": "MainThread", "frames": {frames!r}}}]'
        )
        .replace("'", '"')
        .replace("None", "null")
    )
    main, other = spied(text.encode())
    assert (main.name, main.frames) == ("MainThread", (Frame("load", "/a/train.py", 4, False),))
    assert (other.name, other.frames) == ("worker", ())
    for wrong in (b"", b"{}", b"[1]", b"[]", b'[{"frames": 3}]'):
        with pytest.raises(stacks._NoStacksError):
            spied(wrong)


def test_what_faulthandler_writes():
    text = """\
Stack (most recent call first):
  Garbage-collecting
  File "/a/b c.py", line ??? in ???
  File "/a/train.py", line 4 in load
  ...
"""
    assert parse(text) == (
        Frame("???", "/a/b c.py", None, False),
        Frame("load", "/a/train.py", 4, False),
    )
    assert parse("something else\n") == ()


@pytest.mark.parametrize(
    ("file", "shown", "own"),
    [
        ("/w/train.py", "train.py", True),
        ("/w/files/pkg/data.py", "files/pkg/data.py", True),
        ("/elsewhere/lib.py", "/elsewhere/lib.py", True),
        ("/v/lib/python3.11/site-packages/keras/a.py", "keras/a.py", False),
        ("/usr/lib/python3/dist-packages/numpy/a.py", "numpy/a.py", False),
        ("/usr/lib/python3.11/threading.py", "threading.py", False),
        ("/w/tfapp-runtime/tfapp/storage/startup/x.py", "tfapp/storage/startup/x.py", False),
        ("/w/files/tfapp-call/tfapp/program/main.py", "tfapp/program/main.py", False),
        ("/w/files/tfapp-call/main.py", "main.py", False),
        ("/w/files/tfapp-call.py", "files/tfapp-call.py", True),
        ("/t/__autograph_generated_file1.py", "/t/__autograph_generated_file1.py", False),
        ("<frozen runpy>", "<frozen runpy>", False),
    ],
)
def test_whose_a_file_is(file, shown, own):
    taker = Taker([Path("/w")], "", str)
    assert taker._frame(Frame("f", file, 1, False)) == Frame("f", shown, 1, own)


# ---- what else holds a program up ----------------------------------------------------------------
class Disk:
    """What os.statvfs says, as far as it is read."""

    def __init__(self, free: int, inodes: int = 9, size: int = 1 << 20):
        self.f_blocks, self.f_bavail, self.f_frsize = size, free, 4096
        self.f_files, self.f_favail = 9, inodes


def test_a_full_disk_and_a_server_that_does_not_answer_are_told(monkeypatch, tmp_path):
    disks = {
        "/roomy": Disk(1 << 19),
        "/full": Disk(3),
        "/many": Disk(1 << 19, inodes=0),
        "/proc": Disk(0, size=0),  # has no blocks at all
    }
    go = threading.Event()

    def statvfs(folder):
        if str(folder) == "/nfs":
            go.wait(PATIENCE)
        if str(folder) not in disks:
            raise FileNotFoundError(folder)
        return disks[str(folder)]

    monkeypatch.setattr(os, "statvfs", statvfs)
    before = time.monotonic()
    folders = [Path(name) for name in (*disks, "/nfs", "/gone", "/full")]
    told = stacks.troubles((), folders)
    assert time.monotonic() - before < 5
    go.set()
    assert sorted(told) == [
        "/nfs does not answer",
        "the disk of /full is full",
        "the disk of /many has no inode left",
    ]


def test_a_process_without_file_descriptors_still_says_where_it_is(start, tmp_path):
    program = start(
        main="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))\n"
        "    global files; files = []\n"
        "    while True:\n"
        "        try: files.append(open('/dev/null'))\n"
        "        except OSError: break"
    )
    assert stacks.troubles((program.pid,), ()) == (
        f"process {program.pid} has 30 of 30 file descriptors",
    )
    (found,), _ = take(tmp_path, program.pid)
    assert found.place.startswith("load at train.py:")
    assert stacks.troubles((start().pid,), (tmp_path,)) == ()
