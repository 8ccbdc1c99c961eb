"""What a program uses, measured of real processes."""

import os
import subprocess
import sys

import pytest

from tests.waiting import wait
from tfapp import processes
from tfapp.runner.usage import UsageMeter

MIB = 1 << 20

# Says "ready" once it has used what it will, and waits.
BUSY = """
import subprocess, sys, time
held = bytearray({mib} << 20)
end = time.process_time() + {seconds}
while time.process_time() < end:
    pass
with open("/dev/zero", "rb", buffering=0) as zero, open("/dev/null", "wb", buffering=0) as null:
    null.write(zero.read({moved}))
{more}
print("ready", flush=True)
sys.stdin.read()
"""
CHILD = """
import time
end = time.process_time() + 1.0
while time.process_time() < end:
    pass
"""


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def start(request):
    def start(mib=0, seconds=0.0, moved=0, more=""):
        text = BUSY.format(mib=mib, seconds=seconds, moved=moved, more=more)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", text], **pipes)
        request.addfinalizer(process.stdout.close)
        request.addfinalizer(process.wait)
        request.addfinalizer(process.stdin.close)
        request.addfinalizer(process.kill)
        return process

    return start


def test_all_that_a_program_uses(start):
    clock = Clock()
    process = start(mib=200, seconds=0.5, moved=30 * MIB)
    other = start()
    assert process.stdout.readline() == other.stdout.readline() == "ready\n"
    meter = UsageMeter(lambda: (process.pid, other.pid, 2**22), 4, 8 << 30, clock)
    clock.now += 2.0
    used = meter.look()
    assert (used.vcores, used.memory_limit, used.seconds) == (4, 8 << 30, 2.0)
    assert 0.25 <= used.cpu == used.cpu_mean <= 1.0  # of 2 s
    assert 200 * MIB <= used.memory == used.memory_peak <= 260 * MIB
    assert used.read >= 30 * MIB
    assert used.written >= 30 * MIB
    clock.now += 2.0
    later = meter.look()  # it does nothing more
    assert later.cpu <= 0.05
    assert used.cpu / 2 <= later.cpu_mean <= used.cpu
    process.kill()
    process.wait()
    clock.now += 2.0
    last = meter.look()
    assert last.memory < 60 * MIB
    assert last.memory_peak == used.memory_peak
    assert (last.read, last.cpu) >= (later.read, 0.0)


def test_the_time_of_a_child_that_has_ended_counts_once(start):
    clock = Clock()
    child = f"subprocess.run([sys.executable, '-c', {CHILD!r}])"
    process = start(more=child)

    def pids():
        return [found.pid for found in processes.tree(process.pid)]

    meter = UsageMeter(pids, 1, 0, clock)
    clock.now += 1.0
    wait(lambda: len(pids()) == 2, "no child", 60)
    meter.look()
    assert process.stdout.readline() == "ready\n"
    clock.now += 9.0
    used = meter.look()
    assert 0.1 <= used.cpu_mean <= 0.16  # 1 s of 10, and the starts of two Pythons


def test_what_has_ended_uses_nothing():
    with subprocess.Popen(["true"]) as process:
        wait(lambda: processes.stat(process.pid).dead, "it runs", 60)
        assert processes.used(process.pid) is None  # a zombie
    assert processes.used(process.pid) is None
    assert UsageMeter(lambda: (process.pid,), 1, 0).look() is None
    assert UsageMeter(tuple, 1, 0).look() is None


def test_bytes_of_a_process_that_nobody_may_look_at(monkeypatch):
    found = processes.used(os.getpid())
    assert found.read > 0
    real = open

    def refusing(path, *args, **options):
        if str(path).endswith("/io"):
            raise PermissionError(13, "no")
        return real(path, *args, **options)

    monkeypatch.setattr("builtins.open", refusing)
    again = processes.used(os.getpid())
    assert (again.read, again.written) == (0, 0)
    assert again.memory > 0
