"""Programs in real containers: their start, their end, and what is said of it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.contract_values import make_docker
from tests.import_graph import ROOT
from tests.runner.docker.engine import BASE, EMPTY
from tests.runner.docker.instances import LIMIT, docker_mode, eventually, labels
from tests.runner.event_writer import event, record, simple
from tests.runner.test_profiles import TENSORFLOW
from tests.stuck_disk import stuck_disk
from tfapp import processes
from tfapp.contract.exit import Exit
from tfapp.contract.job import Docker, Mount
from tfapp.contract.names import RUNTIME_DIR, STORAGE_DIR
from tfapp.runner import ports, profiles
from tfapp.runner.cgroup import Used
from tfapp.runner.container import METRICS_FILE, PROGRESS_FILE
from tfapp.runner.docker import program as docker_program
from tfapp.runner.metrics import Meter, Reading
from tfapp.runner.program import StartError
from tfapp.runner.run_mode import Running
from tfapp.runner.stacks import Taker
from tfapp.runner.usage import UsageMeter
from tfapp.script import Program, ScriptError


def python(code: str) -> Program:
    return Program(("python3", "-c", code))


FOREVER = "import signal, time; print('up', flush=True); time.sleep(1000)"


@pytest.fixture
def run(engine, tmp_path, capfd):
    """Runs Python code to its end: how it ended, and what the log has of it."""

    def run(code: str, docker: Docker | None = None, **changes):
        with docker_mode(tmp_path, docker, **changes) as (mode, context):
            program = mode.start(python(code), context)
            exit = program.wait()
        return exit, capfd.readouterr().out

    return run


def test_its_output_goes_to_the_log_line_by_line(run):
    """Of both streams, whose order an engine does not keep. Without buffers, as tfapp runs it,
    Python writes a line and its end apart."""
    code = "import sys\nfor i in range(200): print('out', i); print('err', i, file=sys.stderr)"
    exit, output = run(code, env={"PYTHONUNBUFFERED": "1"})
    assert exit == Exit(0, None, "exit", "exit code 0")
    lines = output.splitlines()
    for stream in ("out", "err"):
        of_stream = [line for line in lines if line.startswith(stream)]
        assert of_stream == [f"{stream} {i}" for i in range(200)]
    assert len(lines) == 400


def test_their_ends_are_told_as_those_of_processes(engine, tmp_path, capfd):
    expected = {
        "raise SystemExit(3)": Exit(3, None, "exit", "exit code 3"),
        "raise SystemExit(137)": Exit(None, 9, "signal", "killed by SIGKILL (9)"),
        "import os; os.kill(os.getpid(), 9)": Exit(None, 9, "signal", "killed by SIGKILL (9)"),
        "import os; os.abort()": Exit(None, 6, "signal", "killed by SIGABRT (6)"),
        "x = bytearray(2 << 30)": Exit(None, 9, "memory", "killed by SIGKILL (9): out of memory"),
    }
    with docker_mode(tmp_path) as (mode, context):
        told = {code: mode.start(python(code), context).wait() for code in expected}
        missing = mode.start(Program(("no-such-program",)), context).wait()
    assert told == expected
    text = f"no-such-program cannot be run in image {BASE}: No such file or directory"
    assert missing == Exit(None, None, "start", text)


def test_it_runs_as_the_runner_in_its_folders_with_its_environment(run, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "train.py").write_text("the program")
    code = (
        "import json, os; print(json.dumps([os.getuid(), os.getgid(), os.getcwd(), "
        "open('train.py').read(), os.environ['CONTAINER_ID'], os.environ['HOME'], "
        "os.environ['GIVEN'], 'DOCKER_HOST' in os.environ]))"
    )
    _, output = run(code, env={"GIVEN": "a b 'c'"})
    work = str(tmp_path / "work")
    expected = [os.getuid(), os.getgid(), work, "the program", "container_1_0001_01_000003", work]
    assert __import__("json").loads(output) == [*expected, "a b 'c'", False]


def test_it_sees_of_the_machine_what_was_declared_and_no_more(run, tmp_path):
    hidden, shown, fixed = (tmp_path / name for name in ("hidden", "shown", "fixed"))
    for folder in (hidden, shown, fixed):
        folder.mkdir()
        (folder / "here").touch()
    docker = make_docker(BASE, (Mount(str(shown), "/data"), Mount(str(fixed), "/fixed", True)))
    code = (
        "import os; from pathlib import Path\n"
        f"print(os.path.exists({str(hidden)!r}), os.listdir('/data'), os.listdir('/fixed'))\n"
        "Path('/data/new').touch(); Path('made').touch()\n"
        "try: Path('/fixed/new').touch()\n"
        "except OSError as error: print(error.strerror)\n"
        f"try: Path({str(tmp_path / 'files')!r}, 'new').touch()\n"
        "except OSError as error: print(error.strerror)\n"
        "Path(os.environ['TFAPP_PROGRESS_FILE']).touch()\n"
    )
    exit, output = run(code, docker)
    read_only = "Read-only file system"
    assert output.splitlines() == ["False ['here'] ['here']", read_only, read_only]
    assert exit.code == 0
    assert (shown / "new").exists() and (tmp_path / "work" / "made").exists()
    assert (tmp_path / "work" / PROGRESS_FILE).exists()  # where its runner looks for progress


def test_it_opens_urls_with_the_modules_of_the_image_or_of_the_user(engine, tmp_path, run):
    """What comes first in PYTHONPATH, and in that of a PEX, takes nothing away."""
    image = "tfapp-test/path:1"
    id = engine.docker("create", BASE, "true").strip()
    engine.docker("commit", "--change", "ENV PYTHONPATH=/of/image", id, image)
    engine.docker("rm", id)
    (tmp_path / STORAGE_DIR).mkdir()
    startup = f"{tmp_path}/tfapp-runtime/tfapp/storage/startup"
    code = "import os; print(*map(os.environ.get, ('PYTHONPATH', 'PEX_EXTRA_SYS_PATH')))"
    _, output = run(code, make_docker(image))
    assert output.split() == [f"{startup}:/of/image", startup]
    own = {"PYTHONPATH": "/of/user", "PEX_EXTRA_SYS_PATH": "/of/user"}
    _, output = run(code, make_docker(image), env=own)
    assert output.split() == [f"{startup}:/of/user"] * 2


def test_it_tells_its_stacks_without_packages_for_urls(engine, tmp_path):
    """Its Python numbers itself otherwise than its runner does, in a namespace of its own."""
    (tmp_path / RUNTIME_DIR).symlink_to(ROOT.parent)
    code = "def load():\n    import signal\n    while True: signal.pause()\nload()"
    with docker_mode(tmp_path) as (mode, context):
        running = mode.start(python(code), context)
        taker = Taker([tmp_path], "", str)

        def places() -> list[str]:
            assert running.stopped() == ()
            found, _ = taker.take(running.pids(), quickly=True)
            return [one.place for one in found]

        eventually(lambda: places() == ["load at <string>:3"], "its stacks")
        running.kill()
        running.wait()


def test_it_traces_itself_for_a_profile(engine, tmp_path):
    """With a played TensorFlow, into a folder that both see."""
    (tmp_path / RUNTIME_DIR).symlink_to(ROOT.parent)
    code = "import sys; sys.path.insert(0, '.')\nimport tensorflow, signal; signal.pause()"
    with docker_mode(tmp_path) as (mode, context):
        (Path(context.work_dir) / "tensorflow.py").write_text(TENSORFLOW)
        running = mode.start(python(code), context)
        found: list[tuple] = []

        def traced() -> bool:
            assert running.stopped() == ()
            place = f"{context.work_dir}/shown"
            id = str(len(found))
            found.append(profiles.take(running.pids(), id, 0.1, place, "worker_0"))
            return found[-1][2] == ""

        eventually(traced, "its trace")
        assert found[-1][0] == (f"{context.work_dir}/shown/worker_0.xplane.pb",)
        assert Path(found[-1][0][0]).stat().st_size == found[-1][1] >= 100
        running.kill()
        running.wait()


def test_its_metrics_are_read(engine, tmp_path, capfd):
    """Those in its file, and those for TensorBoard, though it be in a folder of its image."""
    code = (
        "import os; from pathlib import Path\n"
        "Path('/tmp/train').mkdir()\n"
        "log = open('/tmp/train/events.out.tfevents.1', 'wb', buffering=0)\n"
        f"log.write({record(event(7, 1.0, simple('loss', 0.5)))!r})\n"
        'text = \'{"step": 5, "time": 1, "metrics": {"own": 1}}\'\n'
        "Path(os.environ['TFAPP_METRICS_FILE']).write_text(text)\n"
    )
    running: list[Running] = []
    meter = Meter(tmp_path / "work" / METRICS_FILE, lambda: running[0].pids())
    with docker_mode(tmp_path) as (mode, context):
        running.append(mode.start(python(code + FOREVER), context))

        def both() -> bool:
            assert running[0].stopped() == ()  # from then on its processes are known
            return len(meter.look(LIMIT).metrics) == 2

        eventually(both, "a look at both")
        running[0].kill()
        running[0].wait()
        meter.last(LIMIT)
    assert meter.reading.usage.memory > 0
    reading = dataclasses.replace(meter.reading, points={}, usage=None)
    assert reading == Reading({"own": 1.0, "train/loss": 0.5}, 5, None)
    assert set(meter.reading.points) == {"own", "train/loss"}


def test_what_it_uses_is_counted_by_its_control_group(engine, tmp_path, capfd):
    """With shared memory, and with children that have come and gone between two looks."""
    code = (
        "import subprocess, sys\n"
        "busy = 'import time\\nwhile time.process_time() < 1: pass'\n"
        "subprocess.run([sys.executable, '-c', busy], check=True)\n"
        "open('/dev/shm/rows', 'wb').write(bytes(90 << 20))\n"
    )
    running: list[Running] = []
    meter = UsageMeter(lambda: running[0].pids(), 1, 256 << 20, group=lambda: running[0].group)
    with docker_mode(tmp_path, make_docker(BASE, shm_size=128 << 20)) as (mode, context):
        running.append(mode.start(python(code + FOREVER), context))
        eventually(lambda: "up" in running[0].last_lines(), "its output")
        used = meter.look()
        counted = running[0].group.used()
        running[0].kill()
        running[0].wait()
    assert counted.seconds >= 0.9
    assert counted.seconds <= used.cpu_mean * used.seconds + 0.2
    assert 90 << 20 <= used.memory == used.memory_peak < 150 << 20
    assert running[0].group.used() == Used(None, None)


def test_a_program_that_cannot_be_killed_is_named(engine, tmp_path, capfd, monkeypatch):
    """It waits for a disk that does not answer."""
    monkeypatch.setattr(docker_program, "KILL_LIMIT", 2.0)
    code = (
        "file = open('/rows/rows', 'wb', buffering=0)\n"
        "print('writes', flush=True)\n"
        "while True: file.write(b'x'); file.seek(0)"
    )
    with stuck_disk(tmp_path) as disk:
        docker = make_docker(BASE, (Mount(str(disk.folder), "/rows"),))
        with docker_mode(tmp_path, docker) as (mode, context):
            running = mode.start(python(code), context)
            eventually(lambda: "writes" in running.last_lines(), "its output")
            disk.freeze()
            inside = processes.tree(running.pid)
            eventually(lambda: any(processes.stat(p.pid).state == "D" for p in inside), "it waits")
            running.kill()
            exit = running.wait()
            disk.thaw()
            eventually(lambda: engine.containers() == [], "its end at last")
        mode._guard.close()  # which it was left to
    assert exit == Exit(None, 9, "signal", "killed by SIGKILL (9)")
    waits = r"process \d+, state D: it waits for a disk or a file server( \(\w+\))?"
    assert re.fullmatch(
        rf"; still there after SIGKILL: process {running.pid}; {waits}", running.remains
    )


def test_its_resources_control_group_and_labels(engine, tmp_path, capfd):
    parent = f"/docker/tfapp-test-{os.getpid()}"
    docker = make_docker(
        BASE, shm_size=128 << 20, ulimits={"nofile": (1000, 2000)}, cgroup_parent=parent
    )
    template = (
        "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.NanoCpus}} "
        "{{.HostConfig.ShmSize}} {{.HostConfig.NetworkMode}}"
    )
    try:
        with docker_mode(tmp_path, docker, memory=300, vcores=1000) as (mode, context):
            program = mode.start(python(FOREVER), context)
            said = engine.docker("inspect", "--format", template, program.container).split()
            groups = Path(f"/proc/{program.pid}/cgroup").read_text()
            found = labels(engine, program.container)
            program.kill()
            program.wait()
    finally:  # the engine removes the container's group alone
        for group in [Path(f"/sys/fs/cgroup{parent}"), *Path("/sys/fs/cgroup").glob(f"*{parent}")]:
            if group.is_dir():
                group.rmdir()
    cpus = os.cpu_count() * 10**9
    assert said == [str(300 << 20), str(300 << 20), str(cpus), str(128 << 20), "host"]
    assert f"{parent}/{program.container}" in groups
    assert found.pop("tfapp.runner").split(":")[2] == str(os.getpid())
    assert found == {
        "tfapp": "1",
        "tfapp.application": "digits",
        "tfapp.component": "worker",
        "tfapp.instance": "worker/1",
        "tfapp.generation": "1",
        "tfapp.container": "container_1_0001_01_000003",
    }


def test_secrets_are_struck_out_of_its_output(run):
    _, output = run(
        "import os; print('it is', os.environ['TOKEN'])",
        env={"TOKEN": "hush-hush"},
        redact=("hush-hush",),
    )
    assert output == "it is [secret]\n"


def test_a_signal_reaches_it_and_what_a_shell_has_started(engine, tmp_path, capfd):
    shell = "python3 -c 'import time; print(\"up\", flush=True); time.sleep(1000)'; echo over"
    with docker_mode(tmp_path) as (mode, context):
        for started, number in (
            (python(FOREVER), signal.SIGTERM),
            (python(FOREVER), signal.SIGKILL),
            (Program(("bash", "-c", shell)), signal.SIGTERM),
        ):
            program = mode.start(started, context)
            eventually(lambda program=program: "up" in program.last_lines())
            assert program.running()
            program.signal(number)
            text = f"killed by {signal.Signals(number).name} ({int(number)})"
            assert program.wait() == Exit(None, int(number), "signal", text)
            assert not program.running()


def test_sigterm_goes_to_the_program_and_not_to_what_it_has_started(engine, tmp_path, capfd):
    """A data loader that dies first takes the emergency checkpoint along."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "loader = subprocess.Popen(['sleep', '1000'])\n"
        "def save(*_):\n"
        "    time.sleep(0.5)\n"
        "    os.write(1, f'saved, loader: {loader.poll()}\\n'.encode())  # in a print, perhaps\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(python(code), context)
        eventually(lambda: "up" in program.last_lines())
        program.signal(signal.SIGTERM)
        assert program.wait() == Exit(7, None, "exit", "exit code 7")
        assert "saved, loader: None" in program.last_lines()


