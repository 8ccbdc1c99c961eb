"""Run as a program: turns itself into the user's program, tied to the life of the runner.

    python -I -S launch.py RUNNER_PID ERROR_FD PROGRAM [ARGUMENT ...]

Here, and not between fork and exec in the runner, because that has threads. A failure to start
goes to ERROR_FD as text; a successful start closes it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Does not return."""
    runner, error_fd, program = int(argv[1]), int(argv[2]), argv[3:]
    os.set_inheritable(error_fd, False)
    # Survives the exec below.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != runner:
        os.kill(os.getpid(), signal.SIGKILL)
    # A program that is started with a signal ignored keeps that. Python ignores the first two, and
    # shells the third for what they start in the background.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if os.isatty(0):  # of a session, which has no other yet
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        os.execvp(program[0], program)
    except (OSError, ValueError) as error:  # ValueError: its name is empty
        why = getattr(error, "strerror", error)
        os.write(error_fd, f"{program[0]} cannot be run: {why}".encode())
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv)
