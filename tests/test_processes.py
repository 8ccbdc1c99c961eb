import errno
import os
import signal
import subprocess
import sys

import pytest

from tests.runner.driving import eventually
from tfapp import processes
from tfapp.processes import (
    Process,
    children,
    descendants,
    environment,
    identify,
    is_alive,
    kill_all,
    send,
    session,
    wait_for_exit,
    with_environment,
)

DEADLINE = 120.0  # seconds


@pytest.fixture
def start():
    """Starts a process of one's own; it ends with the test."""
    started = []

    def start(*command, **kwargs):
        process = subprocess.Popen(command or ("sleep", "1000000"), **kwargs)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_process_is_its_number_and_its_start(start):
    process = identify(start().pid)
    assert is_alive(process)
    assert not is_alive(Process(process.pid, process.started + 1, process.boot))
    assert not is_alive(Process(process.pid, process.started, "another boot"))
    assert is_alive(Process(process.pid, process.started))


def test_the_dead_do_not_live(start):
    child = start()
    process = identify(child.pid)
    child.kill()
    assert wait_for_exit(process, DEADLINE)
    assert not is_alive(process)
    assert identify(child.pid) is None, "nobody has waited for it yet"
    child.wait()
    assert not is_alive(process)
    assert wait_for_exit(process, DEADLINE)
    assert environment(child.pid) == {}
    assert session(child.pid) == 0


@pytest.mark.parametrize("kernel", ["as it is", "before 5.3"])
def test_waiting_has_a_deadline(start, kernel, monkeypatch):
    if kernel == "before 5.3":
        monkeypatch.delattr(os, "pidfd_open")
    child = start()
    process = identify(child.pid)
    assert not wait_for_exit(process, 0.01)
    child.kill()
    assert wait_for_exit(process, DEADLINE)


def test_only_the_same_process_is_signalled(start):
    process = identify(start().pid)
    send(Process(process.pid, process.started + 1), signal.SIGKILL)
    assert not wait_for_exit(process, 0.05)
    send(process, signal.SIGKILL)
    assert wait_for_exit(process, DEADLINE)


def test_any_name_can_be_read(start, tmp_path):
    link = tmp_path / "a) R 1 (b"
    link.symlink_to(sys.executable)
    child = start(str(link), "-c", "import time; time.sleep(1000000)")
    assert is_alive(identify(child.pid))


def test_descendants(start):
    child = start("bash", "-c", "sleep 1000000 & bash -c 'sleep 1000000 & wait' & wait")
    eventually(lambda: len(descendants(child.pid)) == 3, "three processes")
    assert identify(child.pid).pid not in {p.pid for p in descendants(child.pid)}
    found = descendants(child.pid)
    assert kill_all(lambda: descendants(child.pid), DEADLINE) == []
    assert [p for p in found if is_alive(p)] == []


@pytest.mark.parametrize("kernel", ["as it is", "without CONFIG_PROC_CHILDREN"])
def test_children(start, kernel, monkeypatch):
    if kernel != "as it is":
        monkeypatch.setattr(processes, "_listed_children", lambda _: None)
    before = children(os.getpid())
    child = start("bash", "-c", "sleep 1000000 & wait")
    assert children(os.getpid()) - before == {child.pid}


def test_by_environment(start):
    child = start(env={"PATH": os.environ["PATH"], "MARK": "x=y"})
    eventually(lambda: environment(child.pid).get(b"MARK") == b"x=y", "its execution")
    found = with_environment(lambda env: env.get(b"MARK") == b"x=y")
    assert [p.pid for p in found] == [child.pid]


def test_killing_gives_up_at_its_deadline():
    immortal = Process(os.getpid(), 0)
    assert kill_all(lambda: [immortal], 0.01) == [immortal]


def test_one_look_that_finds_nothing_proves_nothing(start):
    """A process that forks and ends while /proc is read hides its child from that look."""
    child = start()
    hidden = identify(child.pid)
    looks = iter([[], [hidden], [], []])
    assert kill_all(lambda: next(looks), DEADLINE) == []
    assert not is_alive(hidden)


def test_what_is_left_behind_hides_from_one_look(start, monkeypatch):
    """Other tests' fixtures are descendants of this process too: only `child` is shown."""
    child = start(start_new_session=True)
    looks = iter([(), ()])  # what `reap` sees, then the first look
    monkeypatch.setattr(processes, "left_behind", lambda: next(looks, (processes.stat(child.pid),)))
    assert processes.kill_left_behind(DEADLINE, spare=child.pid) == ()
    assert not is_alive(Process(child.pid, processes.stat(child.pid).started))


def test_a_process_that_may_not_be_killed_is_told_and_not_waited_for(start, monkeypatch):
    """Such as a daemon that a program has started by sudo."""
    mine, theirs = start(start_new_session=True), start(start_new_session=True)
    kill = os.kill

    def refuse(pid, number):
        if pid == theirs.pid:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        kill(pid, number)

    def shown():
        return tuple(filter(None, map(processes.stat, (mine.pid, theirs.pid))))

    with monkeypatch.context() as patch:
        patch.setattr(processes, "left_behind", shown)
        patch.setattr(os, "kill", refuse)
        assert processes.kill_left_behind(float("inf")) == (theirs.pid,)
    assert [identify(process.pid) is None for process in (mine, theirs)] == [True, False]


def test_what_stands_apart_is_not_in_a_tree(start):
    """As sessions are none of their program."""
    apart, other = (start(start_new_session=True) for _ in range(2))

    def found(*without):
        tree = processes.tree(os.getpid(), without)
        return {process.pid for process in tree} & {apart.pid, other.pid}

    assert found() == {apart.pid, other.pid}
    assert found(apart.pid) == {other.pid}
