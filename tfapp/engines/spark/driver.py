"""The driver's agent: submits the jobs of one application to the SparkContext of this process on
the orders of its master, and reports their ends. When its connection ends, the driver has ended."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp import threads
from tfapp.engines.credentials import read_pem
from tfapp.engines.machine.folders import RunFolder
from tfapp.engines.machine.state import read_config, read_state
from tfapp.engines.spark.control import CONTROL_FILE, WORDS_LIMIT
from tfapp.engines.spark.session import (
    OWN_JOBS,
    end_of,
    first_words,
    given_up,
    profile,
    running,
    slots,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_EVERY = 1.0  # seconds between two looks at the SparkContext
LOOK_FOR_WORDS_EVERY = 0.1
CONNECT_LIMIT = 20.0
NEXT_EVERY = 0.1
OVER = "The SparkContext was stopped."
_ADDRESS = re.compile(r"([!-~]+):([0-9]{1,5})")  # host:port
_LAST_PORT = 65535

log = logging.getLogger(__name__)


_AGENTS: weakref.WeakSet[Agent] = weakref.WeakSet()


class Agent:
    """The agent of one run with a running master. It works in its own threads until the master
    ends. If that was lost, it follows the next one."""

    def __init__(self, context: SparkContext, run: RunFolder):
        """OSError if the master cannot be reached; ValueError if a file of the run is damaged."""
        self._context = context
        self._run_folder = run
        self._patience = read_config(run).master_timeout
        self._lock = threading.Lock()
        self._waiting: set[str] = set()  # jobs that have not ended
        self._ended: dict[str, dict[str, Any]] = {}  # the reports on the others
        self._over = threading.Event()
        self._connect()
        _AGENTS.add(self)

    def _connect(self) -> None:
        run, state = self._run_folder, read_state(self._run_folder)
        for path in (run.certificate, run.key):
            read_pem(path)
        tls = ssl.create_default_context(cafile=run.certificate)
        tls.load_cert_chain(run.certificate, run.key)
        tls.check_hostname = False  # all of an application have this one certificate
        address = _address(run.path / CONTROL_FILE)
        # Two connections: one is read, the other is written, each by one thread at a time.
        with contextlib.ExitStack() as stack:
            orders = stack.enter_context(_connect(tls, address, "orders"))
            reports = stack.enter_context(_connect(tls, address, "reports"))
            stack.pop_all()
        with self._lock:
            self._state, self._orders, self._reports = state, orders, reports

    def start(self) -> None:
        threads.start_surely("tfapp-spark", self._take_orders, failed=lambda _: self._end())
        threads.keep("tfapp-spark-look", self._look)

    def _take_orders(self) -> None:
        while True:
            with contextlib.suppress(OSError, ValueError), self._orders.makefile("rb") as lines:
                for line in lines:
                    self._obey(json.loads(line))
            self.close()
            if not self._follow():
                self._end()
                return

    def _obey(self, order: Mapping[str, Any]) -> None:
        if order["do"] == "run":
            self._begin(order)
        elif order["do"] == "keep":
            self._keep(order["wanted"])
        elif order["do"] == "explain":
            about = order["id"], order["attempt"]
            threads.start_surely("tfapp-spark-words", self._explain, *about)
        else:
            self._cancel(order["id"])

    def _follow(self) -> bool:
        """Connects to the next master, if there is one, also to tell it that there is no
        SparkContext any more."""
        until = time.monotonic() + self._patience
        while time.monotonic() < until:
            state = read_state(self._run_folder)
            if state is None or not state.lives:
                return False
            if state.address and state != self._state:
                try:
                    self._connect()
                    return True
                except (OSError, ValueError) as error:  # it is lost, too, or begins
                    log.info("the next master cannot be reached: %s", error)
            time.sleep(NEXT_EVERY)
        return False

    def _keep(self, wanted: Mapping[str, bool]) -> None:
        """Ends the jobs that this master does not want, and reports those that have ended.
        `wanted`: the container of a job -> whether a master before this one has started it."""
        for id in self._waiting - set(wanted):
            self._cancel(id)
        self._ended = {id: said for id, said in self._ended.items() if wanted.get(id)}
        for said in tuple(self._ended.values()):
            self._report(said)

    def _end(self) -> None:
        """Ends its jobs and connections, by which the master knows."""
        self._over.set()
        for id in tuple(self._waiting):  # the master has ended, in order or not
            self._cancel(id)
        self.close()

    def _begin(self, order: Mapping[str, Any]) -> None:
        id = order["id"]
        if id in self._waiting:  # by order of the master before
            return
        from pyspark import InheritableThread

        self._ended.pop(id, None)
        self._waiting.add(id)
        threads.start_surely("tfapp-spark-job", self._run, order, kind=InheritableThread)

    def _run(self, order: Mapping[str, Any]) -> None:
        id, words, cannot = order["id"], "", False
        try:
            self._submit(order)
        except Exception as error:  # Spark's Java exceptions have no class of their own here
            words, cannot = first_words(error), given_up(error)
            log.info("the job of %s has failed", id, exc_info=True)
            if not running(self._context):
                self._report({"over": OVER})
        self._ended[id] = said = {"ended": id, "words": words, "cannot": cannot}
        self._waiting.discard(id)
        self._report(said)

    def _submit(self, order: Mapping[str, Any]) -> None:
        from pyspark import cloudpickle

        from tfapp.engines.spark import container

        context = self._context
        context.setJobGroup(_group(order["id"]), order["label"], interruptOnCancel=True)
        data = context.parallelize([0], 1)
        needs = profile(context, order["vcores"], order["gpus"])
        if needs is not None:
            data = data.withResources(needs)
        # The executors have no tfapp: the function itself travels.
        cloudpickle.register_pickle_by_value(container)
        data.mapPartitions(container.container(order["order"])).collect()

    def _explain(self, id: str, attempt: int) -> None:
        """Tells Spark's own words about an attempt at the task of a job, which has ended, and
        cancels the job: Spark would run its task again."""
        words, limit = "", time.monotonic() + WORDS_LIMIT
        with contextlib.suppress(Exception):  # the context ends at this moment
            while (
                not (words := end_of(self._context, _group(id), attempt))
                and time.monotonic() < limit
            ):
                if self._over.wait(LOOK_FOR_WORDS_EVERY):
                    break
        self._report({"explained": id, "words": words})
        self._cancel(id)

    def _cancel(self, id: str) -> None:
        with contextlib.suppress(Exception):  # the context is gone, and its jobs with it
            self._context.cancelJobGroup(_group(id))

    def _look(self) -> None:
        """Reports the end of the SparkContext, to each master that there is, and, while jobs wait,
        the number of slots."""
        while not self._over.wait(LOOK_EVERY):
            if not running(self._context):
                self._report({"over": OVER})
            elif self._waiting:
                with contextlib.suppress(Exception):  # the context ends at this moment
                    found, free = slots(self._context)
                    self._report({"slots": found, "free": free})

    def _report(self, what: Mapping[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._reports.sendall(json.dumps(what).encode() + b"\n")

    def close(self) -> None:
        """Closes its connections in this process only."""
        for connection in (self._orders, self._reports):
            with contextlib.suppress(OSError):
                connection.close()


def _address(path: Path) -> tuple[str, int]:
    """The host and the port in a control file. ValueError if there are none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ValueError(f"{path} cannot be read: {why}") from error
    found = _ADDRESS.fullmatch(text)
    if not found or int(found[2]) > _LAST_PORT:
        raise ValueError(f"{path} is damaged")
    return found[1].strip("[]"), int(found[2])


def _group(id: str) -> str:
    return f"{OWN_JOBS}{id}"


def _close_all() -> None:
    for agent in tuple(_AGENTS):
        agent.close()


# A child of the driver must not keep the connections open: their end is the driver's.
os.register_at_fork(after_in_child=_close_all)


def _connect(tls: ssl.SSLContext, address: tuple[str, int], role: str) -> ssl.SSLSocket:
    connection = tls.wrap_socket(socket.create_connection(address, CONNECT_LIMIT))
    try:
        connection.settimeout(None)
        connection.sendall(json.dumps({"role": role}).encode() + b"\n")
    except OSError:
        connection.close()
        raise
    return connection