def test_it_is_seen_when_it_was_stopped(engine, tmp_path, capfd):
    shell = "python3 -c 'import time; print(\"up\", flush=True); time.sleep(1000)'; echo over"
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(Program(("bash", "-c", shell)), context)
        eventually(lambda: "up" in program.last_lines())
        assert program.stopped() == ()
        init, bash, child = (process.pid for process in processes.tree(program.pid))
        assert init == program.pid
        os.kill(child, signal.SIGSTOP)
        words = (f"process {child} was stopped (SIGSTOP)",)
        eventually(lambda: program.stopped() == words)
        os.kill(child, signal.SIGCONT)
        eventually(lambda: program.stopped() == ())
        engine.docker("kill", "--signal", "STOP", program.container)  # the container's init
        eventually(lambda: program.stopped() == (f"process {init} was stopped (SIGSTOP)",))
        program.kill()
        assert program.wait().signal == signal.SIGKILL
        assert program.stopped() == ()


def test_it_is_seen_when_its_container_was_paused_and_it_can_be_killed(engine, tmp_path, capfd):
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(python(FOREVER), context)
        ended = []
        waiting = threading.Thread(target=lambda: ended.append(program.wait()))
        waiting.start()
        engine.docker("pause", program.container)
        words = (f"its container {program.container[:12]} was paused (docker pause)",)
        eventually(lambda: program.stopped() == words)
        engine.docker("unpause", program.container)
        eventually(lambda: program.stopped() == ())
        engine.docker("pause", program.container)
        eventually(lambda: program.stopped() == words)
        program.kill()
        waiting.join(LIMIT)
    assert [exit.signal for exit in ended] == [signal.SIGKILL]


