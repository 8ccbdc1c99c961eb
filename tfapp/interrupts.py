"""Ctrl-C as a request to stop what is followed, in place of an exception in the middle of it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

PATIENCE = 2  # requests; one more is a KeyboardInterrupt


@contextlib.contextmanager
def ctrl_c_asks(ask: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `ask`; the third one is a KeyboardInterrupt: the application is on its own.

    Where SIGINT is ignored, as a shell does for what it starts in the background, it stays so.
    Threads other than the main one get no signals.
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
