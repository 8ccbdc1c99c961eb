"""Kills the process that has started it once that stands still: whoever has started that one then
starts another. A file that is run by its path, so that it is small: it loads nothing of tfapp.

Standard input is a pipe, into which that process writes a byte each second. Its end is the end of
that process.
"""

import os
import select
import signal
import sys
import time

BEAT = 1.0  # seconds between two signs of life
SILENCE = 10.0  # seconds without one
_TICK = 1.0  # seconds; a watchdog that was stopped itself has not seen the silence


def main() -> None:
    watched = os.getppid()
    poller = select.poll()
    poller.register(0, select.POLLIN)
    silent = 0.0
    while silent < SILENCE:
        before = time.monotonic()
        if poller.poll(_TICK * 1000):
            if not os.read(0, 4096):
                return
            silent = 0.0
        else:
            silent += min(time.monotonic() - before, _TICK)
    if os.getppid() == watched:
        sys.stderr.write(f"tfapp: this process stood still for {SILENCE:.0f} s, and is killed\n")
        sys.stderr.flush()
        os.kill(watched, signal.SIGKILL)


if __name__ == "__main__":
    main()
