"""The `tfapp` command as a process, on the local engine, in a TFAPP_HOME of a test's own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tfapp.shipped import app_packages_dir

TENSORFLOW = app_packages_dir() / "tensorflow"
LIMIT = 120  # seconds that any command of a test may take


def start(*words: object, cwd: Path, environ: Mapping[str, str] | None = None):
    """A `tfapp` that runs, its outputs in pipes, in a session of its own as in a shell."""
    return subprocess.Popen(
        [sys.executable, "-m", "tfapp", *map(str, words)],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def call(*words: object, cwd: Path, environ: Mapping[str, str] | None = None):
    """A `tfapp` that has ended: its exit code, standard output and standard error."""
    process = start(*words, cwd=cwd, environ=environ)
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def processes_of(home: Path) -> list[int]:
    """The processes whose environment names `home`, as all do that an application consists of."""
    mark = f"TFAPP_HOME={home}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environ = (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes()
            except OSError:  # it has ended since
                continue
            if mark in environ or bytes(home) in command:
                found.append(int(folder.name))
    return found


def end_processes_of(home: Path) -> list[int]:
    """`processes_of`, each of which is killed: what a failed test left must not stay."""
    found = processes_of(home)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found
