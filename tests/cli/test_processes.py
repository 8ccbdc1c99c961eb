"""The commands as a person gives them: one after another, from several shells, with Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.processes import LIMIT, call, end_processes_of, start


@pytest.fixture
def work(tmp_path, tfapp_home):
    """A folder with two programs; no process of an application is left afterwards."""
    (tmp_path / "hello.py").write_text("import sys\nprint('hello', *sys.argv[1:])\n")
    (tmp_path / "sleep.py").write_text(
        "import signal\nprint('asleep', flush=True)\nsignal.pause()\n"
    )
    yield tmp_path
    assert end_processes_of(tfapp_home) == []


def ok(*words: object, cwd: Path) -> str:
    code, out, err = call(*words, cwd=cwd)
    assert code == 0, err
    return out


def read_until(process: subprocess.Popen, stream: Iterable[str], text: str) -> str:
    """What `process` writes to `stream`, up to the line with `text`. Fails when it ends before,
    or has not written it in time and is killed."""
    limit = threading.Timer(LIMIT, process.kill)
    limit.start()
    seen = ""
    try:
        for line in stream:
            seen += line
            if text in line:
                return seen
    finally:
        limit.cancel()
    raise AssertionError(f"no {text!r} in {seen!r}")


def test_the_life_of_an_application(work):
    ok("run", "hello.py", "-w", "2", "--name", "app", "--tag", "exp", "--detach", cwd=work)
    ok("wait", "app", cwd=work)
    assert "\nhello\n" in ok("logs", "app", "worker/1", cwd=work)
    assert call("exists", "app", "--live", cwd=work)[0] == 255
    ok("start", "app", cwd=work)
    status = json.loads(ok("status", "app", "--format", "json", cwd=work))
    assert (status["run"], status["status"]["state"]) == (2, "SUCCEEDED")
    assert json.loads(ok("status", "app", "--run", "1", "--format", "json", cwd=work))["run"] == 1
    listed = json.loads(ok("list", "--tag", "exp", "--format", "json", cwd=work))
    assert [row["name"] for row in listed] == ["app"]
    exports = json.loads(ok("registry", "--name", "app", "--getexp", "worker", cwd=work))
    assert [entry["tag"] for entry in exports["host_port"]] == ["0", "1"]
    ok("destroy", "app", cwd=work)
    assert call("status", "app", cwd=work)[0] == 69


def test_arguments_and_an_entrypoint_reach_the_program(work):
    out = ok("run", "hello.py", "-w", "1", "--name", "app", "--", "--lr", "a b", cwd=work)
    assert "\nhello --lr a b\n" in out
    (work / "entry.sh").write_text('#!/bin/bash\necho "entry: $*"\nexec "$PYTHON" "$@"\n')
    (work / "env").write_text(f"PYTHON={os.path.realpath('/bin/echo')}\n")
    words = ("run", "hello.py", "-w", "1", "-c", "entry.sh", "-e", "env", "--name", "entry")
    out = ok(*words, "--", "-x", cwd=work)
    assert "\nentry: hello.py -x\nhello.py -x\n" in out


def test_an_application_outlives_its_command_and_is_stopped_from_another(work):
    ok("run", "sleep.py", "-w", "2", "--name", "app", "--detach", "--wait", "60", cwd=work)
    assert call("exists", "app", "--live", cwd=work)[0] == 0
    assert call("destroy", "app", cwd=work)[0] == 73
    assert call("start", "app", cwd=work)[0] == 73
    waiting = start("wait", "app", cwd=work)
    ok("stop", "app", "--message", "enough", cwd=work)
    _, err = waiting.communicate(timeout=LIMIT)
    assert waiting.returncode == 66
    assert "enough" in err
    assert call("stop", "app", cwd=work)[0] == 0


def test_logs_follow_to_the_end(work):
    ok("run", "sleep.py", "-w", "1", "--name", "app", "--detach", "--wait", "60", cwd=work)
    following = start("logs", "app", "worker/0", "-f", cwd=work)
    read_until(following, following.stdout, "asleep")
    ok("stop", "app", cwd=work)
    assert following.wait(LIMIT) == 0
    following.communicate()


def test_ctrl_c_stops_the_application_once(work):
    process = start("run", "sleep.py", "-w", "2", "--name", "app", cwd=work)
    read_until(process, process.stdout, "asleep")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.count("stopping app") == 1
    status = json.loads(ok("status", "app", "--format", "json", cwd=work))
    assert (status["run"], status["status"]["state"]) == (1, "KILLED")


def test_ctrl_c_at_a_terminal_reaches_the_command_alone(work):
    """The terminal sends SIGINT to the whole foreground group: programs must not be in it."""
    (work / "polite.py").write_text(
        "import signal\n"
        "signal.signal(signal.SIGINT, lambda *_: print('was interrupted', flush=True))\n"
        "print('asleep', flush=True)\nsignal.pause()\n"
    )
    keyboard, screen = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tfapp", "run", "polite.py", "-w", "1", "--name", "app"],
        cwd=work,
        env={**os.environ, "TERM": "xterm"},
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY),
    )
    os.close(screen)
    with open(keyboard, errors="replace") as stream:
        seen = read_until(process, stream, "asleep")
        os.write(keyboard, b"\x03")
        seen += read_until(process, stream, "Killed: ")
        assert process.wait(LIMIT) == 130
    assert "was interrupted" not in seen
