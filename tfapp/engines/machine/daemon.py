"""`python -m tfapp.engines.machine.daemon LAUNCHER RUN_DIR`: an application master as a process
that outlives the command that has started it, and its parent (see tfapp.master.parent),
which starts another master when one is lost. LAUNCHER is a module of an engine: see
tfapp.engines.machine.serving.

It communicates with tfapp.engines.machine.starter over pipes. Standard input receives "go" once the
run folder is complete. Standard output sends "pid MASTER PARENT", and then "ready HOST:PORT" or
"error SENTENCE", with a hint after a tab. Standard error is a third pipe until the run folder has a
log.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Sequence

from tfapp.master.parent import LOST, Parent, Turn
from tfapp.processes import redirect

GO = "go\n"
HINT = "\t"  # between an error's sentence and what to do about it


def main(argv: Sequence[str]) -> int:
    """Detaches from the starter, and has masters serve until the end, in a process each. Returns an
    exit code."""
    if os.fork():
        return 0  # the starter is not this process's parent: it never has to wait for it
    for number in (signal.SIGHUP, signal.SIGINT):
        # Not SIG_IGN, which containers would inherit.
        signal.signal(number, lambda *_: None)
    # A shell ignores it in what it starts in the background.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    parent = Parent()
    return parent.keep(lambda turn: _serve(argv, turn, parent), _begun)


def _begun(master: int) -> None:
    _tell(f"pid {master} {os.getpid()}")
    redirect(os.O_RDWR, os.devnull, 0, 1, 2)  # the pipes are the master's


def _serve(argv: Sequence[str], turn: Turn, parent: Parent) -> int:
    """Serves as a master, the first one once there is "go". Returns an exit code."""
    # While the starter still makes up its mind.
    from tfapp.engines.machine.serving import Place, prepare, run_master
    from tfapp.master.children import ParentLine

    launcher, run = argv
    prepared = prepare(launcher, time.time())
    if turn.attempt == 1 and sys.stdin.readline() != GO:
        return 1  # the starter gave up
    _allow_many_connections()
    code = run_master(
        run,
        prepared,
        lambda address: _tell(f"ready {address}"),
        lambda sentence, hint: _tell(f"error {sentence}{HINT}{hint}"),
        time.time,
        Place(socket.gethostname(), os.getppid(), turn.attempt, turn.killed, turn.lost),
        ParentLine.of(turn, parent),
    )
    return LOST if code is None else code


def _tell(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody listens any more; go on
        print(line, flush=True)


def _allow_many_connections() -> None:
    """Raises the limit of open files: each container has a connection. The usual limit is 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    status = main(sys.argv[1:])
    # Descriptors of a broken pipe must not raise again at exit.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    os._exit(status)
