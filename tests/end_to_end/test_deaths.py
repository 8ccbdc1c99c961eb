"""Whoever is killed in the middle: the rest ends, the verdict says why, nothing is left."""

import functools
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters.yarn.programs import SAVES_FOR
from tests.end_to_end.command_line import (
    LIMIT,
    PLAIN_PACKAGE,
    CommandLine,
    known_of,
    read_until,
)
from tests.masters import ATTEMPTS, OPTION, keep_away
from tests.page.served import document, served
from tests.waiting import wait
from tfapp.coordinator.main import CUT_SHORT
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state
from tfapp.processes import identify

pytestmark = pytest.mark.slow

PATIENT = """
import signal, tempfile
kept = tempfile.NamedTemporaryFile()
print('at work', flush=True)
while True:
    signal.pause()
"""

UNTIL_TOLD = """
import os, time
while not os.path.exists({told!r}):
    time.sleep(0.05)
"""
SLOW_TO_END = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(5), sys.exit(0)))
while True:
    signal.pause()
"""
COORDINATOR = "tfapp-runtime\0coordinator"
FOLLOWED = "the coordinator was lost, another one goes on"
AFTER = 5.0  # seconds until silence would have been counted
BACK = "the application's master was lost and is back; the programs went on"


@pytest.fixture
def running(tfapp):
    """Two workers that are at work."""
    tfapp.program(PATIENT)
    flags = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--detach", "--wait", LIMIT)
    tfapp.ok("create", "app", *flags)
    for worker in ("worker/0", "worker/1"):
        process = tfapp.start("logs", "app", worker, "-f")
        read_until(process, process.stdout, "at work")
        process.kill()
        process.communicate(timeout=LIMIT)
    return tfapp


def following(tfapp: CommandLine, *words: object):
    """`create`, up to the first words of its program."""
    process = tfapp.start("create", "app", "--appdef", PLAIN_PACKAGE, *words)
    read_until(process, process.stdout, "at work")
    return process


def temporary_folder(running, worker: str) -> Path:
    """The path of its program's temporary file."""
    environ = Path(f"/proc/{running.process('app', worker, 'program.py')}/environ").read_text()
    folder = Path(dict(line.split("=", 1) for line in environ.split("\0") if line)["TMPDIR"])
    assert len(list(folder.iterdir())) == 1
    return folder


def test_a_program(running):
    folders = [temporary_folder(running, worker) for worker in ("worker/0", "worker/1")]
    os.kill(running.process("app", "worker/1", "program.py"), signal.SIGKILL)
    ended = running("wait", "app")
    assert (ended.code, running.living()) == (65, [])
    assert [folder.exists() for folder in folders] == [False, False]
    status = running.status("app")["status"]
    summary = status["verdict"]["summary"]
    assert summary.startswith(
        "Failed: worker/1 on 127.0.0.1 was killed by SIGKILL (9) in generation 1, "
    )
    assert ended.err.splitlines()[-1] == f"app: {summary}"
    assert status["verdict"]["cause"]["instance"] == "worker/1"
    assert [i["state"] for i in status["instances"]] == ["KILLED", "FAILED"]
    assert "\nat work\n" in running.asks("logs", "app", "worker/1")


def test_a_runner(running):
    """Its program dies with it; nobody is left who could report that."""
    os.kill(running.process("app", "worker/0", "tfapp-runtime\0runner"), signal.SIGKILL)
    assert running("wait", "app").code == 65
    assert running.living() == []
    verdict = running.status("app")["status"]["verdict"]
    assert verdict["cause"]["instance"] == "worker/0"
    assert verdict["summary"] == (
        "Failed: worker/0 on 127.0.0.1 was lost in generation 1: its container ended without a "
        "report: Container failed during execution, see logs for more information."
    )


def kill_coordinator(running, number: int = signal.SIGKILL) -> None:
    """`number`: or another signal. Returns once another one goes on."""
    log, pid = coordinator_log(running), running.process("app", "", COORDINATOR)
    before = log.read_text().count(FOLLOWED)
    os.kill(pid, number)
    wait(
        lambda: log.read_text().count(FOLLOWED) > before,
        lambda: running.asks("diagnostics", "app"),
        LIMIT,
    )


def coordinator_log(running) -> Path:
    return Home(running.home).app("app").run(1).driver_log


def runs_in(running, generation: int, count: int):
    found = running.status("app")["status"]
    states = [i["state"] for i in found["instances"]]
    return found if (found["generation"], states) == (generation, ["RUNNING"] * count) else None


