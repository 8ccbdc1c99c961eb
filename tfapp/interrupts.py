"""What signals do to a command that follows an application: Ctrl-C asks to stop it, in place of a
KeyboardInterrupt; SIGTERM and SIGHUP end the command alone, which says so."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

PATIENCE = 2  # requests; the next Ctrl-C is a KeyboardInterrupt


@contextlib.contextmanager
def ctrl_c_asks(ask: Callable[[], None]) -> Iterator[None]:
    """In the `with` block, Ctrl-C calls `ask`. The third Ctrl-C also raises KeyboardInterrupt, for
    a user who does not want to wait.

    Nothing changes if SIGINT is ignored, as shells do for background jobs, or in a thread other
    than the main one, which gets no signals.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        ask()
        if asked > PATIENCE:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def last_words(text: str) -> Iterator[None]:
    """In the `with` block, SIGTERM and SIGHUP write a line to standard error before they end this
    process. Nothing changes for a signal that somebody else handles or ignores, or in a thread
    other than the main one."""
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
        and threading.current_thread() is threading.main_thread()
    ]

    def handle(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            os.write(2, f"{text}\n".encode())  # sys.stderr may be in the middle of a write
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
