"""Processes that tests start can be interrupted, also where the tests' own parent ignores
SIGINT."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.readme import README

CHILD = (
    "import signal, subprocess, sys\n"
    "assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN\n"
    "import tests.conftest\n"
    "show = 'import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)'\n"
    "subprocess.run([sys.executable, '-c', show], check=True)\n"
)


def test_an_ignored_sigint_is_not_passed_on():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD], cwd=README.parent, stdout=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.communicate(timeout=300)[0] == "False\n"
