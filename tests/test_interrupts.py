"""Processes that tests start can be interrupted, also where the tests' parent ignores SIGINT."""

import signal
import subprocess
import sys

import pytest

from tests import programs
from tests.readme import README

CHILD = (
    "import signal, subprocess, sys\n"
    "assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN\n"
    "import tests.conftest\n"
    "show = 'import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)'\n"
    "subprocess.run([sys.executable, '-c', show], check=True)\n"
)


IN_A_DESTRUCTOR = """
import signal, time
from tfapp.cli.main import _never_ignore_ctrl_c

class Module:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

_never_ignore_ctrl_c()
try:
    Module()
    time.sleep(300)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_ctrl_c_that_python_ignores_comes_again():
    signals = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = programs.python("-c", IN_A_DESTRUCTOR)
    finally:
        signal.signal(signal.SIGINT, signals)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_an_ignored_sigint_is_not_passed_on():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD], cwd=README.parent, stdout=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.communicate(timeout=300)[0] == "False\n"


TELLS = """
import os, signal, sys, threading, time
from tfapp.interrupts import last_words

for number in (signal.SIGTERM, signal.SIGHUP):  # nohup and the like pass on that it is ignored
    signal.signal(number, signal.SIG_DFL)
{prepare}
def wait():
    with last_words("j goes on"):
        print("follows", flush=True)
        time.sleep(300)
{run}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("prepare", "run", "told"),
    [
        ("", "wait()", "j goes on\n"),
        ("sys.stderr.close()", "wait()", "j goes on\n"),
        ("", "threading.Thread(target=wait).start()", ""),
        ("", "with last_words('other'): pass\nprint('follows', flush=True)\ntime.sleep(300)", ""),
    ],
    ids=["followed", "without sys.stderr", "another thread", "not any more"],
)
def test_a_command_that_is_ended_has_last_words(number, prepare, run, told):
    words = [sys.executable, "-c", TELLS.format(prepare=prepare, run=run)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        try:
            assert one.stdout.readline() == "follows\n"
            one.send_signal(number)
            assert one.communicate(timeout=60)[1] == told
            assert one.returncode == -number
        finally:
            one.kill()


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "lambda *_: os.write(1, b'mine\\n')"])
def test_a_signal_that_somebody_handles_stays_his(handler):
    prepare = f"signal.signal(signal.SIGTERM, {handler})"
    words = [sys.executable, "-c", TELLS.format(prepare=prepare, run="wait()")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        try:
            assert one.stdout.readline() == "follows\n"
            one.send_signal(signal.SIGTERM)
            if "mine" in handler:
                assert one.stdout.readline() == "mine\n"
            assert one.poll() is None
            one.kill()
            assert one.communicate(timeout=60)[1] == ""
        finally:
            one.kill()
