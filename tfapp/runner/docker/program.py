"""The user's program in a Docker container: started, watched, ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Union

from tfapp import processes, threads
from tfapp.contract.exit import SHELL_SIGNAL, Exit
from tfapp.contract.names import MAX_LAST_LINES
from tfapp.frozen import frozen
from tfapp.runner import catcher, cgroup, exits
from tfapp.runner.docker import ownership
from tfapp.runner.docker.engine import DockerEngine, EngineError, MissingError
from tfapp.runner.output import LastLines, Redactor, relay
from tfapp.runner.program import StartError

KILL_LIMIT = 30.0  # seconds that an end may take to be confirmed

_SIGHT_LIMIT = 10.0  # seconds in which an engine knows of a process's end
_LOOK_EVERY = 0.5  # seconds between looks at a program of which the engine says nothing
_NOT_RUN = 127  # what the container's init says when it cannot run the program
_INIT_WORDS = "[FATAL tini"
_LONGEST_LINE = 64 * 1024  # bytes of a line that are held back


@frozen
class _Died:
    code: int


@frozen
class _MemoryKill:
    pass


@frozen
class _Paused:
    paused: bool  # or goes on


@frozen
class _Removed:
    pass


@frozen
class _Lost:
    message: str


_News = Union[_Died, _MemoryKill, _Paused, _Removed, _Lost]


class DockerProgram:
    """A started program (tfapp.runner.run_mode.Running). Its standard output goes to the descriptor
    `sink`, its standard error to `errors`, or along with the rest."""

    def __init__(
        self,
        engine: DockerEngine,
        config: Mapping[str, Any],
        redact: Iterable[str] = (),
        sink: int = 1,
        errors: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """StartError when it cannot be started; then no container is left."""
        self._engine = engine
        self._clock = clock
        self._name, self._image = config["Entrypoint"][0], config["Image"]
        self._last = LastLines(MAX_LAST_LINES)
        self._written = 0
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._ended = threading.Event()
        self.process: processes.Process | None = None  # the container's first
        self._memory_kill = False
        self._paused = False
        self.exit: Exit | None = None  # once it has ended
        self.seconds = 0.0  # how long it ran, once it has ended
        self.remains = ""
        self._killed: float | None = None  # when it was killed first
        try:
            self.container = engine.create(config)  # Docker's id
        except EngineError as error:
            raise StartError(str(error)) from error
        try:
            self._start(Redactor(redact), sink, errors)
        except EngineError as error:
            with contextlib.suppress(EngineError):  # then the guard will do it
                engine.remove(self.container)
            raise StartError(str(error)) from error

    def _start(self, redactor: Redactor, sink: int, errors: int | None) -> None:
        events = self._engine.events(self.container)
        output = self._engine.output(self.container)
        chunks = self._lines(output, errors)
        self._pump = _background("output", lambda: relay(chunks, sink, redactor, self._last))
        _background("events", lambda: self._watch(events))
        try:
            self._engine.start(self.container)
        except EngineError:
            output.close()
            raise
        self.started = self._clock()
        self.process = self._find_process()
        self._pids: tuple[int, ...] = (self.pid,) if self.pid else ()
        self.group = cgroup.Group(self.pid, self.container) if self.pid else None

    @property
    def pid(self) -> int:
        """The pid, on this machine, of the container's first process; 0 if it has ended."""
        return self.process.pid if self.process is not None else 0

    @property
    def alive(self) -> bool:
        return self.exit is None and self.process is not None and processes.is_alive(self.process)

    def running(self) -> bool:
        """Whether Docker says that it runs. An engine that does not answer has not said that it
        does not."""
        if not self.alive:
            return False
        try:
            return bool(self._engine.state(self.container).get("Running"))
        except MissingError:
            return False
        except EngineError:
            return self.alive

    def stopped(self) -> tuple[str, ...]:
        """See Running.stopped. Without what `docker exec` has started."""
        if not self.alive:
            return ()
        if self._paused:  # whose processes look as if they slept
            return (f"its container {self.container[:12]} was paused (docker pause)",)
        found = processes.tree(self.pid)
        self._pids = tuple(process.pid for process in found if not process.dead)
        return processes.stopped(found)

    def pids(self) -> tuple[int, ...]:
        """See Running.pids. Without what `docker exec` has started."""
        return self._pids

    def signal(self, number: int) -> str:
        # Not by way of the engine: that may hang. The container's init passes a signal on to its
        # first child alone, and the container ends with that child.
        program = self._first_child()
        return catcher.send(program, number) if program is not None else ""

    def catches(self, number: int) -> bool:
        program = self._first_child()
        return program is not None and processes.catches(program.pid, number)

    def kill(self) -> None:
        if self.process is not None:
            processes.send(self.process, signal.SIGKILL)
        self._killed = self._killed or self._clock()
        if self._paused:  # and dies when it goes on
            _background("unpause", self._unpause)

    def wait(self) -> Exit:
        """See Running.wait. The container is gone then, or `remains` says what lives."""
        died = self._await_death()
        self.seconds = self._clock() - self.started
        self.remains = self._clear_up(lost=isinstance(died, _Lost))
        self._pump.join(KILL_LIMIT)
        self.exit = decoded = self._decode(died)
        self._ended.set()
        return decoded

    def wait_ended(self, timeout: float) -> bool:
        """Whether, within `timeout` seconds, another thread's `wait` has come back, and nothing
        remains."""
        return self._ended.wait(timeout) and not self.remains

    @property
    def written(self) -> int:
        return self._written

    def last_lines(self) -> str:
        return self._last.text()

    def _first_child(self) -> processes.Process | None:
        """The program below the container's init, which is older than the orphans there."""
        if not self.alive:
            return None
        below = [p for p in processes.tree(self.pid) if p.parent == self.pid and not p.dead]
        first = min(below, key=lambda found: (found.started, found.pid), default=None)
        return first and processes.Process(first.pid, first.started)

    def _find_process(self) -> processes.Process | None:
        """The container's first process, None when it has ended. EngineError when it is none of
        this machine, where neither ports nor folders would be those of the runner."""
        end = self._clock() + _SIGHT_LIMIT
        while (pid := self._engine_pid()) != 0:
            process = ownership.of_container(pid, self.container)
            if process is not None:
                if ownership.shares_network(pid):
                    return process
                raise EngineError(
                    "the Docker engine gives containers a network of its own even where the "
                    "machine's is asked for: a rootless engine cannot run programs that serve ports"
                )
            # It may have ended a moment ago, and the engine does not know yet.
            if self._clock() >= end:
                raise EngineError(
                    "the Docker engine runs its containers on another machine, or out of this "
                    "runner's sight"
                )
            time.sleep(0.02)
        return None

    def _engine_pid(self) -> int:
        """The container's first process by the engine's word, 0 when it has ended."""
        try:
            return int(self._engine.state(self.container).get("Pid", 0))
        except MissingError:
            return 0

    def _watch(self, events: Generator[Mapping[str, Any], None, None]) -> None:
        try:
            with contextlib.closing(events):
                for event in events:
                    news = _news_of(event)
                    if news is not None:
                        self._news.put(news)
                    if isinstance(news, _Removed):
                        return
        except Exception as error:  # whatever it is, no more is heard of the program
            self._news.put(_Lost(str(error)))
        else:
            self._news.put(_Lost("the Docker engine has ended"))

    def _await_death(self) -> _Died | _Lost:
        overdue: float | None = None
        while True:
            try:
                news = self._news.get(timeout=_LOOK_EVERY)
            except queue.Empty:
                if self.alive:
                    if self._killed is not None and self._clock() >= self._killed + KILL_LIMIT:
                        return _Died(SHELL_SIGNAL + signal.SIGKILL)
                    continue
                overdue = overdue or self._clock() + KILL_LIMIT
                if self._clock() >= overdue:
                    return _Lost("the Docker engine does not say how the program has ended")
                continue
            if isinstance(news, (_Died, _Lost)):
                return news
            self._note(news)

    def _clear_up(self, lost: bool) -> str:
        """Ends the processes that are left, and removes the container. Returns words about what
        remains."""
        self.kill()
        end = (self._killed or self._clock()) + KILL_LIMIT
        while self.alive:
            if self._clock() >= end:
                return processes.remains(p.pid for p in processes.tree(self.pid) if not p.dead)
            time.sleep(0.01)
        if lost:  # an engine removes such a container when it is back
            return ""
        while self._clock() < end:
            with contextlib.suppress(queue.Empty):
                news = self._news.get(timeout=_LOOK_EVERY)
                self._note(news)
                if isinstance(news, (_Removed, _Lost)):
                    return ""
        return self._remove()

    def _unpause(self) -> None:
        with contextlib.suppress(EngineError):  # somebody was faster; or it is the guard's
            self._engine.unpause(self.container)

    def _remove(self) -> str:
        try:
            self._engine.remove(self.container)
        except EngineError as error:
            return f"; its container {self.container[:12]} remains: {error}"
        return ""

    def _lines(
        self, output: Iterable[tuple[bytes | None, bytes | None]], errors: int | None
    ) -> Iterator[bytes]:
        """Whole lines of standard output, and of standard error unless that goes elsewhere."""
        streams = WholeLines(), WholeLines()
        for pieces in output:
            for stream, piece in zip(streams, pieces):
                self._written += len(piece or b"")
                if piece and stream is streams[1] and errors is not None:
                    self._last.feed(piece)
                    os.write(errors, piece)
                elif piece:
                    yield stream.feed(piece)
        yield b"\n".join(filter(None, (stream.finish() for stream in streams)))

    def _note(self, news: _News) -> None:
        if isinstance(news, _MemoryKill):
            self._memory_kill = True
        if isinstance(news, _Paused):
            self._paused = news.paused

    def _decode(self, died: _Died | _Lost) -> Exit:
        if isinstance(died, _Lost):
            return Exit(None, None, "lost", f"{died.message}; its program was killed")
        code = died.code
        last = self._last.text().rpartition("\n")[2]
        if code == _NOT_RUN and last.startswith(_INIT_WORDS):
            why = last.rpartition("failed: ")[2]
            text = f"{self._name} cannot be run in image {self._image}: {why}"
            return Exit(None, None, "start", text)
        # An engine tells of a signal that ended a program, or its init, as a shell does. A program
        # that exits with such a code is mostly a shell that passes on how its child ended.
        if exits.is_signal(code - SHELL_SIGNAL):
            code = SHELL_SIGNAL - code
        return exits.decode(code, self._memory_kill)


def _news_of(event: Mapping[str, Any]) -> _News | None:
    action = event.get("Action", "")
    if action == "die":
        return _Died(int(event["Actor"]["Attributes"]["exitCode"]))
    if action == "oom":
        return _MemoryKill()
    if action in ("pause", "unpause"):
        return _Paused(action == "pause")
    return _Removed() if action == "destroy" else None


def _background(name: str, work: Callable[[], object]) -> threading.Thread:
    return threads.start_surely(f"tfapp-docker-{name}", work)


class WholeLines:
    """Takes a stream of a container in pieces, and makes whole lines of it: two streams become one
    log, and an engine reads each of them by itself, so that a piece of one may come before the line
    of the other has ended. Holds back a line until it ends, or a carriage return shows that more of
    it comes: progress bars stay alive."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        text = self._held + piece
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if len(text) - end > _LONGEST_LINE:
            end = len(text)
        self._held = text[end:]
        return text[:end]

    def finish(self) -> bytes:
        """The bytes that were held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held