def test_it_binds_the_port_that_the_runner_holds_and_nobody_else_can(engine, tmp_path, capfd):
    held = ports.hold()
    code = (
        "import socket\n"
        "def bind(share):\n"
        "    s = socket.socket()\n"
        "    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, share)\n"
        f"    s.bind(('', {held.number}))\n"
        "    return s\n"
        "try: bind(0)\n"
        "except OSError as error: print(error.strerror)\n"
        "s = bind(1); s.listen(); print('up', flush=True); s.accept()[0].sendall(b'served')"
    )
    with docker_mode(tmp_path) as (mode, context):
        program = mode.start(python(code), context)
        eventually(lambda: "up" in program.last_lines())
        with pytest.raises(ports.NoPortError):
            ports.hold(str(held.number))
        with socket.create_connection(("127.0.0.1", held.number), timeout=60) as client:
            assert client.recv(100) == b"served"
        assert program.wait().code == 0
    held.close()
    assert program.last_lines() == "Address already in use\nup"


def test_another_user_cannot_take_the_held_port(engine, tmp_path):
    held = ports.hold()
    code = (
        "import socket; s = socket.socket()\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        f"try: s.bind(('', {held.number}))\n"
        "except OSError as error: print(error.strerror)"
    )
    command = ("run", "--rm", "--network=host", "--user=4711", BASE, "python3", "-c", code)
    assert engine.docker(*command) == "Address already in use\n"
    held.close()


