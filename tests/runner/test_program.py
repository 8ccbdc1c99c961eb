"""Programs as real processes: how they start, what they see, that nothing of them remains."""

import json
import os
import re
import signal
import sys

import pytest

from tests.runner.driving import Driver, alive, eventually
from tests.stuck_disk import stuck_disk
from tfapp import processes

# Forks twice, as daemons do: the grandchild has no parent left, a session of its own, and
# ignores what asks it to end.
DAEMON = """
import os, signal, sys, time
told, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("daemon", os.getpid(), flush=True)
        os.write(tells, b"!")
        time.sleep(600)
    os._exit(0)
os.read(told, 1)  # at this program's end the daemon is killed
os.wait()
"""


CAT = '["cat"], start_new_session=True'  # out of the reach of the shell's group


@pytest.fixture
def drive(tmp_path):
    drivers = []

    def start(*argv, **asked):
        drivers.append(Driver(tmp_path, *argv, **asked))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.end()


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


def test_output_and_exit_code_are_told(drive):
    driver = drive(*python("import sys; print('out'); print('err', file=sys.stderr); exit(3)"))
    assert driver.tell("wait") == {
        "exit": {"code": 3, "signal": None, "reason": "exit", "text": "exit code 3", "missed": ""},
        "last": "out\nerr" if driver.log.read_text().startswith("out") else "err\nout",
        "running": False,
        "remains": "",
        "left": [],
    }
    assert sorted(driver.log.read_text().splitlines()) == ["err", "out"]


def test_a_signal_is_told(drive):
    driver = drive("sleep", "600")
    told = driver.tell(f"signal {signal.SIGTERM:d}")
    assert told["exit"] == {
        "code": None,
        "signal": 15,
        "reason": "signal",
        "text": "killed by SIGTERM (15)",
        "missed": "",
    }


# Needs its helper for a while after it was asked to end.
TRAINER = """
import os, signal, subprocess, sys
helper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def save(*_):
    words = b"saved with " + helper.communicate(b"help")[0] + b"\\n"
    os.write(1, words)  # a print may be interrupted
    sys.exit(5)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: signal.pause()
"""


def test_the_program_alone_is_asked_to_end(drive):
    driver = drive(*python(TRAINER))
    driver.logged("ready")
    told = driver.tell(f"signal {signal.SIGTERM:d}")
    assert (told["last"], told["exit"]["code"]) == ("ready\nsaved with help", 5)


@pytest.mark.parametrize(
    ("script", "last"),
    [
        ("sleep 600 & echo ready; wait", "ready"),
        ("echo ready; while :; do sleep 600; echo next; done", "ready"),
        ('"$@"; echo next', "ready\nsaved with help"),
        ('"$@" & wait', "ready\nsaved with help"),
        ('exec "$@"', "ready\nsaved with help"),
        ('trap "wait; echo trapped; exit" TERM; "$@" & wait', "ready\nsaved with help\ntrapped"),
    ],
)
def test_a_shell_does_not_end_before_what_it_runs(drive, script, last):
    """And runs nothing after it."""
    driver = drive("bash", "-c", script, "run.sh", *python(TRAINER.replace('["cat"]', CAT)))
    driver.logged("ready")
    told = driver.tell(f"signal {signal.SIGTERM:d}")
    assert (told["last"], told["left"]) == (last, [])


def test_what_a_program_leaves_behind_dies_with_it(drive):
    driver = drive(*python(DAEMON))
    told = driver.tell("wait")
    word, pid = told["last"].split()
    assert (word, told["exit"]["code"], told["left"]) == ("daemon", 0, [])
    assert not alive(int(pid))


def test_a_killed_program_dies_with_all_it_has_started(drive):
    driver = drive(*python(DAEMON + "time.sleep(600)"))
    eventually(lambda: driver.log.read_text().endswith("\n"), "the daemon is there")
    daemon = int(driver.log.read_text().split()[1])
    told = driver.tell("kill")
    assert (told["exit"]["signal"], told["left"], alive(daemon)) == (9, [], False)


def test_a_program_that_cannot_be_killed_is_named(drive, tmp_path):
    """It waits for a disk that does not answer."""
    code = (
        "import sys\n"
        "file = open(sys.argv[1], 'wb', buffering=0)\n"
        "print('writes', flush=True)\n"
        "while True: file.write(b'x'); file.seek(0)"
    )
    with stuck_disk(tmp_path) as disk:
        driver = drive(*python(code), str(disk.folder / "rows"), kill_limit=0.5)
        driver.logged("writes")
        disk.freeze()
        eventually(lambda: processes.stat(driver.pid).state == "D", "it waits")
        told = driver.tell("kill")
        disk.thaw()
        eventually(lambda: not alive(driver.pid), "it ends at last")
    assert (told["exit"]["text"], told["running"]) == ("killed by SIGKILL (9)", False)
    assert told["left"] == [driver.pid]
    assert re.fullmatch(
        f"; still there after SIGKILL: process {driver.pid}, "
        r"state D: it waits for a disk or a file server( \(\w+\))?",
        told["remains"],
    )


def test_a_program_dies_with_its_runner(drive):
    driver = drive("sleep", "600")
    assert alive(driver.pid)
    driver.process.send_signal(signal.SIGKILL)
    eventually(lambda: not alive(driver.pid), "the program is dead")


def test_a_program_gets_its_environment_folder_and_session(drive, tmp_path):
    (tmp_path / "work").mkdir()
    code = "import json, os; print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0)]))"
    env = {"A": "one two", "LC_CTYPE": "C.UTF-8"}
    driver = drive(*python(code), env=env, cwd=str(tmp_path / "work"))
    driver.tell("wait")
    found, folder, session = json.loads(driver.log.read_text())
    assert found == {"PATH": os.environ["PATH"], **env}
    assert (folder, session) == (str(tmp_path / "work"), driver.pid)


def test_a_program_is_looked_for_in_its_own_path(drive, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    driver = drive("tool", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert driver.tell("wait")["last"] == "found"


def test_a_program_starts_with_the_usual_signals(drive):
    code = "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    assert drive(*python(code)).tell("wait")["last"] == "True"
    told = drive("bash", "-c", "kill -PIPE $$").tell("wait")
    assert told["exit"]["text"] == "killed by SIGPIPE (13)"
    # As a command is started that a script puts into the background.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        driver = drive("bash", "-c", "kill -INT $$")
    finally:
        signal.signal(signal.SIGINT, before)
    assert driver.tell("wait")["exit"]["text"] == "killed by SIGINT (2)"


def test_a_program_has_no_input(drive):
    assert (
        drive(*python("print(repr(input()))"))
        .tell("wait")["last"]
        .endswith("EOFError: EOF when reading a line")
    )


def test_secrets_are_struck_out_of_log_and_last_lines(drive):
    driver = drive("echo", "the word is hunter2", redact=["hunter2"])
    assert driver.tell("wait")["last"] == "the word is [secret]"
    assert driver.log.read_text() == "the word is [secret]\n"


@pytest.mark.parametrize(
    ("argv", "asked", "message"),
    [
        (["/nowhere/python"], {}, "/nowhere/python cannot be run: No such file or directory"),
        (["/etc"], {}, "/etc cannot be run: Permission denied"),
        (
            ["sleep", "1"],
            {"cwd": "/nowhere"},
            "sleep cannot be started in /nowhere: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_started_says_why(drive, argv, asked, message):
    assert json.loads(drive(*argv, **asked).first) == {"error": message}
