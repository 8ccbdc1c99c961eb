"""Makes Ctrl-C a request to stop the application, in place of a KeyboardInterrupt."""

from __future__ import annotations

import contextlib
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
