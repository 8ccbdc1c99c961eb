"""Whose handler catches a signal, with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runner.driving import PATIENCE
from tfapp import processes
from tfapp.runner import catcher

# Waits for a signal, and says how often it came.
CATCHES = """
import signal, sys, time
seen = []
signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
print("ready", flush=True)
{busy}
end = time.monotonic() + 60
while not seen and time.monotonic() < end: {wait}
signal.setitimer(signal.ITIMER_REAL, 0)
time.sleep(0.3)
sys.exit(len(seen))
"""
# A handler in C, as of a library that the program does not know of.
IN_C = """
import ctypes, signal, sys, time
libc = ctypes.CDLL(None)
libc.signal(int(signal.SIGTERM), libc._exit)
print("ready", flush=True)
time.sleep(60)
"""
TIMER = (
    "signal.signal(signal.SIGALRM, lambda *_: 0); signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)"
)


@pytest.fixture
def start():
    found = []

    def start(code: str) -> subprocess.Popen:
        found.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE))
        assert found[-1].stdout.readline() == b"ready\n"
        return found[-1]

    yield start
    for process in found:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


def send(process: subprocess.Popen, number: int = signal.SIGTERM) -> str:
    found = processes.identify(process.pid)
    assert found is not None
    return Path(catcher.send(found, number)).name


@pytest.mark.parametrize("wait", ["time.sleep(1)", "pass", "sum(range(1000))"])
@pytest.mark.parametrize("busy", ["", TIMER])
def test_a_handler_in_python_is_the_interpreters_and_is_called_once(start, wait, busy):
    """Also where other signals come meanwhile."""
    process = start(CATCHES.format(wait=wait, busy=busy))
    assert "python" in send(process)
    assert process.wait(PATIENCE) == 1


def test_a_handler_of_a_library(start):
    process = start(IN_C)
    assert send(process).startswith("libc")
    assert process.wait(PATIENCE) == signal.SIGTERM


def test_the_program_gets_the_next_signal_too(start):
    code = CATCHES.format(wait="time.sleep(1)", busy="").replace("not seen", "len(seen) < 2")
    process = start(code.replace("seen.append(1)", "(seen.append(1), print('seen', flush=True))"))
    assert "python" in send(process)
    assert process.stdout.readline() == b"seen\n"  # Python joins signals that come together
    assert "python" in send(process)
    assert process.wait(PATIENCE) == 2


def test_without_a_handler_the_signal_is_sent(start):
    process = start("import time; print('ready', flush=True); time.sleep(60)")
    assert send(process) == ""
    assert process.wait(PATIENCE) == -signal.SIGTERM


def test_a_signal_that_is_ignored_is_sent(start):
    ignores = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    process = start(f"{ignores}; print('ready', flush=True); time.sleep(60)")
    assert send(process) == ""
    assert send(process, signal.SIGKILL) == ""
    assert process.wait(PATIENCE) == -signal.SIGKILL


def test_where_tracing_is_not_allowed_the_signal_is_sent(start, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(catcher, "_ptrace", refuse)
    process = start(CATCHES.format(wait="time.sleep(1)", busy=""))
    assert send(process) == ""
    assert process.wait(PATIENCE) == 1


def test_a_process_that_has_ended_is_none(start):
    process = start("print('ready', flush=True)")
    found = processes.Process(process.pid, 0)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert catcher.send(found, signal.SIGTERM) == ""


# What TensorFlow does at the end of Python: it waits, after all code of the program.
WAITS_AT_THE_END = """
import atexit, sys, time

class Waits:
    def __del__(self):
        print("over", flush=True)
        sleep(60)

kept, sleep, print = Waits(), time.sleep, print
atexit.register(lambda: print("atexit", flush=True))
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    print("finally", flush=True)
"""


def test_python_gives_its_handler_up_after_all_code_of_the_program(start):
    """A second SIGINT ends a program whose Python has ended, and nothing of it is lost."""
    process = start(f"import sys; sys.stderr = sys.stdout\n{WAITS_AT_THE_END}")
    assert processes.catches(process.pid, signal.SIGINT)
    assert "python" in send(process, signal.SIGINT)
    lines = list(iter(process.stdout.readline, b"over\n"))
    told = (b"finally\n", b"KeyboardInterrupt\n", b"atexit\n")
    assert [line for line in lines if line in told] == list(told)
    assert not processes.catches(process.pid, signal.SIGINT)
    assert send(process, signal.SIGINT) == ""
    assert process.wait(PATIENCE) == -signal.SIGINT