def test_a_coordinator_while_its_programs_train_join_and_stop(tfapp):
    """Another one goes on: the programs notice nothing, and nothing is charged."""
    tfapp.program(UNTIL_TOLD.format(told=str(tfapp.work / "told")))
    flags = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--detach", "--wait", LIMIT)
    tfapp.ok("create", "app", *flags)
    why = lambda: tfapp.asks("diagnostics", "app")  # noqa: E731
    wait(lambda: runs_in(tfapp, 1, 2), why, LIMIT)
    workers = [tfapp.process("app", f"worker/{n}", "program.py") for n in (0, 1)]
    kill_coordinator(tfapp)
    found = wait(lambda: runs_in(tfapp, 1, 2), why, LIMIT)
    assert [tfapp.process("app", f"worker/{n}", "program.py") for n in (0, 1)] == workers
    flexing = tfapp.start("flex", "app", "--component", "worker", "+1")
    wait(lambda: "worker goes from 2 to 3" in tfapp.asks("diagnostics", "app"), why, LIMIT)
    kill_coordinator(tfapp, signal.SIGSTOP)  # as one that hangs
    flexing.communicate(timeout=LIMIT)
    assert flexing.returncode == 0
    found = wait(lambda: runs_in(tfapp, 2, 3), why, LIMIT)
    (tfapp.work / "told").touch()
    assert tfapp("wait", "app").code == 0
    assert tfapp.living() == []
    found = tfapp.status("app")["status"]
    assert (found["state"], found["restarts"], found["losses"]) == ("SUCCEEDED", 0, 0)
    told = [m["text"] for m in found["timeline"] if m["kind"] == "taken-over"]
    assert told == ["the coordinator was lost, another one goes on"] * 2


def test_a_coordinator_while_its_programs_are_stopped(tfapp):
    """The next one finds what was asked for, and tells the verdict."""
    tfapp.program(SLOW_TO_END)
    flags = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--detach", "--wait", LIMIT)
    tfapp.ok("create", "app", *flags)
    why = lambda: tfapp.asks("diagnostics", "app")  # noqa: E731
    wait(lambda: runs_in(tfapp, 1, 2), why, LIMIT)
    stopping = tfapp.start("stop", "app")
    wait(lambda: tfapp.status("app")["status"]["state"] == "STOPPING", why, LIMIT)
    kill_coordinator(tfapp)
    stopping.communicate(timeout=LIMIT)
    found = tfapp.status("app")["status"]
    assert (found["state"], found["generation"], tfapp.living()) == ("KILLED", 1, [])
    assert sum(m["kind"] == "ends" for m in found["timeline"]) == 1


def test_a_coordinator_that_tells_its_verdict(tfapp):
    """The next one ends the application, and tells nobody twice."""
    calls = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            calls.append(self.path)
            os.kill(tfapp.process("app", "", COORDINATOR), signal.SIGKILL)

    tfapp.program("")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/told"
        flags = ("--appdef", PLAIN_PACKAGE, "--files", "program.py", "--detach", "--wait", LIMIT)
        tfapp.ok("create", "app", *flags, "--option", "site.global.on.end", url)
        assert tfapp("wait", "app").code == 0
        server.shutdown()
    assert (calls, tfapp.living()) == (["/told"], [])
    found = tfapp.status("app")["status"]
    assert (found["state"], found["generation"], found["losses"]) == ("SUCCEEDED", 1, 0)
    told = [m["text"] for m in found["timeline"] if m["kind"] == "after-end"]
    assert told == [CUT_SHORT]


def test_coordinators_that_are_lost_too_often(running):
    """Then their master is taken for lost too, and the next one begins another generation."""
    why = lambda: running.asks("diagnostics", "app")  # noqa: E731
    for _ in range(2):
        kill_coordinator(running)
    os.kill(running.process("app", "", COORDINATOR), signal.SIGKILL)
    found = wait(lambda: runs_in(running, 2, 2), why, LIMIT)
    assert (found["losses"], found["restarts"]) == (1, 0)
    told = [m["text"] for m in found["timeline"] if m["kind"] == "failure"]
    assert told == ["the application's master was lost and is back"]
    running.ok("stop", "app")


def master(running) -> int:
    return read_state(Home(running.home).app("app").run(1)).process.pid


def told(running) -> tuple[int, int, int, list[str]]:
    found = running.status("app")["status"]
    states = [i["state"] for i in found["instances"]]
    return found["generation"], found["losses"], found["restarts"], states


