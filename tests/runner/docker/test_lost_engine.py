"""An engine that goes away, hangs, or never was there."""

import gc
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests import programs
from tests.contract_values import make_docker
from tests.runner.docker.applications import PACKAGE, Submission, tfapp
from tests.runner.docker.instances import LIMIT, container, docker_mode, eventually
from tfapp import processes
from tfapp.runner.docker.engine import DockerEngine, EngineError, GoneError
from tfapp.runner.docker.mode import DockerMode
from tfapp.runner.package_script import load_script
from tfapp.runner.program import StartError
from tfapp.script import Program, ScriptError

# The SDK leaves the socket open that could not be connected.
careless = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore:Exception ignored in. <socket"
)

FOREVER = Program(("python3", "-c", "import time; print('up', flush=True); time.sleep(1000)"))


@pytest.fixture
def restarted(engine):
    """Is running again after the test."""
    yield engine
    if not engine.socket.exists() or not engine.answers():
        engine.start_daemon()
    eventually(lambda: engine.containers() == [], "the container's end")


def test_a_program_is_dead_when_its_engine_was_told_to_end(restarted, tmp_path):
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(FOREVER, context)
        process = program.process
        assert process is not None and processes.is_alive(process)
        restarted.end_daemon(signal.SIGTERM)
        exit = program.wait()
        assert not processes.is_alive(process)
        assert not program.running()
    assert exit.reason in ("lost", "signal")  # it first ends its containers


def test_an_application_goes_on_when_the_engine_was_restarted(restarted, submission, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    Submission(again, restarts=1).start(
        restarted, "test $TFAPP_GENERATION = 2 && exit; echo up; sleep 1000"
    )
    restarted.end_daemon(signal.SIGKILL)
    eventually(lambda: status("app")["generation"] == 2, "the next generation")
    restarted.start_daemon()
    assert tfapp("wait", "app").returncode == 0
    assert (status("app")["generation"], status("app")["restarts"]) == (2, 1)


def status(name: str) -> dict:
    return json.loads(tfapp("status", name, "--format", "json").stdout)["status"]


@careless
def test_status_asks_the_engine_and_not_the_machine_alone(restarted, tmp_path):
    """The process is there all the time, and an engine that knows nothing of its container."""
    script = load_script(PACKAGE, "scripts/tensorflow.py")
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(FOREVER, context)
        record = restarted.folder / "data/containers" / program.container / "config.v2.json"
        assert script.status(context, program)
        restarted.end_daemon(signal.SIGKILL)
        assert script.status(context, program)  # nobody has said that it does not run
        hidden = record.rename(record.with_suffix(".hidden"))
        restarted.start_daemon()
        try:
            assert program.alive
            assert not script.status(context, program)
        finally:
            restarted.end_daemon(signal.SIGKILL)
            hidden.rename(record)
            restarted.start_daemon()  # and ends what runs without it, as it does after a crash
        process = program.process
        exit = program.wait()
        assert process is not None and not processes.is_alive(process)
        assert not program.running()
    lost = "the Docker engine has ended; its program was killed"
    assert (exit.reason, exit.text) == ("lost", lost)
    gc.collect()


def test_an_engine_that_hangs_does_not_keep_a_program_alive(engine, tmp_path):
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(FOREVER, context)
        engine.signal_daemon(signal.SIGSTOP)
        try:
            program.kill()
            eventually(lambda: not program.alive, "the program's end")
        finally:
            engine.signal_daemon(signal.SIGCONT)
        assert program.wait().signal == signal.SIGKILL


@careless
def test_without_an_engine_one_sentence_says_so(tmp_path):
    address = f"unix://{tmp_path}/no.sock"
    with pytest.raises(GoneError) as caught:
        DockerEngine({"DOCKER_HOST": address})
    assert str(caught.value) == (
        f"there is no Docker engine at {address}; start it, or name another with "
        "site.global.docker.host or DOCKER_HOST"
    )
    del caught
    gc.collect()


@careless
def test_a_socket_that_nobody_serves(tmp_path):
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(path))
    with pytest.raises(GoneError) as caught:
        DockerEngine({"DOCKER_HOST": f"unix://{path}"})
    text = f"the Docker engine at unix://{path} does not answer: Connection refused"
    assert str(caught.value) == text
    del caught
    gc.collect()


def test_without_permission_one_sentence_says_so(engine):
    if os.geteuid() != 0:
        pytest.skip("this machine has no root for the test to give up")
    code = (
        "import os, sys; sys.path[:0] = [sys.argv[1]]\n"
        "import docker\n"
        "from tfapp.runner.docker.engine import DockerEngine, GoneError\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: DockerEngine({'DOCKER_HOST': sys.argv[2]})\n"
        "except GoneError as error: print(error)\n"
    )
    root = str(Path(__file__).parents[3])
    # At a path that is open to that user: it is the socket that is closed.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        address = f"{folder}/docker.sock"
        os.link(engine.socket, address)
        done = programs.python("-c", code, root, f"unix://{address}", limit=LIMIT)
    assert done.stdout == (
        f"this user may not use the Docker engine at unix://{address}: permission denied; an "
        "administrator can add the user to the group that owns the socket\n"
    ), done.stderr


def test_the_sdk_may_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(EngineError) as caught:
        DockerEngine({})
    text = str(caught.value)
    assert text.startswith("run mode docker needs the Docker SDK for Python, and ")
    assert text.endswith("install the package docker there")


def test_gpus_of_an_engine_that_knows_none(engine, tmp_path):
    """As on any machine without NVIDIA's tools, such as that of this test."""
    environ = {"CUDA_VISIBLE_DEVICES": "GPU-a,3"}
    with docker_mode(tmp_path, gpus=2, environ=environ) as (mode, context):
        threads = threading.active_count()
        with pytest.raises(StartError) as caught:
            mode.start(FOREVER, context)
        eventually(lambda: threading.active_count() == threads, "the end of what listened to it")
    assert str(caught.value) == (
        'the Docker engine cannot start a container: could not select device driver "" with '
        "capabilities: [[gpu]]; for GPU GPU-a, 3 the engine needs the NVIDIA Container Toolkit"
    )
    assert engine.containers() == []


def test_gpus_that_nobody_names_are_refused(engine, tmp_path):
    place = container(tmp_path, make_docker("any"), gpus=2)
    mode = DockerMode(place, make_docker("any"), print)
    with pytest.raises(ScriptError) as caught:
        mode.prepare()
    mode.close()
    assert str(caught.value) == (
        "worker asks for 2 GPUs (yarn.gpus), and neither CUDA_VISIBLE_DEVICES nor "
        "NVIDIA_VISIBLE_DEVICES says which this container was given"
    )
