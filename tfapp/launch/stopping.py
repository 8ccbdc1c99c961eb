"""The notes of a command while it waits for the end of an application that it has stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from tfapp.contract.names import REQUESTED, RUNNING, STOPPING, WAITING
from tfapp.engines.base import Application, Engine
from tfapp.errors import TfappError
from tfapp.launch.caller import Caller

EVERY = 10.0  # seconds
MOST = 4  # instances that are named


@contextlib.contextmanager
def telling(
    engine: Engine, application: Application, caller: Caller, every: float = EVERY
) -> Iterator[None]:
    """While the block stops a running application, notes how long its programs have, and every
    `every` seconds which of them have not ended and when they will be killed."""
    name, grace = application.name, application.status.stop_grace
    until = time.time() + grace
    caller.note(f"{name}: its programs are asked to end, and have {grace:g} s")
    done = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(lambda: done.wait(every), engine, name, until, caller), daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _watch(
    over: Callable[[], bool], engine: Engine, name: str, until: float, caller: Caller
) -> None:
    while not over():
        try:
            instances = engine.find(name).status.instances
        except TfappError:  # it is about to end
            continue
        left = [i.instance for i in instances if i.state in (REQUESTED, WAITING, RUNNING, STOPPING)]
        if left:
            shown = ", ".join(left[:MOST])
            more = f" and {len(left) - MOST} more" if len(left) > MOST else ""
            moment = time.strftime("%H:%M:%S", time.localtime(until))
            then = f"killed at {moment}" if time.time() < until else "killed now"
            caller.note(
                f"{name} waits for {shown}{more}, {then} (TensorFlow may ignore SIGTERM: see "
                "site.global.stop.signal; --force does not wait)"
            )