def failures(running) -> list[str]:
    moments = running.status("app")["status"]["timeline"]
    return [m["text"] for m in moments if m["kind"] == "failure"]


def in_containers(running) -> list[int]:
    """The living processes of its containers; a short-lived helper is none of them."""
    found = [pid for pid in running.living() if b"CONTAINER_ID=" in known_of(pid)[0]]
    words = (b"program.py", b"tfapp-runtime\0")
    return [pid for pid in found if any(word in known_of(pid)[1] for word in words)]


def test_a_master(running):
    """The next one goes on with the same processes, and whoever follows sees it. After the last
    one is the end."""
    folder = Home(running.home).app("app").run(1)
    waiting = running.start("wait", "app")
    logs = running.start("logs", "app", "worker/0", "-f")
    before, living = told(running), in_containers(running)
    masters, said = [read_state(folder)], []
    for _ in range(2):
        os.kill(masters[-1].process.pid, signal.SIGKILL)
        assert told(running) == before
        wait(lambda: read_state(folder) != masters[-1], "another master", LIMIT)
        masters.append(read_state(folder))
        said.append(BACK)
        wait(lambda: failures(running) == said, lambda: running.asks("diagnostics", "app"), LIMIT)
        assert in_containers(running) == living
    assert len({(m.address, m.parent) for m in masters}) == 1
    assert [m.attempt for m in masters] == [1, 2, 3]
    running.ok("stacks", "app")  # the programs hear it
    os.kill(masters[-1].process.pid, signal.SIGKILL)
    _, err = waiting.communicate(timeout=LIMIT)
    logs.communicate(timeout=LIMIT)
    assert (waiting.returncode, running.living()) == (65, [])
    assert err.splitlines()[-1].endswith(
        "The application master was lost: its process has ended without a verdict. All processes "
        "of the application have been ended. It had 3 masters, and gets no more: "
        "site.global.master.attempts."
    )
    assert (logs.returncode, folder.journal.exists()) == (0, False)
    running.ok("start", "app", "--detach", "--wait", LIMIT)
    assert running.status("app")["run"] == 2
    running.ok("stop", "app")


COUNTS = """
import itertools, os, time
for number in itertools.count():
    print('at work', number, flush=True)
    if os.path.exists({told!r}):
        break
    time.sleep(0.02)
"""
PYTHON_CALL = """
import threading
import tfapp
app, seen = tfapp.open('app', engine='local'), []
waits = threading.Thread(target=lambda: seen.append(app.wait()))
waits.start()
followed = app.follow()
waits.join()
assert seen == [followed]
"""


class Following:
    """A process that follows an application, and what it has written."""

    def __init__(self, folder: Path, name: str, start: Callable[..., subprocess.Popen]):
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = start(stdout=out, stderr=err)

    def shows(self, text: str) -> None:
        """Waits for this output."""
        wait(lambda: text in self.out.read_text(), self.err.read_text, LIMIT)

    def tells(self, text: str) -> None:
        wait(lambda: text in self.err.read_text(), self.err.read_text, LIMIT)

    def ended(self) -> None:
        """Well, having told once that the master is back."""
        assert self.process.wait(LIMIT) == 0, self.err.read_text()
        said = self.err.read_text()
        assert said.splitlines().count(f"app: {BACK}") == 1, said

    def counted(self) -> None:
        """Its output has every line of the program once, in order."""
        lines = [line for line in self.out.read_text().splitlines() if line.startswith("at work")]
        assert lines == [f"at work {number}" for number in range(len(lines))]


@pytest.fixture
def begin(tfapp):
    """Begins to follow, by a command of tfapp unless `start` is given."""
    begun = []

    def begin(name: str, *words: object, start: Callable[..., subprocess.Popen] = tfapp.start):
        begun.append(Following(tfapp.work, name, functools.partial(start, *words)))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.wait()


