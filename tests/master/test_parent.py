"""Masters that die at any moment: the next one goes on with their containers."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest
import skein

from tests import programs
from tests.engines.applications import (
    DEADLINE,
    FOREVER,
    await_containers,
    compiled,
    ended,
    environ,
    eventually,
    local_engine,
    processes_under,
    run_folder,
    service,
    stock_client,
    wait_for_containers,
)
from tfapp.engines.machine.gpus import take_free
from tfapp.engines.machine.state import read_state
from tfapp.processes import is_alive, send, wait_for_exit

pytestmark = pytest.mark.slow


def outliving(attempts=3, **services):
    found = compiled(**services)
    return dataclasses.replace(found, job=dataclasses.replace(found.job, attempts=attempts))


def state(engine):
    return read_state(run_folder(engine))


def kill(engine, number=signal.SIGKILL):
    """Sends the signal to the master and waits for the next one."""
    before = state(engine).process
    os.kill(before.pid, number)
    eventually(lambda: state(engine).process != before, "another master")
    return before


def processes(tmp_path):
    return sorted({p.pid for p in processes_under(tmp_path / "home")})


def started(tmp_path, count):
    """The processes of containers, once there are so many: one that is RUNNING has its place, and
    may not have begun."""
    eventually(lambda: len(processes(tmp_path)) == count, f"{count} processes")
    return processes(tmp_path)


def lines(engine, name="w_0"):
    log = run_folder(engine).logs / name / f"{name[0]}.log"
    return log.read_text().split() if log.exists() else []


def test_containers_go_on(engine, tmp_path):
    engine.create("app", outliving(master=FOREVER, w=service("echo up; " + FOREVER, instances=2)))
    with stock_client(engine) as client:
        wait_for_containers(client, 2, "RUNNING")
        client.kv["kept"] = b"\xff\0"
        before = list(map(str, client.get_containers()))
    running, served = started(tmp_path, 3), state(engine)
    lost = kill(engine)
    assert not is_alive(lost)
    with stock_client(engine) as client:
        assert client.kv["kept"] == b"\xff\0"
        assert list(map(str, client.get_containers())) == before
        assert client.scale("w", 3)[0].id == "w_2", "it goes on counting"
        client.kill_container("w_0")
        wait_for_containers(client, 1, "KILLED")
        wait_for_containers(client, 2, "RUNNING")
    assert state(engine).address == served.address
    eventually(lambda: set(running) - set(processes(tmp_path)), "the end of w_0")
    assert lines(engine, "w_1") == ["up"], "nothing has begun twice"
    engine.stop("app", "enough", force=True)
    assert processes(tmp_path) == []


def test_gpus_stay_with_their_containers(tmp_path):
    """Also while there is no master, and the next one knows which are free."""
    resources = skein.Resources(memory=32, vcores=1, gpus=1)
    says = service("echo $CUDA_VISIBLE_DEVICES; " + FOREVER, instances=2, resources=resources)
    with local_engine(tmp_path / "home", environ=environ(CUDA_VISIBLE_DEVICES="7,8")) as engine:
        engine.create("app", outliving(master=FOREVER, w=says))
        eventually(lambda: lines(engine) and lines(engine, "w_1"), "their words")
        os.kill(state(engine).process.pid, signal.SIGSTOP)
        kill(engine)
        with contextlib.ExitStack() as held:
            assert take_free(tmp_path / "home" / "gpus", ("7", "8"), 2, held) == {}
        with stock_client(engine) as client:
            client.scale("w", 3)
            client.kill_container("w_0")
        eventually(lambda: lines(engine, "w_2"), "the GPU of w_0")
        assert lines(engine, "w_2") == lines(engine, "w_0") != lines(engine, "w_1")
    with contextlib.ExitStack() as held:
        free = eventually(lambda: take_free(tmp_path / "home" / "gpus", ("7", "8"), 2, held))
        assert set(free) == {"7", "8"}


def test_an_end_that_no_master_has_seen(engine, tmp_path):
    """The parent knows it, and how."""
    go_on = tmp_path / "go on"
    script = f"while [ ! -e '{go_on}' ]; do sleep 0.01; done; exit"
    failing = service(f"{script} 9", instances=2, allow_failures=True)
    engine.create("app", outliving(master=FOREVER, u=service(f"{script} 0"), w=failing))
    await_containers(engine, 3, "RUNNING")
    pid = state(engine).process.pid
    os.kill(pid, signal.SIGSTOP)
    go_on.write_text("")
    eventually(lambda: len(processes(tmp_path)) == 1, "the end of all but the master script")
    kill(engine)
    with stock_client(engine) as client:
        wait_for_containers(client, 1, "SUCCEEDED")
        wait_for_containers(client, 2, "FAILED")


def test_a_master_script_that_ends_without_a_master(engine, tmp_path):
    go_on = tmp_path / "go on"
    script = f"while [ ! -e '{go_on}' ]; do sleep 0.01; done"
    engine.create("app", outliving(master=script, w=service()))
    await_containers(engine, 1, "RUNNING")
    os.kill(state(engine).process.pid, signal.SIGSTOP)
    go_on.write_text("")
    eventually(lambda: len(processes(tmp_path)) == 1, "its end")
    kill(engine)
    assert ended(engine).status.state == "SUCCEEDED"
    assert processes(tmp_path) == []


def test_one_that_hangs_is_replaced_and_never_acts_again(engine, tmp_path):
    engine.create("app", outliving(master=FOREVER, w=service()))
    await_containers(engine, 1, "RUNNING")
    running = started(tmp_path, 2)
    lost = kill(engine, signal.SIGSTOP)
    send(lost, signal.SIGCONT)
    assert not is_alive(lost)
    assert processes(tmp_path) == running


def test_while_it_ends(engine, tmp_path):
    """What was decided stays: the next master ends what the last one has left."""
    engine.create("app", outliving(master=FOREVER, w=service("trap '' TERM; sleep 1000000 & wait")))
    with stock_client(engine) as client:
        wait_for_containers(client, 1, "RUNNING")
        client.shutdown("KILLED", "enough")
    send(state(engine).process, signal.SIGKILL)
    found = ended(engine)
    assert found.status.verdict.summary == "enough"
    assert processes(tmp_path) == []


def test_deaths_while_it_starts_containers(engine, tmp_path):
    """Each is started, and started once, wherever the master was."""
    many = 12
    engine.create("app", outliving(50, master=FOREVER, w=service("echo up; " + FOREVER)))
    for moment in (0.0, 0.005, 0.02):
        with stock_client(engine) as client:
            client.scale("w", delta=(many - 1) // 3 + 1)
        time.sleep(moment)
        kill(engine)
    count = 1 + 3 * ((many - 1) // 3 + 1)
    await_containers(engine, count, "RUNNING")
    eventually(lambda: all(lines(engine, f"w_{i}") for i in range(count)), "all are up")
    assert [lines(engine, f"w_{i}") for i in range(count)] == [["up"]] * count
    assert len(processes(tmp_path)) == count + 1


def test_the_last_one(engine, tmp_path):
    engine.create("app", outliving(2, master=FOREVER, w=service()))
    kill(engine)
    os.kill(state(engine).process.pid, signal.SIGKILL)
    summary = ended(engine).status.verdict.summary
    assert summary.endswith("It had 2 masters, and gets no more: site.global.master.attempts.")
    assert processes(tmp_path) == []


# All are killed, but for the last one. The third one lasts.
MASTERS = """
import os, signal, sys, time
from tfapp.master import parent

