"""Follows an application to its end, and stops it on request meanwhile. No wait blocks a request to
stop. Tells what a stop waits for."""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol

from tfapp import threads
from tfapp.contract.names import FINAL_STATES, REQUESTED, RUNNING, STOPPING, WAITING
from tfapp.engines.base import Application, Engine
from tfapp.errors import TfappError, TimedOutError
from tfapp.interrupts import last_words
from tfapp.launch.caller import Caller
from tfapp.problems import first_of

# Seconds between two looks at a growing log. What changes in between is shown together.
LOOK_EVERY = 0.2
TELL_EVERY = 10.0  # seconds between two notes of what a stop waits for
MOST = 4  # instances that are named


class States:
    """The states that `engine.follow` yields, fetched by a thread of its own, so that a caller can
    work between two changes and react to Ctrl-C at any moment. The thread ends, and its connection,
    a few seconds after nobody has this object any more."""

    def __init__(self, engine: Engine, name: str, run: int | None = None):
        self._queue: queue.SimpleQueue[Application | BaseException | None] = queue.SimpleQueue()
        left = threading.Event()
        weakref.finalize(self, left.set)
        follow = functools.partial(engine.follow, name, run, left.is_set)
        threads.start_surely(f"follow-{name}", _fetch, follow, self._queue, left.is_set)

    def next(self, timeout: float) -> Application | None:
        """The next change, or None when there is none within `timeout` seconds. Raises what
        `engine.follow` raised. EOFError after the last one."""
        try:
            item = self._queue.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        if item is None:
            raise EOFError("the application has ended")
        return item


def _fetch(
    follow: Callable[[], Iterator[Application]],
    into: queue.SimpleQueue[Application | BaseException | None],
    left: Callable[[], bool],
) -> None:
    try:
        for application in follow():
            into.put(application)
            if left():
                return
        into.put(None)
    except BaseException as error:  # handed to the thread that asks
        into.put(error)


def wait_until(
    states: States,
    reached: Callable[[Application], bool],
    timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Application | None:
    """The first application of `states` for which `reached` holds or that has ended. None when
    `timeout` seconds pass first."""
    for application in changes(states, timeout, clock):
        if application is None or reached(application) or has_ended(application):
            return application
    return None


def changes(
    states: States, timeout: float | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Application | None]:
    """Yields the applications of `states` to the last one, or None and no more once `timeout` is
    over."""
    deadline = None if timeout is None else clock() + timeout
    while True:
        left = 3600.0 if deadline is None else deadline - clock()
        try:
            application = states.next(left)
        except EOFError:
            return
        if application is not None:
            yield application
        elif deadline is not None and clock() >= deadline:
            yield None
            return


class Survived:
    """Notes each failure that an application survives from now on, for who is shown nothing else of
    its state."""

    def __init__(self, caller: Caller, application: Application):
        self._caller = caller
        self._told = _last_failure(application)

    def tell(self, application: Application) -> None:
        """Notes those that are new in `application`."""
        for moment in application.status.survived:
            if moment.time > self._told:
                self._caller.note(f"{application.name}: {moment.text}")
        self._told = max(self._told, _last_failure(application))


def _last_failure(application: Application) -> float:
    """In seconds since 1970; 0 for none."""
    return max((moment.time for moment in application.status.survived), default=0.0)


def has_ended(application: Application) -> bool:
    return application.status.state in FINAL_STATES


def is_running(application: Application) -> bool:
    """Whether the cluster has formed and the programs run."""
    return application.status.state == RUNNING


def not_running_in_time(name: str, seconds: float) -> TimedOutError:
    """The error when an application does not run in time."""
    return TimedOutError(
        f"{name} is not running after {seconds:g} s; it goes on",
        f"`tfapp status {name}` says what it waits for, `tfapp stop {name}` ends it.",
    )


def told_that_it_goes_on(engine: Engine, name: str) -> contextlib.AbstractContextManager[None]:
    """In the `with` block, a process that is ended by SIGTERM or SIGHUP says what becomes of the
    application. Not for an engine whose applications end with their process."""
    if engine.stays:
        return contextlib.nullcontext()
    return last_words(f"{name} goes on; `tfapp stop {name}` ends it")


class Stopper:
    """Stops the application that is being followed. `ask` may be called from any thread or signal
    handler; it only counts. The code that follows the application calls `act`, between two writes.
    The first request stops the application with its grace, the second without."""

    def __init__(self, caller: Caller, engine: Engine, name: str, message: str, again: str = ""):
        """`message`: the reason, for the verdict. `again`: how a person asks a second time."""
        self._caller, self._engine, self._name = caller, engine, name
        self._message, self._again = message, again
        self._asks = itertools.count(1)
        self.asked = 0  # how often
        self._acted = 0

    def ask(self) -> None:
        """Requests a stop, or, if called again, a stop without grace."""
        self.asked = next(self._asks)

    def act(self, application: Application | None = None) -> None:
        """Carries out the requests since the last call. `application`: as it is now. The stop
        itself runs in a thread, so that states and output are shown meanwhile."""
        if self._acted == self.asked:
            return
        self._acted = self.asked
        force = self.asked > 1
        how = "at once" if force else self._again
        self._caller.note(f"stopping {self._name} {how}".rstrip())
        if not force and application is not None and is_running(application):
            killed = time.localtime(time.time() + application.status.stop_grace)
            moment = time.strftime("%H:%M:%S", killed)
            self._caller.note(f"{self._name}: its programs are asked to end, killed at {moment}")
        threads.start_surely("tfapp-stop", self._stop, force)

    def _stop(self, force: bool) -> None:
        try:
            self._engine.stop(self._name, self._message, force=force)
        except Exception as error:  # else it is lost with its thread
            self._caller.note(f"stopping {self._name}: {error}")


class Display(Protocol):
    def show(self, application: Application) -> None:
        """Shows the application, which has changed to this."""

    def show_output(self) -> None:
        """Shows new output, if there is any. Called every LOOK_EVERY seconds."""


def follow(
    engine: Engine,
    application: Application,
    display: Display,
    stopper: Stopper,
    wait: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Application:
    """Follows a run to its end and returns it with its verdict. TimedOutError when it is not
    RUNNING after `wait` seconds; it goes on."""
    deadline = None if wait is None else clock() + wait
    states = States(engine, application.name, application.run)
    was_running = False
    with contextlib.suppress(EOFError):
        while True:
            changed = states.next(LOOK_EVERY)
            if changed is not None:
                application = changed
                was_running = was_running or is_running(application)
                display.show(application)
            display.show_output()
            stopper.act(application)
            if deadline is not None and not was_running and clock() >= deadline:
                raise not_running_in_time(application.name, wait or 0)
    return application


@contextlib.contextmanager
def telling(
    engine: Engine, application: Application, caller: Caller, every: float = TELL_EVERY
) -> Iterator[None]:
    """While the block stops a running application, notes how long its programs have, and every
    `every` seconds which of them have not ended and when they will be killed."""
    name, grace = application.name, application.status.stop_grace
    until = time.time() + grace
    caller.note(f"{name}: its programs are asked to end, and have {grace:g} s")
    done = threading.Event()
    over = functools.partial(done.wait, every)
    watch = threads.start_surely("tfapp-stop", _watch, over, engine, name, until, caller)
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
            moment = time.strftime("%H:%M:%S", time.localtime(until))
            then = f"killed at {moment}" if time.time() < until else "killed now"
            caller.note(
                f"{name} waits for {first_of(left, MOST)}, {then} (TensorFlow may ignore SIGTERM: "
                "see site.global.stop.signal; --force does not wait)"
            )