def test_whoever_follows_sees_that_a_master_was_lost_and_is_back(tfapp, begin):
    """And misses no line of a program, and sees none twice."""
    done = tfapp.work / "done"
    tfapp.program(COUNTS.format(told=str(done)))
    creates = begin("create", "create", "app", "--appdef", PLAIN_PACKAGE, "--files", "program.py")
    creates.shows("at work 5")
    waits = begin("wait", "wait", "app")
    logs = begin("logs", "logs", "app", "worker/0", "-f")
    logs.shows("at work 5")
    environ = {**os.environ, "TFAPP_HOME": str(tfapp.home)}
    call = functools.partial(subprocess.Popen, env=environ)
    calls = begin("call", (sys.executable, "-c", PYTHON_CALL), start=call)
    calls.shows("at work 5")
    everybody = creates, waits, logs, calls
    with served(tfapp, "app") as address:
        assert BACK not in json.dumps(document(address))
        os.kill(master(tfapp), signal.SIGKILL)
        wait(lambda: BACK in json.dumps(document(address)), "the page", LIMIT)
        assert document(address)["words"].startswith("Generation 1 runs. 2 instances: 2 running.")
        for one in everybody:
            one.tells(f"app: {BACK}")
        assert re.search(f"^last failure +{BACK}$", tfapp.asks("status", "app"), re.M)
        done.touch()
        for one in everybody:
            one.ended()
    for one in (creates, logs, calls):
        one.counted()
    assert (told(tfapp)[:3], tfapp.living()) == ((1, 0, 0), [])


def test_the_command_line(tfapp):
    tfapp.program(PATIENT)
    process = following(tfapp, "--files", "program.py")
    process.kill()
    process.communicate(timeout=LIMIT)
    assert tfapp.status("app")["live"]
    tfapp.ok("stop", "app")
    status = tfapp.status("app")
    assert (status["run"], status["status"]["state"]) == (1, "KILLED")


DEAF = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()  # a daemon, as some programs leave behind
print('at work', flush=True)
while True:
    time.sleep(60)
"""


def test_ctrl_c_twice_for_a_program_that_ignores_everything(tfapp):
    tfapp.program(DEAF)
    process = following(tfapp, "--files", "program.py", "--option", "site.global.stop.grace", 600)
    process.send_signal(signal.SIGINT)
    read_until(process, process.stderr, "stopping app (Ctrl-C once more: at once)")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err.splitlines()[-1]) == (130, "app: stopped by Ctrl-C")
    assert tfapp.living() == []
    assert tfapp.status("app")["status"]["state"] == "KILLED"


def test_a_master_while_programs_form_and_while_they_stop(tfapp):
    tfapp.program(DEAF)
    folder = Home(tfapp.home).app("app").run(1)
    flags = ("--files", "program.py", "--option", "site.global.stop.grace", 4, "--detach")
    tfapp.ok("create", "app", "--appdef", PLAIN_PACKAGE, *flags)
    os.kill(read_state(folder).process.pid, signal.SIGKILL)
    runs = (1, 0, 0, ["RUNNING"] * 2)
    wait(lambda: told(tfapp) == runs, lambda: tfapp.asks("diagnostics", "app"), LIMIT)
    stopping = tfapp.start("stop", "app", "--message", "enough")
    wait(lambda: tfapp.status("app")["status"]["state"] == "STOPPING", "a stop", LIMIT)
    os.kill(read_state(folder).process.pid, signal.SIGKILL)
    stopping.communicate(timeout=LIMIT)
    status = tfapp.status("app")["status"]
    assert (stopping.returncode, status["verdict"]["summary"]) == (0, "Killed: enough.")
    assert (tfapp.living(), read_state(folder).attempt) == ([], 3)


def test_the_grace_ends_for_a_program_that_ignores_everything(tfapp):
    tfapp.program(DEAF)
    flags = ("--files", "program.py", "--option", "site.global.stop.grace", 1)
    process = following(tfapp, *flags)
    process.kill()
    process.communicate(timeout=LIMIT)
    tfapp.ok("stop", "app", "--message", "enough")
    assert tfapp.living() == []
    assert tfapp.status("app")["status"]["verdict"]["summary"] == "Killed: enough."


LEAVES_A_DAEMON = """
import os, signal, time
if os.fork():
    print('trained')
else:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


def test_a_daemon_that_an_ended_program_leaves_behind(tfapp):
    tfapp.program(LEAVES_A_DAEMON)
    tfapp.ok("create", "app", "--appdef", PLAIN_PACKAGE, "--files", "program.py")
    assert tfapp.living() == []


@pytest.fixture
def trains(tfapp, request):
    """Two workers that go on in the next generation. The parameter: more options."""
    tfapp.program(SAVES_FOR.format(seconds=3))
    more = (*getattr(request, "param", ()), "--detach", "--wait", LIMIT)
    tfapp.ok("run", "program.py", "-w", 2, "--name", "app", *more)
    wait(lambda: runs_in(tfapp, 1, 2), lambda: tfapp.asks("diagnostics", "app"), LIMIT)
    yield tfapp
    if "app" in tfapp.names():
        tfapp.ok("destroy", "app", "--force")


