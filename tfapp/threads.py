"""The one place where threads begin. A program's life depends on the thread of the heartbeat, its
verdict on the thread that waits for it. None of them ends without a word: what `keep` runs goes on
after an error, what `start` runs may have a `failed` that ends what depends on it, and the log says
why.

A process may have no room for another thread for a moment (pids limit, ulimit -u, memory). That is
an OSError here, as for files: `start` raises it, `start_surely` waits, `in_thread` too.

This module is shipped to containers and to programs, so it uses the standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Optional, TypeVar

PAUSE = 0.5  # seconds after an error until the next attempt
SAY_EVERY = 60.0  # seconds between two lines on the same error of the same thread
AT_ONCE = 32  # threads that `in_thread` uses at once

T = TypeVar("T")
Failed = Optional[Callable[[BaseException], object]]

_said: dict[tuple[str, type], float] = {}
_rooms: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    weakref.WeakKeyDictionary()
)


def start(
    name: str,
    work: Callable[..., object],
    *args: Any,
    failed: Failed = None,
    kind: type[threading.Thread] = threading.Thread,
) -> threading.Thread:
    """Calls `work(*args)` in a daemon thread. If it raises, the log says so and `failed` is called
    with the error. `kind`: the class of the thread. OSError if no thread can be started now."""

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            say(name, error)
            if failed is not None:
                failed(error)

    thread = kind(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, f"no thread can be started for {name}: {error}") from error
    return thread


def start_surely(
    name: str, work: Callable[..., object], *args: Any, **more: Any
) -> threading.Thread:
    """As `start`, but waits until there is room for a thread."""
    while True:
        try:
            return start(name, work, *args, **more)
        except OSError as error:
            say(name, error)
            time.sleep(PAUSE)


def keep(name: str, work: Callable[[], object]) -> threading.Thread:
    """Calls `work` in a thread until it returns: after an error it is called again, a moment
    later."""

    def run() -> None:
        while True:
            try:
                work()
                return
            except Exception as error:
                say(name, error)
                time.sleep(PAUSE)

    return start_surely(name, run)


def after(seconds: float, name: str, work: Callable[[], object]) -> Callable[[], None]:
    """Calls `work` in `seconds` seconds. Returns a function that calls it off."""
    off = threading.Event()
    start_surely(name, lambda: off.wait(seconds) or work())
    return off.set


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """As `asyncio.to_thread`, but waits until there is room for a thread. to_thread raises then,
    and may call `work` all the same, later."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(set_it: Callable[[Any], None], value: Any) -> None:
        if not done.done():  # else it was cancelled
            set_it(value)

    def run() -> None:
        told: tuple[Callable[[Any], None], Any]
        try:
            told = done.set_result, work(*args)
        except BaseException as error:
            told = done.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, *told)

    async with _rooms.setdefault(loop, asyncio.Semaphore(AT_ONCE)):
        while True:
            try:
                start("tfapp-call", run)
            except OSError as error:
                say("tfapp-call", error)
                await asyncio.sleep(PAUSE)
            else:
                return await done


def say(name: str, error: BaseException) -> None:
    """Writes an error of the thread `name` to the log, once in SAY_EVERY seconds."""
    key, now = (name, type(error)), time.monotonic()
    if now - _said.get(key, -math.inf) < SAY_EVERY:
        return
    _said[key] = now
    import logging  # not loaded before it is needed

    logging.getLogger(__name__).error("%s: %s", name, error, exc_info=error)
