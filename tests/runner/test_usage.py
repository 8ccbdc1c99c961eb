"""What a program uses: measured of real processes, and of GPUs by a played library."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from tests.waiting import wait
from tfapp import processes
from tfapp.runner.cgroup import Used
from tfapp.runner.gpu_usage import GpuMeter
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
    meter = UsageMeter(lambda: (process.pid, other.pid, 2**22), 4, 8 << 30, clock=clock)
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
    assert used.cpu / 2 - 0.01 <= later.cpu_mean <= used.cpu
    process.kill()
    process.wait()
    clock.now += 2.0
    last = meter.look()
    assert last.memory < 60 * MIB
    assert used.memory_peak <= last.memory_peak <= used.memory_peak + MIB  # a page to wait with
    assert (last.read, last.cpu) >= (later.read, 0.0)


def test_the_time_of_a_child_that_has_ended_counts_once(start):
    clock = Clock()
    child = f"subprocess.run([sys.executable, '-c', {CHILD!r}])"
    process = start(more=child)

    def pids():
        return [found.pid for found in processes.tree(process.pid)]

    meter = UsageMeter(pids, 1, 0, clock=clock)
    clock.now += 1.0
    wait(lambda: len(pids()) == 2, "no child", 60)
    meter.look()
    assert process.stdout.readline() == "ready\n"
    clock.now += 9.0
    used = meter.look()
    assert 0.1 <= used.cpu_mean <= 0.16  # 1 s of 10, and the starts of two Pythons


def test_the_bytes_of_a_child_that_has_ended_count_once(start):
    """The kernel adds them to those of its parent, which has waited for it."""
    child = (
        "import sys; zero = open('/dev/zero', 'rb', buffering=0)\n"
        f"open('/dev/null', 'wb', buffering=0).write(zero.read({40 * MIB}))\n"
        "print('moved', flush=True); sys.stdin.read(1)"
    )
    more = (
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE)\n"
        "sys.stdin.readline(); child.communicate()"
    )
    process = start(more=more)
    assert process.stdout.readline() == "moved\n"
    meter = UsageMeter(lambda: [one.pid for one in processes.tree(process.pid)], 1, 0)
    before = meter.look()
    assert 40 * MIB <= before.written <= before.read < 50 * MIB
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    after = meter.look()
    assert 40 * MIB <= after.written <= after.read < 50 * MIB


class PlayedGroup:
    """A control group that says what it is told to."""

    def __init__(self, seconds: float | None, memory: int | None):
        self.now = Used(seconds, memory)

    def used(self) -> Used:
        return self.now


def test_a_container_counts_what_processes_do_not(start):
    """Shared memory, and the time of processes that have come and gone between two looks."""
    clock, process = Clock(), start()
    assert process.stdout.readline() == "ready\n"
    groups: list[PlayedGroup | None] = [None]
    meter = UsageMeter(lambda: (process.pid,), 4, 0, clock=clock, group=lambda: groups[0])
    clock.now += 1.0
    assert meter.look().memory < 60 * MIB
    groups[0] = PlayedGroup(3.0, 900 * MIB)
    clock.now += 1.0
    used = meter.look()
    assert (used.memory, used.memory_peak) == (900 * MIB, 900 * MIB)
    assert used.cpu_mean == 1.5  # 3 s of 2
    groups[0].now = Used(7.0, 100 * MIB)
    clock.now += 2.0
    used = meter.look()
    assert (used.memory, used.memory_peak) == (100 * MIB, 900 * MIB)
    assert (used.cpu, used.cpu_mean) == (2.0, 1.75)
    groups[0].now = Used(None, None)  # nothing is told: its processes count
    clock.now += 1.0
    used = meter.look()
    assert (used.memory < 60 * MIB, used.cpu <= 0.05, used.cpu_mean) == (True, True, 1.4)


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


# ---- GPUs ---------------------------------------------------------------------------------------


class PlayedLibrary(types.ModuleType):
    """pynvml of a machine with GPUs, of which some do not tell how busy they are."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: dict[str, tuple[float | None, int]], driver: bool = True):
        super().__init__("pynvml")
        self.gpus, self.driver, self.lost = gpus, driver, set()

    def nvmlInit(self) -> None:
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.nvmlDeviceGetHandleByUUID([*self.gpus, *[""] * 99][index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.gpus:
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetMemoryInfo(self, gpu: str):
        if gpu in self.lost:
            raise self.NVMLError("GPU is lost")
        return types.SimpleNamespace(used=self.gpus[gpu][1], total=80 * MIB)

    def nvmlDeviceGetUtilizationRates(self, gpu: str):
        if self.gpus[gpu][0] is None:
            raise self.NVMLError("Not Supported")
        return types.SimpleNamespace(gpu=self.gpus[gpu][0], memory=1)


GPUS = {"GPU-a": (90, 10 * MIB), "GPU-b": (40, 20 * MIB), "MIG-c": (None, 5 * MIB)}


@pytest.mark.parametrize(
    ("given", "busy", "memory"),
    [
        ({}, 1.3, 35),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, 1.3, 35),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b", "NVIDIA_VISIBLE_DEVICES": "all"}, 0.4, 20),
        ({"CUDA_VISIBLE_DEVICES": "0, 1"}, 1.3, 30),
        ({"CUDA_VISIBLE_DEVICES": "1,7,GPU-x"}, 0.4, 20),
        ({"CUDA_VISIBLE_DEVICES": "MIG-c"}, None, 5),
    ],
)
def test_gpus_are_those_that_the_container_was_given(monkeypatch, given, busy, memory):
    monkeypatch.setitem(sys.modules, "pynvml", PlayedLibrary(GPUS))
    found = GpuMeter(given).look()
    assert found.busy == (None if busy is None else pytest.approx(busy))
    assert found.memory == memory * MIB
    assert found.memory_limit % (80 * MIB) == 0 < found.memory_limit


@pytest.mark.parametrize(
    "library", [None, PlayedLibrary(GPUS, driver=False), PlayedLibrary({})], ids=("no", "old", "0")
)
def test_without_a_library_a_driver_or_gpus_nothing_is_known(monkeypatch, library, capfd):
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert GpuMeter({"CUDA_VISIBLE_DEVICES": "GPU-a" if library is None else ""}).look() is None
    assert UsageMeter(lambda: (os.getpid(),), 1, 0, gpus=1).look().gpu_memory_limit == 0
    assert capfd.readouterr() == ("", "")


def test_gpus_of_a_program(monkeypatch):
    library = PlayedLibrary(dict(GPUS))
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    meter = UsageMeter(lambda: (os.getpid(),), 1, 0, gpus=2)
    meter.look()
    library.gpus["GPU-a"] = (10, 2 * MIB)
    used = meter.look()
    told = (used.gpu, used.gpu_mean, used.gpus, used.gpu_memory, used.gpu_memory_peak)
    assert told == (0.5, 0.9, 2, 22 * MIB, 30 * MIB)
    library.lost.add("GPU-a")
    assert meter.look().gpu_memory == 20 * MIB
    assert UsageMeter(lambda: (os.getpid(),), 1, 0).look().gpus == 0, "it has asked for none"
