"""Programs that are started again, and programs that stand still, with real processes."""

import os
import signal
import socket

import pytest

from tests.runner.driving import eventually
from tfapp.contract.exit import Exit
from tfapp.processes import Stat, stopped
from tfapp.runner.progress import StoppedDetector

# Serves its own port, as TensorFlow does, and ends with the number of a file that it counts in. It
# leaves a returned value, and an earlier one is gone.
COUNTING = """
import json, os, pathlib, socket, sys
pathlib.Path(os.environ["TFAPP_LOG_DIR"], "tfapp-returned.json").touch(exist_ok=False)
config = json.loads(os.environ["TF_CONFIG"])
port = int(config["cluster"]["worker"][0].rpartition(":")[2])
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("", port))
server.listen()
print("generation", os.environ["TFAPP_GENERATION"], "port", port)
file = pathlib.Path("count")
count = int(file.read_text()) if file.exists() else 3
file.write_text(str(count - 1))
sys.exit(count)
"""
SLEEPING = "import os, time\nprint('pid', os.getpid())\nwhile True: time.sleep(600)"


def test_a_program_starts_again_with_its_port(application):
    port = application.run(COUNTING).ports["site.global.port"]
    for attempt in range(3):
        report = application.exit_report(attempt=attempt)
        assert (report.exit.code, report.last_lines) == (3 - attempt, f"generation 1 port {port}")
        with socket.socket() as thief:
            assert thief.connect_ex(("127.0.0.1", port)) != 0
        application.order("restart", attempt=attempt + 1)
    assert application.exit_report(attempt=3).exit.code == 0
    assert application.dismissed() == 0


def test_a_reported_runner_takes_part_in_the_next_generation(application):
    first = application.run(COUNTING).ports["site.global.port"]
    assert application.exit_report().exit.code == 3
    application.announce(2)
    second = application.answer(2)
    assert second.ports["site.global.port"] != first
    application.form(second)
    assert application.exit_report(generation=2).exit.code == 2


CHECKPOINTS = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"])
found = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
print("found", found)
folder.mkdir(parents=True, exist_ok=True)
(folder / ("ckpt-" + str(len(found)))).touch()
sys.exit(3)
"""
OWN, SHARED = "checkpoints", "shared"


@pytest.mark.parametrize(
    ("roles", "folder", "kept"),
    [
        (("worker", "worker"), OWN, False),
        (("worker", "other"), OWN, False),
        (("worker", "ps", "evaluator", "tensorboard"), OWN, True),
        (("worker",), OWN, True),
        (("worker", "worker"), SHARED, True),
    ],
)
def test_nobody_goes_on_from_checkpoints_that_the_others_do_not_have(
    application, roles, folder, kept
):
    prefix = {"site.global.user.checkpoint.prefix": str(application.folder / SHARED)}
    application.write_program(CHECKPOINTS)
    application.start(site=prefix if folder == SHARED else {})
    others = [(f"{role}/{number + 1}", role) for number, role in enumerate(roles[1:])]
    application.announce(1)
    application.form(application.answer(1), others=others)
    assert application.exit_report().last_lines == "found []"
    application.order("restart", attempt=1)  # the others go on, and so does this one
    assert application.exit_report(attempt=1).last_lines == "found ['ckpt-0']"
    application.announce(2)
    application.form(application.answer(2), others=others)
    found = ["ckpt-0", "ckpt-1"] if kept else []
    assert application.exit_report(generation=2).last_lines == f"found {found}"
    cleared = "its checkpoint folder is emptied: no other instance sees it" in application.log()
    assert cleared is not kept
    assert [path.name for path in application.root.glob("checkpoints*")] == (
        [] if folder == SHARED else [OWN]
    )


# Calls that are about the first program return while the second one runs, and say no good.
LATE = """
import time
from tfapp.runner import tensorflow_env
from tfapp.script import Program, Script

class Own(Script):
    starts = 0

    def start(self, context):
        Own.starts += 1
        env = tensorflow_env.task_environment(context.instance, context.members)
        return Program((context.python, str(context.files_dir / "program.py")), env)

    def status(self, context, handle):
        if Own.starts == 1 and LATE == "status":
            return self.wait(context)
        if (context.work_dir / "over").exists():
            (context.work_dir / "well").touch()
        return True

    def stop(self, context, handle):
        if Own.starts == 1:
            self.wait(context)
            raise RuntimeError("it does not stop")
        handle.signal(15)

    def wait(self, context):
        (context.work_dir / "called").touch()
        while not (context.work_dir / "second").exists():
            time.sleep(0.01)
        (context.work_dir / "over").touch()
        return False
"""
ENDS_ONCE_CALLED = """
import os, pathlib, sys, time
begun = pathlib.Path("begun")
again = begun.exists()
begun.touch()
while again or not pathlib.Path("called").exists():
    if again:
        pathlib.Path("second").touch()
    time.sleep(0.01)
sys.exit(3)
"""


@pytest.mark.parametrize("call", ["status", "stop"])
def test_a_call_that_returns_late_is_not_about_the_next_program(application, call):
    application.write_script(LATE.replace("LATE", repr(call)))
    application.run(ENDS_ONCE_CALLED)
    if call == "stop":
        application.beat("running")
        application.order("stop", grace=30.0)
    assert application.exit_report().exit.code == 3
    application.announce(2)
    application.form(application.answer(2))
    well = application.root / "work" / "well"
    eventually(
        lambda: well.exists() or application.log().count("worker/0 has ended") == 2,
        "the second program was looked at",
    )
    application.order("stop", generation=2, grace=30.0)
    report = application.exit_report(generation=2)
    assert (report.exit.text, report.stopped) == ("killed by SIGTERM (15)", True)


def test_a_stopped_program_is_noticed_and_ended(application):
    application.run(SLEEPING)
    pid = application.program_pid()
    os.kill(pid, signal.SIGSTOP)
    exit = application.exit_report().exit
    assert (exit.code, exit.signal, exit.reason) == (None, None, "hang")
    assert exit.text.startswith(f"process {pid} was stopped (SIGSTOP) and did not go on within ")


def test_what_was_stopped_only_for_a_moment_is_none():
    now = [0.0]
    detector = StoppedDetector(lambda: now[0])
    halted, running = Stat(7, "T", 1, 1), Stat(7, "S", 1, 1)
    looks = []
    for process in (halted, running, halted, halted):
        now[0] += 5.0
        looks.append(detector.look(stopped([process])))
    text = "process 7 was stopped (SIGSTOP) and did not go on within 5.0 s"
    assert looks == [None, None, None, Exit(None, None, "hang", text)]
