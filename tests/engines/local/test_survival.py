"""Deaths at the wrong moment, and what is left of them: nothing but an honest verdict."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import skein

import tests
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
from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.names import KEY_STATUS
from tfapp.contract.status import Cause
from tfapp.disk import write_json
from tfapp.engines.client import no_answer
from tfapp.engines.local.engine import LocalEngine
from tfapp.engines.machine.state import read_state, read_status
from tfapp.errors import UnavailableError, UnreachableError
from tfapp.processes import is_alive, send, wait_for_exit

# Processes that leave their parents, their session, and forget what they were told.
ESCAPE = """
import os, sys, time
def detach(clear):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            env = {"PATH": os.environ["PATH"]} if clear else os.environ
            os.execvpe("sleep", ["sleep", "1000000"], env)
        os._exit(0)
    os.wait()
    os.close(writing)
    os.read(reading, 1)  # ends when it is executed
detach(False)
detach(True)
print("escaped", flush=True)
time.sleep(float(sys.argv[1]))
"""

FULL_DISK = """
import sys
from tests.engines.applications import *
home = Path(sys.argv[1], "home")
stone = Path(sys.argv[1], "stone")
with local_engine(home) as engine:
    engine._home.prepare()
    try:
        with open(stone, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 1024)
    except OSError:
        pass
    try:
        engine.create("app", compiled(w=service("x" * 10000)))
    except Exception as error:
        print(error)
    print(os.listdir(home / "apps"))
    stone.unlink()
    print(engine.create("app", compiled(w=service("exit 0"))).status.state)
