"""What commands say while the master of an application does not answer, on the local engine."""

import re
import signal

import pytest

from tests.end_to_end.command_line import LIMIT
from tests.end_to_end.sessions import create
from tests.waiting import wait
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state, read_status
from tfapp.processes import send

pytestmark = pytest.mark.slow

FLEX = ("flex", "app", "--component", "worker", "1")
ASK = (
    ("stacks", "app"),
    ("exec", "app", "worker/0", "--", "true"),
    ("profile", "app", "--seconds", "1"),
    FLEX,
)
KILL = ("kill-container", "app", "worker/0")
SHOW = (("status", "app"), ("list",), ("exports", "app"), ("report", "app"), ("logs", "app"))
SILENT = re.compile(
    r"error: the master of app has not answered for \d+ s(; it spoke last at [\d-]{10} [\d:]{8})?\n"
    r"  It hangs, or the network between is cut\. `tfapp stop app` ends the application without "
    r"it\.\n"
)
WAITS = r"^waits +its master does not answer; this is what it said at [\d-]{10} [\d:]{8}$"


@pytest.fixture
def hangs(tfapp, request):
    """A function that lets the master hang, and with the parameter its parent too, so that no other
    one takes its place."""
    create(tfapp)
    run = Home(tfapp.home).app("app").run(1)
    told = tfapp.status("app")["status"]["state"]
    assert told == "RUNNING"
    wait(lambda: read_status(run).state == told, "the next one would not know that", LIMIT)
    state, stopped = read_state(run), []

    def stop():
        stopped.extend([state.parent] if request.param else [])
        stopped.append(state.process)
        for process in stopped:
            send(process, signal.SIGSTOP)

    yield stop
    for process in stopped:
        send(process, signal.SIGCONT)
    tfapp.ok("stop", "app", "--force")


def asked(tfapp, commands):
    """What these commands come to, all at the same time: their exit codes and what they print."""
    started = {command: tfapp.start(*command) for command in commands}
    told = {command: process.communicate(timeout=LIMIT) for command, process in started.items()}
    return {command: (started[command].returncode, *told[command]) for command in commands}


@pytest.mark.parametrize("hangs", [False], indirect=True)
def test_a_command_waits_for_the_next_master(tfapp, hangs):
    hangs()
    for command, (code, _, said) in asked(tfapp, (FLEX, KILL)).items():
        assert code == 0, (command, said)


@pytest.mark.parametrize("hangs", [True], indirect=True)
def test_a_command_says_that_no_master_answers(tfapp, hangs):
    """What needs none shows what was known last."""
    hangs()
    found = asked(tfapp, (*ASK, KILL, *SHOW))
    for command in (*ASK, KILL):
        code, _, said = found[command]
        assert (code, bool(SILENT.fullmatch(said))) == (48, True), (command, said)
    for command in SHOW:
        code, _, said = found[command]
        assert (code, said) == (0, ""), (command, said)
    assert re.search(WAITS, found[SHOW[0]][1], re.MULTILINE)
    assert "begins" in found[SHOW[-1]][1]


def test_the_logs_of_an_application_whose_only_master_hangs(tfapp):
    create(tfapp, "--option", "site.global.master.attempts", 1)
    hung = read_state(Home(tfapp.home).app("app").run(1)).process
    send(hung, signal.SIGSTOP)
    found = asked(tfapp, (("logs", "app"), ("logs", "app", "-f"), ("status", "app")))
    (code, out, said), *others = found.values()
    assert (code, "begins" in out) == (0, True)
    assert re.fullmatch(r"warning: the master of app has not answered for \d+ s\n", said)
    for code, _, said in others:
        assert (code, bool(SILENT.fullmatch(said))) == (48, True), said
    send(hung, signal.SIGCONT)
    tfapp.ok("stop", "app", "--force")
