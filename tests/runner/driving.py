"""Starts tests/runner/program_driver.py and talks to it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import wait
from tfapp.ready import ready

PATIENCE = 60.0  # seconds, for what happens at once unless it is broken


def eventually(true: Callable[[], Any], what: str) -> Any:
    """The first true value of `true()`. AssertionError when there is none in time."""
    return wait(true, f"not in time: {what}", PATIENCE, every=0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


class Driver:
    def __init__(self, folder: Path, *argv: str, **asked: Any):
        self.log = folder / "log"
        asked = {"argv": argv, "cwd": str(folder), "log": str(self.log), **asked}
        script = str(Path(__file__).with_name("program_driver.py"))
        self.process = subprocess.Popen(
            [sys.executable, script, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self._read()
        self.pid = int(self.first.split()[1]) if self.first.startswith("started") else 0

    def tell(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self._read())

    def logged(self, text: str) -> None:
        eventually(lambda: self.log.exists() and text in self.log.read_text(), f"log: {text}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        if self.pid and alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)

    def _read(self) -> str:
        assert self.process.stdout is not None
        assert ready([self.process.stdout], seconds=PATIENCE)[0], "the driver says nothing"
        return self.process.stdout.readline()