def serve(turn):
    print(turn.attempt, turn.lost, flush=True)
    if turn.attempt == 6:
        return 0
    if turn.attempt == 3:
        time.sleep(parent.AGAIN)
    os.kill(os.getpid(), signal.SIGKILL)

parent.AGAIN = 1.0
sys.exit(parent.Parent().keep(serve))
"""


def test_losses_before_a_master_that_lasts_count_no_more():
    done = subprocess.run([sys.executable, "-c", MASTERS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["1 0", "2 1", "3 2", "4 1", "5 2", "6 3"]


def test_without_its_parent_all_end(engine, tmp_path):
    engine.create("app", outliving(master=FOREVER, w=service("setsid sleep 1000000 & " + FOREVER)))
    await_containers(engine, 1, "RUNNING")
    master = state(engine)
    os.kill(master.parent.pid, signal.SIGKILL)
    assert wait_for_exit(master.process, DEADLINE)
    summary = ended(engine).status.verdict.summary
    assert summary == "The parent of the application's master was lost, and with it all containers."
    assert processes(tmp_path) == []


def test_a_journal_that_cannot_be_read(engine, tmp_path):
    """Then the next master begins anew, as one whose containers are gone."""
    engine.create("app", outliving(master=FOREVER, w=service()))
    await_containers(engine, 1, "RUNNING")
    running = started(tmp_path, 2)
    os.kill(state(engine).process.pid, signal.SIGSTOP)
    run_folder(engine).journal.write_bytes(b"damage\n" * 3)
    kill(engine)
    await_containers(engine, 1, "RUNNING")
    assert not set(running) & set(processes(tmp_path))


# Says what is no message, and goes on saying it.
BABBLER = """
import os, socket, sys, time
from tfapp.master.parent import Parent
words = {"none": b"what?\\n", "list": b"[]\\n", "order": b'{"start": 1}\\n'}
words["long"] = b"x" * (9 << 20)
parent = Parent()
line, end = socket.socketpair()
child = os.fork()
if not child:
    line.close()
    end.sendall(words[sys.argv[1]])
    time.sleep(1000000)
end.close()
print(parent.look_after(child, line, 1000.0), len(parent.children))
"""


@pytest.mark.parametrize("words", ["none", "list", "order", "long"])
def test_no_words_of_a_master_harm_its_parent(words):
    """One that says what is no message is ended."""
    done = programs.python("-c", BABBLER, words, limit=DEADLINE)
    assert (done.stdout, done.stderr) == (f"{-signal.SIGKILL} 0\n", "")