"""

# As a terminal would start it: whoever runs the tests may ignore the signals of one.
COMMAND = """
import signal, sys, time
from pathlib import Path
from tests.engines.applications import *
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.SIG_DFL)
engine = LocalEngine(Path(sys.argv[1]), environ=environ())
engine.create("app", compiled(master=FOREVER, w=service()))
print("created", flush=True)
time.sleep(1000000)
"""


def masters_under(home):
    """Processes that serve an application of `home`, or get ready to."""
    words = f"tfapp.engines.machine.daemon\0{LocalEngine.launcher}\0{home}/apps/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if words in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def master_of(engine):
    return read_state(run_folder(engine)).process


@pytest.fixture
def escape(tmp_path):
    """A command whose processes escape, then goes on for the seconds given."""
    script = tmp_path / "escape.py"
    script.write_text(ESCAPE)
    return lambda seconds: f"exec {sys.executable} {script} {seconds}"


@pytest.fixture
def command(tmp_path):
    """Starts another process that creates `app`, as a session of its own."""
    started = []

    def start(home, code=COMMAND, wait_for="created\n"):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(home)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(tests.__file__).parent.parent,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.readline() == wait_for
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def below(engine):
    """All processes of the application but its masters, with those that forgot their
    environment."""
    from tfapp.processes import descendants

    state = read_state(run_folder(engine))
    return [p for p in descendants(state.parent.pid) if p.pid != state.process.pid]


class TestProcessTrees:
    def test_an_ended_container_leaves_none_that_knows_it(self, engine, escape):
        engine.create("app", compiled(master=FOREVER, w=service(escape(0))))
        with stock_client(engine) as client:
            wait_for_containers(client, 1, "SUCCEEDED")
            # the master script, and the one that cannot be told apart from anything else
            assert len(below(engine)) == 2
            client.shutdown()
        ended(engine)

    def test_a_killed_container_leaves_none(self, engine, escape, tmp_path):
        engine.create("app", compiled(master=FOREVER, w=service(escape(1000000))))
        log = run_folder(engine).logs / "w_0" / "w.log"
        eventually(lambda: log.exists() and log.read_text())
        with stock_client(engine) as client:
            client.kill_container("w_0")
            eventually(lambda: len(below(engine)) == 2)

    @pytest.mark.parametrize("script", ["exit 0", FOREVER])
    def test_the_end_of_the_application_ends_all(self, engine, escape, script):
        engine.create("app", compiled(master=script, w=service(escape(1000000)), v=service()))
        master = master_of(engine)
        processes = below(engine)
        engine.stop("app", "enough", force=True)
        assert wait_for_exit(master, DEADLINE)  # one that has written its verdict ends by itself
        assert [p for p in processes if is_alive(p)] == []

    def test_those_that_ignore_sigterm(self, engine):
        engine.create("app", compiled(w=service("trap '' TERM; echo up; sleep 1000000 & wait")))
        log = run_folder(engine).logs / "w_0" / "w.log"
        eventually(lambda: log.exists() and log.read_text())
        processes = below(engine)
        engine.stop("app", "enough", force=True)
        assert [p for p in processes if is_alive(p)] == []


class TestMasterLost:
    LOST = Cause("", 0, "", "", Exit(None, None, "lost", "the application master was lost"))

    def test_killed(self, engine, tmp_path, escape):
        engine.create("app", compiled(master=FOREVER, w=service(escape(1000000))))
        log = run_folder(engine).logs / "w_0" / "w.log"
        eventually(lambda: log.exists() and log.read_text())
        os.kill(master_of(engine).pid, signal.SIGKILL)
        assert wait_for_exit(master_of(engine), DEADLINE)
        found = engine.find("app")
        assert (found.live, found.status.state) == (False, "FAILED")
        assert found.status.verdict.summary.startswith("The application master was lost")
        assert found.status.verdict.cause == self.LOST
        assert [i.state for i in found.status.instances] == ["LOST"]
        assert processes_under(tmp_path) == []
        run = run_folder(engine)
        assert not any(p.exists() for p in (run.containers, run.localized, run.security))
        assert engine.find("app") == found
        assert engine.start("app").run == 2

    def test_killed_while_somebody_follows(self, engine):
        engine.create("app", compiled(master=FOREVER, w=service()))
        following = engine.follow("app")
        next(following)
        os.kill(master_of(engine).pid, signal.SIGKILL)
        *_, last = following
        assert last.status.verdict.cause == self.LOST

    def test_containers_die_with_it(self, engine, tmp_path):
        engine.create("app", compiled(master=FOREVER, w=service(instances=2)))
        await_containers(engine, 2, "RUNNING")
        os.kill(master_of(engine).pid, signal.SIGKILL)
        eventually(lambda: processes_under(tmp_path) == [], "the containers' death")

    def test_terminated(self, engine, tmp_path):
        engine.create("app", compiled(master=FOREVER, w=service()))
        os.kill(master_of(engine).pid, signal.SIGTERM)
        verdict = ended(engine).status.verdict
        assert verdict.summary == "The application master was ended by a signal (SIGTERM)."
        assert processes_under(tmp_path) == []

    @pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
    def test_other_signals_do_nothing(self, engine, number):
        engine.create("app", compiled(master=FOREVER, w=service()))
        os.kill(master_of(engine).pid, number)
        await_containers(engine, 1, "RUNNING")

    def test_its_number_was_given_to_another_process(self, engine):
        engine.create("app", compiled(w=service()))
        run = run_folder(engine)
        state = read_state(run)
        os.kill(state.process.pid, signal.SIGKILL)
        assert wait_for_exit(state.process, DEADLINE)
        me = dataclasses.replace(state.process, pid=os.getpid())
        write_json(run.state, dataclasses.replace(state, process=me))
        assert not engine.find("app").live

    def test_the_machine_was_restarted(self, engine):
        engine.create("app", compiled(w=service()))
        run = run_folder(engine)
        state = read_state(run)
        before = dataclasses.replace(state.process, boot="another")
        write_json(run.state, dataclasses.replace(state, process=before, parent=None))
        assert not engine.find("app").live
        send(state.process, signal.SIGKILL)  # in truth it was not

    def test_it_runs_on_another_machine(self, engine):
        engine.create("app", compiled(w=service()))
        run = run_folder(engine)
        state = read_state(run)
        write_json(run.state, dataclasses.replace(state, host="elsewhere"))
        with pytest.raises(UnreachableError, match="app was started on elsewhere"):
            engine.find("app")
        (listed,) = engine.list()
        assert listed.live
        write_json(run.state, state)


class TestHangingMaster:
    @pytest.fixture
    def engine(self, engine, monkeypatch):
        engine.create("app", compiled(master=FOREVER, w=service()))
        await_containers(engine, 1, "RUNNING")
        os.kill(master_of(engine).pid, signal.SIGSTOP)
        monkeypatch.setattr("tfapp.engines.client.DEADLINES", (0.25, 0.5))
        yield engine
        if is_alive(master_of(engine)):
            os.kill(master_of(engine).pid, signal.SIGCONT)

    @pytest.mark.slow
    def test_is_not_waited_for(self, engine):
        with pytest.raises(UnreachableError):
            engine.find("app")
        (listed,) = engine.list()
        assert (listed.live, listed.status.state) == (True, "ACCEPTED")

    @pytest.mark.slow
    @pytest.mark.parametrize("force", [True, False])
    def test_is_killed_by_stop(self, engine, tmp_path, force):
        stopped = engine.stop("app", "enough", force=force)
        assert (stopped.live, stopped.status.state) == (False, "KILLED")
        assert stopped.status.verdict.exit_code == 66
        assert processes_under(tmp_path) == []


class TestNextMaster:
    @pytest.fixture
    def engine(self, engine):
        made = compiled(master=FOREVER, w=service())
        job = dataclasses.replace(made.job, attempts=3)
        engine.create("app", dataclasses.replace(made, job=job))
        await_containers(engine, 1, "RUNNING")
        return engine

    def test_is_found_where_it_begins_anew(self, engine):
        """By a command that had the credentials of the lost one already."""
        run, lost = run_folder(engine), master_of(engine)
        with engine.connect("app") as connection, engine.connect("app") as used:
            assert used.get("x") is None
            before = used.certificate
            run.journal.unlink()
            send(lost, signal.SIGKILL)
            for one in (connection, used):
                one.put("x", b"1")
                assert one.certificate != before
        assert master_of(engine) != lost

    @pytest.mark.slow
    def test_is_waited_for_where_one_hangs(self, engine, monkeypatch):
        """Meanwhile the last status is shown."""
        monkeypatch.setattr("tfapp.engines.client.DEADLINES", (0.25, 0.5))
        running = dataclasses.replace(engine.find("app").status, state="RUNNING", generation=1)
        with stock_client(engine) as stock:
            stock.kv[KEY_STATUS] = encode(running)
        eventually(lambda: read_status(run_folder(engine)) == running)
        hangs = master_of(engine)
        send(hangs, signal.SIGSTOP)
        try:
            (listed,), found = engine.list(), engine.find("app")
        finally:
            send(hangs, signal.SIGCONT)
        assert (found.live, found.status, found.waits) == (True, running, no_answer(running))
        assert listed == found
        answered = engine.find("app")
        assert (answered.status, answered.waits) == (running, "")


class TestCommandDies:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGINT])
    def test_the_application_goes_on(self, tmp_path, command, number):
        home = tmp_path / "home"
        process = command(home)
        os.killpg(process.pid, number)
        process.wait(DEADLINE)
        with local_engine(home) as engine:
            await_containers(engine, 1, "RUNNING")
            assert engine.find("app").live

    def test_while_a_master_gets_ready(self, tmp_path, command):
        code = COMMAND.replace(
            "engine.create(",
            """with engine.preparing("app"):
    print("here", flush=True)
    time.sleep(1000000)
