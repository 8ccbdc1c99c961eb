"""No container outlives its runner, however that ends."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.contract_values import make_docker
from tests.runner.docker.engine import processes_with
from tests.runner.docker.instances import LIMIT, docker_mode, eventually
from tests.runner.docker.slow_engine import SlowEngine
from tfapp.runner.docker.ownership import LABEL_RUNNER, is_dead, runner_name

# Starts a program that never ends, and says so: a runner as far as its death matters.
RUNNER = """
import os, signal, sys
from pathlib import Path
from tests.runner.docker.instances import docker_mode
from tfapp.script import Program
with docker_mode(Path(sys.argv[1])) as (mode, context):
    signal.signal(signal.SIGTERM, lambda *_: (mode.kill_all(), os._exit(1)))
    code = "import time; print('up', flush=True); time.sleep(1000)"
    program = mode.start(Program(("python3", "-c", code)), context)
    Path(sys.argv[1], "started").write_text(program.container)
    program.wait()
"""


@contextlib.contextmanager
def launched(code: str, folder: Path) -> Iterator[subprocess.Popen]:
    """A process that runs `code`, with `folder` as its argument."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def runner(engine, tmp_path) -> Iterator[subprocess.Popen]:
    """Its container runs."""
    with launched(RUNNER, tmp_path) as process:
        started = tmp_path / "started"
        eventually(lambda: started.exists() and started.read_text() in engine.containers())
        yield process


def guards(pid: int) -> list[int]:
    return processes_with("tfapp.runner.docker.guard", f":{pid}:")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_runner_that_is_killed_takes_its_container_along(engine, runner, number):
    assert len(guards(runner.pid)) == 1
    runner.send_signal(number)
    runner.wait(LIMIT)
    eventually(lambda: engine.containers() == [], "the container's end")
    eventually(lambda: guards(runner.pid) == [], "the guard's end")


def test_a_container_that_is_made_after_its_runners_death_goes_too(engine, tmp_path, monkeypatch):
    between = SlowEngine(tmp_path / "between.sock", engine.socket)
    monkeypatch.setenv("DOCKER_HOST", between.host)
    with contextlib.closing(between), launched(RUNNER, tmp_path) as runner:
        assert between.asked.wait(LIMIT)
        between.listed.clear()
        runner.kill()
        runner.wait()
        # The guard finds nothing yet, and stays.
        assert between.listed.wait(LIMIT)
        assert engine.containers() == []
        between.let_go.set()
        eventually(lambda: guards(runner.pid) == [], "the guard's end")
    assert engine.containers() == []
    # It was made when nobody was there any more who had asked for it.
    created = engine.docker(
        *("events", "--since", "1", "--until", f"{time.time() + 1:.0f}"),
        *("--filter", f"label={LABEL_RUNNER}", "--format", "{{.Action}}"),
    )
    assert created.split()[-2:] == ["create", "destroy"]


def test_a_guard_that_is_killed_along_is_made_up_for_by_the_next_runner(engine, runner, tmp_path):
    for pid in guards(runner.pid):
        os.kill(pid, signal.SIGKILL)
    runner.kill()
    runner.wait()
    assert len(engine.containers()) == 1
    with docker_mode(tmp_path / "next"):
        eventually(lambda: engine.containers() == [], "the container's end")


def test_a_container_of_a_runner_that_lives_is_let_alone(engine, runner, tmp_path):
    with docker_mode(tmp_path / "next"):
        pass
    assert len(engine.containers()) == 1
    runner.kill()
    runner.wait()
    eventually(lambda: engine.containers() == [], "the container's end")


def test_a_guard_ends_with_its_runner(engine, tmp_path):
    with docker_mode(tmp_path):
        # A process that was just started has no command line yet, for a moment.
        eventually(lambda: len(guards(os.getpid())) == 1, "the guard's start")
    assert guards(os.getpid()) == []


def test_an_image_that_is_not_there_leaves_no_guard(engine, tmp_path):
    from tfapp.script import ScriptError

    with pytest.raises(ScriptError), docker_mode(tmp_path, make_docker("no/such:1", pull="never")):
        pass
    assert guards(os.getpid()) == []


def test_names_of_runners():
    mine = runner_name(os.getpid())
    boot, namespace, pid, started = mine.split(":")
    assert not is_dead(mine)
    assert is_dead(f"{boot}:{namespace}:{pid}:{int(started) - 1}")
    assert not is_dead(f"other:{namespace}:{pid}:1")
    assert not is_dead(f"{boot}:1:{pid}:1")
    assert not is_dead("")


def test_a_runner_that_proc_hides_is_not_taken_for_dead():
    """It may be another user's, on a machine that shows everybody their own processes only."""
    if os.geteuid() != 0:
        pytest.skip("this machine has no root for the test to give up")
    code = (
        "import os, sys\n"
        "from tfapp.runner.docker.ownership import is_dead\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(os.path.exists(f'/proc/{os.getppid()}'), *map(is_dead, sys.argv[1:]))\n"
    )
    mine = runner_name(os.getpid())
    ended = mine.replace(f":{os.getpid()}:", f":{1 << 22}:")  # no number is so high
    hidden = 'mount -t proc -o hidepid=2 none /proc && "$@"; exit $?'
    words = ("sh", "-c", hidden, "sh", sys.executable, "-c", code, mine, ended)
    told = programs.run("unshare", "--mount", *words, limit=LIMIT)
    assert (told.stdout, told.stderr) == ("False False True\n", "")
