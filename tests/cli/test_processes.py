"""The commands as a person gives them: one after another, from several shells, with Ctrl-C."""

import fcntl
import json
import os
import pty
import signal
import termios

import pytest

from tests.end_to_end.command_line import LIMIT, CommandLine, read_until

pytestmark = pytest.mark.slow


@pytest.fixture
def tfapp(tmp_path, tfapp_home):
    """`tfapp` in a folder with two programs; no process of an application is left afterwards."""
    command_line = CommandLine(tmp_path, tfapp_home)
    command_line.program("import sys\nprint('hello', *sys.argv[1:])\n", "hello.py")
    command_line.program("import signal\nprint('asleep', flush=True)\nsignal.pause()\n", "sleep.py")
    yield command_line
    assert command_line.kill_living() == []


def test_the_life_of_an_application(tfapp):
    tfapp.ok("run", "hello.py", "-w", "2", "--name", "app", "--tag", "exp", "--detach")
    tfapp.ok("wait", "app")
    assert "\nhello\n" in tfapp.ok("logs", "app", "worker/1")
    assert tfapp("exists", "app", "--live").code == 255
    tfapp.ok("start", "app")
    status = tfapp.status("app")
    assert (status["run"], status["status"]["state"]) == (2, "SUCCEEDED")
    assert tfapp.status("app", "--run", "1")["run"] == 1
    listed = json.loads(tfapp.ok("list", "--tag", "exp", "--format", "json"))["applications"]
    assert [row["name"] for row in listed] == ["app"]
    exports = json.loads(tfapp.ok("registry", "--name", "app", "--getexp", "worker"))
    assert [entry["tag"] for entry in exports["host_port"]] == ["0", "1"]
    tfapp.ok("destroy", "app")
    assert tfapp("status", "app").code == 69


def test_arguments_and_an_entrypoint_reach_the_program(tfapp):
    out = tfapp.ok("run", "hello.py", "-w", "1", "--name", "app", "--", "--lr", "a b")
    assert out == "hello --lr a b\n"
    (tfapp.work / "entry.sh").write_text('#!/bin/bash\necho "entry: $*"\nexec "$PYTHON" "$@"\n')
    (tfapp.work / "env").write_text(f"PYTHON={os.path.realpath('/bin/echo')}\n")
    words = ("run", "hello.py", "-w", "1", "-c", "entry.sh", "-e", "env", "--name", "entry")
    out = tfapp.ok(*words, "--", "-x")
    assert out == "entry: hello.py -x\nhello.py -x\n"


def test_an_application_outlives_its_command_and_is_stopped_from_another(tfapp):
    tfapp.ok("run", "sleep.py", "-w", "2", "--name", "app", "--detach", "--wait", "60")
    assert tfapp("exists", "app", "--live").code == 0
    assert tfapp("destroy", "app").code == 73
    assert tfapp("start", "app").code == 73
    waiting = tfapp.start("wait", "app")
    tfapp.ok("stop", "app", "--message", "enough")
    _, err = waiting.communicate(timeout=LIMIT)
    assert waiting.returncode == 66
    assert "enough" in err
    assert tfapp("stop", "app").code == 0


def test_logs_follow_to_the_end(tfapp):
    tfapp.ok("run", "sleep.py", "-w", "1", "--name", "app", "--detach", "--wait", "60")
    following = tfapp.start("logs", "app", "worker/0", "-f")
    read_until(following, following.stdout, "asleep")
    tfapp.ok("stop", "app")
    assert following.wait(LIMIT) == 0
    following.communicate()


def test_ctrl_c_stops_the_application_once(tfapp):
    process = tfapp.start("run", "sleep.py", "-w", "2", "--name", "app")
    read_until(process, process.stdout, "asleep")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.count("stopping app") == 1
    status = tfapp.status("app")
    assert (status["run"], status["status"]["state"]) == (1, "KILLED")


def test_ctrl_c_at_a_terminal_reaches_the_command_alone(tfapp):
    """The terminal sends SIGINT to the whole foreground group: programs must not be in it."""
    tfapp.program(
        "import os, signal\n"
        "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'was interrupted\\n'))\n"
        "print('asleep', flush=True)\nsignal.pause()\n",
        "polite.py",
    )
    keyboard, screen = pty.openpty()
    process = tfapp.start(
        *("run", "polite.py", "-w", "1", "--name", "app"),
        environ={"TERM": "xterm"},
        stdin=screen,
        stdout=screen,
        stderr=screen,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY),
    )
    os.close(screen)
    with open(keyboard, errors="replace") as stream:
        seen = read_until(process, stream, "asleep")
        os.write(keyboard, b"\x03")
        seen += read_until(process, stream, "Killed: ")
        assert process.wait(LIMIT) == 130
    assert "was interrupted" not in seen