def test_a_master_that_hangs(trains):
    """Its parent kills it, and the next one goes on with the same processes."""
    living, hung = in_containers(trains), master(trains)
    os.kill(hung, signal.SIGSTOP)
    wait(lambda: master(trains) != hung, "another master", LIMIT)
    wait(lambda: failures(trains) == [BACK], lambda: trains.asks("diagnostics", "app"), LIMIT)
    assert (in_containers(trains), told(trains)[:3]) == (living, (1, 0, 0))
    assert identify(hung) is None


@pytest.mark.parametrize("trains", [("--option", OPTION, ATTEMPTS)], indirect=True)
def test_masters_that_are_away_for_longer_than_a_runner_that_is_cut_off_lives(trains):
    """Their parent says that they are lost, and that no runner is cut off."""
    living = in_containers(trains)
    keep_away(Home(trains.home).app("app").run(1))
    wait(lambda: failures(trains) == [BACK], lambda: trains.asks("diagnostics", "app"), LIMIT)
    assert (in_containers(trains), told(trains)[:3]) == (living, (1, 0, 0))
    time.sleep(AFTER)  # else the loss of a runner might not be known yet
    assert (in_containers(trains), told(trains)[:3]) == (living, (1, 0, 0))


def test_a_master_and_a_worker(trains):
    """One charge, the worker's."""
    os.kill(trains.process("app", "worker/1", "tfapp-runtime\0runner"), signal.SIGKILL)
    os.kill(master(trains), signal.SIGKILL)
    wait(lambda: runs_in(trains, 2, 2), lambda: trains.asks("diagnostics", "app"), LIMIT)
    assert told(trains)[1:3] == (0, 1)
    assert BACK in failures(trains)


def test_a_master_while_an_instance_joins(trains):
    flexing = trains.start("flex", "app", "--component", "worker", "+1")
    said = "worker goes from 2 to 3"
    wait(lambda: said in trains.asks("diagnostics", "app"), "a flex", LIMIT)
    os.kill(master(trains), signal.SIGKILL)
    wait(lambda: runs_in(trains, 2, 3), lambda: trains.asks("diagnostics", "app"), LIMIT)
    flexing.communicate(timeout=LIMIT)
    assert (flexing.returncode, told(trains)[1:3]) == (0, (0, 0))


HAS_FILES = """
import os, time
assert os.path.getsize("large") == 200 << 20
assert len(os.listdir("small")) == 3000
print("at work", flush=True)
time.sleep(600)
"""


@pytest.mark.weekly
def test_a_master_while_files_are_unpacked(tfapp):
    """The next one gives all of them to these containers, and to one that joins."""
    small, run = tfapp.work / "small", Home(tfapp.home).app("app").run(1)
    small.mkdir()
    for number in range(3000):
        (small / str(number)).write_text(str(number))
    (tfapp.work / "large").write_bytes(os.urandom(200 << 20))
    program = tfapp.program(HAS_FILES)
    files = ("--files", tfapp.work / "large", "--files", small)
    creating = tfapp.start("run", program, "--name", "app", "-w", 2, *files, "--detach")
    wait(lambda: [*run.localized.glob(".new.*")], "an archive", LIMIT, every=0.005)
    os.kill(master(tfapp), signal.SIGKILL)
    _, problems = creating.communicate(timeout=LIMIT)
    assert creating.returncode == 0, problems
    why = lambda: tfapp.asks("diagnostics", "app")  # noqa: E731
    wait(lambda: runs_in(tfapp, 1, 2), why, LIMIT)
    assert failures(tfapp) == [BACK]
    tfapp.ok("flex", "app", "--component", "worker", "+1")
    wait(lambda: runs_in(tfapp, 2, 3), why, LIMIT)
    for worker in range(3):
        log = functools.partial(tfapp.asks, "logs", "app", f"worker/{worker}")
        wait(lambda log=log: "at work" in log(), why, LIMIT)
    assert told(tfapp)[1:3] == (0, 0)
    tfapp.ok("stop", "app")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_master_before_it_is_asked_to_stop(trains, number):
    """The next one hears it: programs have their grace."""
    os.kill(master(trains), number)
    trains.ok("stop", "app")
    logs = [trains.asks("logs", "app", f"worker/{n}") for n in (0, 1)]
    assert all("has saved" in log for log in logs), logs
    assert (trains.status("app")["status"]["state"], trains.living()) == ("KILLED", [])


def test_a_master_before_its_application_is_destroyed(trains):
    os.kill(master(trains), signal.SIGKILL)
    trains.ok("destroy", "app", "--force")
    assert (trains.names(), trains.living()) == ([], [])