engine.create(""",
        )
        home = tmp_path / "home"
        process = command(home, code, "here\n")
        eventually(lambda: masters_under(home))
        process.kill()
        process.wait(DEADLINE)
        eventually(lambda: not masters_under(home))
        assert not home.exists()

    @pytest.mark.parametrize("moment", ["before go", "after go"])
    def test_in_the_middle_of_create(self, tmp_path, command, moment):
        code = COMMAND.replace(
            "engine =",
            """from tfapp.engines.machine.starter import MasterStart
def stop_here(self, *args):
    print("here", flush=True)
    time.sleep(1000000)
MasterStart.{} = stop_here
engine =""".format("go" if moment == "before go" else "wait"),
        )
        home = tmp_path / "home"
        process = command(home, code, "here\n")
        process.kill()
        process.wait(DEADLINE)
        with local_engine(home) as engine:
            if moment == "before go":
                found = eventually(lambda: not (a := engine.find("app")).live and a)
                assert found.status.state == "FAILED"
                assert processes_under(home) == []
            else:
                eventually(lambda: read_state(run_folder(engine)).address)
                assert engine.find("app").live
            engine.stop("app", "enough", force=True)
            engine.destroy("app")
            engine.create("app", compiled(w=service("exit 0")))


class TestNothingHalfMade:
    """A create that fails leaves no application, no process, and the name free."""

    def check(self, home, **engine):
        with local_engine(home, **engine) as failing:
            with pytest.raises(UnavailableError) as error:
                failing.create("app", compiled(w=service()))
            assert failing.list() == ()
        assert not (home / "apps" / "app").exists()
        assert processes_under(home) == []
        with local_engine(home) as working:
            working.create("app", compiled(w=service("exit 0")))
        return str(error.value)

    def test_what_was_prepared_in_vain(self, tmp_path):
        home = tmp_path / "home"
        with local_engine(home) as engine:
            with pytest.raises(ZeroDivisionError), engine.preparing("app"):
                eventually(lambda: masters_under(home))
                raise ZeroDivisionError
            assert not masters_under(home)
            assert not home.exists()

    def test_what_was_prepared_is_taken(self, tmp_path):
        home = tmp_path / "home"
        with local_engine(home) as engine:
            with engine.preparing("app"):
                pid, *_ = eventually(lambda: masters_under(home))
                group = os.getpgid(pid)
                engine.create("app", compiled(w=service()))
            assert os.getpgid(master_of(engine).pid) == group

    def test_an_address_of_another_machine(self, tmp_path):
        message = self.check(tmp_path / "home", bind="192.0.2.1")
        assert message == (
            "the application master cannot start: "
            "192.0.2.1 is not an address of this machine to listen at"
        )

    def test_a_file_that_is_not_there(self, tmp_path):
        home, gone = tmp_path / "home", tmp_path / "gone.txt"
        with local_engine(home) as engine, pytest.raises(UnavailableError) as error:
            engine.create("app", compiled(w=service(files={"f": skein.File(str(gone))})))
        assert str(error.value) == f"{gone}, which app ships to its containers, is gone"
        assert not (home / "apps" / "app").exists()

    def test_a_python_that_does_not_exist(self, tmp_path):
        message = self.check(tmp_path / "home", python=str(tmp_path / "python"))
        assert "cannot be" in message

    def test_a_python_that_fails(self, tmp_path):
        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\necho 'it is broken' >&2\nexit 1\n")
        broken.chmod(0o755)
        message = self.check(tmp_path / "home", python=str(broken))
        assert message == "the application master has ended while it started"

    @pytest.mark.parametrize("below", ["home", "home/below"])
    def test_a_home_that_is_a_file(self, tmp_path, below):
        (tmp_path / "home").write_text("")
        engine = LocalEngine(tmp_path / below, environ=environ())
        with pytest.raises(UnavailableError, match="cannot be written: .* is not a folder"):
            engine.create("app", compiled(w=service()))
        with pytest.raises(UnavailableError, match="cannot be read: Not a directory"):
            engine.list()

    def test_a_full_disk(self, tmp_path):
        """A file system of 100 KiB, in a mount namespace of the test's own."""
        script = f"""
            set -e
            mount -t tmpfs -o size=100k none {tmp_path}
            cd {Path(tests.__file__).parent.parent}
            exec {sys.executable} -c '{FULL_DISK}' {tmp_path}
        """
        unshare = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*unshare, "true"], capture_output=True).returncode:
            pytest.skip("this system lets nobody make namespaces")
        done = programs.run(*unshare, "sh", "-c", script, limit=DEADLINE)
        assert done.stdout.splitlines() == [
            f"{tmp_path}/home/apps/app cannot be written: there is no space left on its disk",
            "[]",
            "ACCEPTED",
        ], done.stderr
