"""What commands and calls leave open in a process that goes on: nothing that grows with their
number."""

import contextlib
import os
import threading

import pytest

import tfapp as api
from tests.end_to_end.command_line import LIMIT
from tests.end_to_end.sessions import create
from tests.waiting import wait
from tfapp.errors import TfappError

pytestmark = pytest.mark.slow

TIMES = 5
AGAIN = ("start", "app")
COMMANDS = (
    ("status", "app"),
    ("logs", "app"),
    ("logs", "app", "worker/0", "--tail", "1", "--timestamps"),
    ("list",),
    ("exists", "app"),
    ("exports", "app"),
    ("report", "app"),
    ("diagnostics", "app"),
    ("wait", "app", "--timeout", "0"),
    ("tensorboard", "app"),
    ("stacks", "app"),
    ("stacks", "app", "worker/7"),
    ("flex", "app", "--component", "worker", "+0"),
    ("flex", "app", "--component", "nothing", "2"),
    ("exec", "app", "worker/0", "--", "true"),
    ("exec", "app", "worker/0", "--", "no-such-command"),
    ("kill-container", "app", "worker/7"),
    ("stop", "nothing"),
    AGAIN,
)
CALLS = {
    "status": lambda app: app.status(),
    "logs": lambda app: app.logs(),
    "exports": lambda app: app.exports(),
    "stacks": lambda app: app.stacks(),
    "flex": lambda app: app.flex("worker", "+0"),
    "exec": lambda app: app.exec("worker/0", "true"),
    "exec for too long": lambda app: app.exec("worker/0", "sleep", "60", timeout=0.1),
    "wait": lambda app: app.wait(timeout=0.1),
    "tensorboard": lambda app: app.tensorboard(timeout=0.1),
}


@pytest.fixture
def running(tfapp, monkeypatch):
    monkeypatch.chdir(tfapp.work)
    create(tfapp)
    yield tfapp
    tfapp.ok("stop", "app", "--force")


def test_what_commands_leave_open(running):
    for command in COMMANDS:
        check(running.here, *command)
    running.ok("stop", "app", "--force")
    for command in COMMANDS:
        if command != AGAIN:
            check(running.here, *command)


def test_what_calls_leave_open(running):
    for call in CALLS.values():
        check(ask, call)
    running.ok("stop", "app", "--force")
    for call in CALLS.values():
        check(ask, call)


def ask(call):
    with contextlib.suppress(TfappError):
        call(api.open("app", "local"))


def check(asked, *words):
    """Asserts that asking TIMES times leaves no more than asking once."""
    asked(*words)  # what is loaded once
    wait(lambda: not threads(), threads, LIMIT)
    before = files()
    for _ in range(TIMES):
        asked(*words)
    wait(lambda: not threads(), threads, LIMIT)
    more = f"after {words}: {before} files were open, and now"
    wait(lambda: files() <= before, lambda: f"{more} {files()}", LIMIT)


def files():
    return len(os.listdir("/proc/self/fd"))


def threads():
    """Those that follow the application, or listen to its master."""
    return [thread.name for thread in threading.enumerate() if "app" in thread.name]
