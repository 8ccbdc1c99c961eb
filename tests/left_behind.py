"""Nothing that a test session has started runs when it has ended, however it has.

Fixtures end what they start. Where the session is killed they cannot: a process beside it hears of
that by the end of a pipe, and kills what has the session's folder in its environment.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.runner.docker.engine import unmount_below

LIMIT = 60.0  # seconds
_MARK = "TFAPP_TEST_SESSION"  # the session's folder, for what has it nowhere else
_CALLERS = (b"PWD=", b"OLDPWD=")  # where somebody was who looks at the session's files


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Processes that this one starts meanwhile end with the block. `folder` is its own."""
    os.environ[_MARK] = f"{folder}{os.sep}"
    watch = subprocess.Popen(
        [sys.executable, "-m", "tests.left_behind", str(folder)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        del os.environ[_MARK]
        watch.communicate(timeout=2 * LIMIT)


def main(folder: Path) -> None:
    """Waits for the session's end, and for that of all that is left of it."""
    sys.stdin.read()
    end = time.monotonic() + LIMIT
    nothing = 0
    # Twice: a process that is between two programs (exec) has no environment for a moment.
    while nothing < 2 and time.monotonic() < end:
        found = left(folder) - {os.getpid()}
        nothing = 0 if found else nothing + 1
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    unmount_below(folder)


def left(folder: Path) -> set[int]:
    """The processes that have a place in `folder` in their environment, and their children's."""
    mark = os.fsencode(f"{folder}{os.sep}")
    parents, found = {}, set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            if state in "ZX":
                continue
            parents[int(path.name)] = int(parent)
            environ = (path / "environ").read_bytes().split(b"\0")
            if any(mark in value for value in environ if not value.startswith(_CALLERS)):
                found.add(int(path.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