def test_something_short_is_run_to_its_end(engine, tmp_path):
    with docker_mode(tmp_path) as (mode, context):
        code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)"
        done = mode.execute(context, ("python3", "-c", code), LIMIT)
        assert (done.code, done.output, done.errors) == (4, "out\n", "err\n")
        with pytest.raises(ScriptError) as caught:
            mode.execute(context, ("sleep", "1000"), 0.5)
    assert str(caught.value) == "sleep has not answered within 0.5 s"


OWN = "tfapp-test/own:1"  # BASE with a command and a working folder of its own


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (Program((), of_image=True, entry_point=True), "/opt: its own"),
        (Program(("given", "too"), of_image=True, entry_point=True), "/opt: given too"),
        (Program((), cwd=Path("/usr"), of_image=True, entry_point=True), "/usr: its own"),
        (Program(("sh", "-c", "pwd"), of_image=True), "/opt"),
    ],
)
def test_an_images_own_command_and_folder(engine, tmp_path, capfd, program, said):
    entry_point = json.dumps(["sh", "-c", 'echo "$PWD: $*"', "sh"])
    changes = (f"ENTRYPOINT {entry_point}", 'CMD ["its", "own"]', "WORKDIR /opt")
    id = engine.docker("create", BASE, "true").strip()
    engine.docker("commit", *(w for one in changes for w in ("--change", one)), id, OWN)
    engine.docker("rm", id)
    with docker_mode(tmp_path, make_docker(OWN)) as (mode, context):
        assert mode.start(program, context).wait() == Exit(0, None, "exit", "exit code 0")
    assert capfd.readouterr().out == f"{said}\n"


def test_an_image_without_a_command_of_its_own(engine, tmp_path):
    with docker_mode(tmp_path) as (mode, context), pytest.raises(StartError) as caught:
        mode.start(Program((), of_image=True, entry_point=True), context)
    assert str(caught.value) == f"the image {BASE} has no command of its own"


def test_an_image_without_python(engine, tmp_path):
    docker = make_docker(EMPTY)
    with docker_mode(tmp_path, docker) as (mode, context), pytest.raises(ScriptError) as caught:
        mode.execute(context, ("python3", "-c", "pass"), LIMIT)
    text = f"python3 cannot be run in image {EMPTY}: No such file or directory"
    assert str(caught.value) == text
