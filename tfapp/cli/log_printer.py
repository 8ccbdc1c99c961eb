"""Several growing logs on one standard output."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from tfapp.cli.following import Feed
from tfapp.cli.outputs import LineTail, OwnLines, Tail, select_logs
from tfapp.cli.shell import Shell
from tfapp.close_match import close_match
from tfapp.engines.base import Application, Engine, LogFile
from tfapp.errors import NotFoundError

# Seconds between two looks at growing logs.
LOOK_EVERY = 0.1
# Seconds for which a list of logs stands, once there are any: to ask for it takes much longer than
# to see that they have not grown.
LIST_EVERY = 0.5

# Logs of the machinery: shown when they are asked for.
_MACHINERY = ("coordinator", "master")


class LogPrinter:
    """Prints what is new in the logs that `what` means (tfapp.cli.outputs.select_logs). Without
    `what` that is all instances'. Lines of several instances are told apart by the instance's name
    before them; where `what` is one instance, its output is printed as it is, that of each
    container it had after the other; if it is `parted`, with tfapp's own lines on standard
    error."""

    def __init__(
        self,
        shell: Shell,
        engine: Engine,
        application: Application,
        what: str,
        parted: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._shell, self._engine, self._application = shell, engine, application
        self._what = what
        self._as_it_is = "/" in what or what in _MACHINERY
        self._tails: dict[Path, LineTail | Tail] = {}
        self._parted = parted
        self._own_lines: dict[Path, OwnLines] = {}
        self._clock = clock
        self._listed: tuple[LogFile, ...] = ()
        self._listed_until = 0.0

    def may_come(self) -> bool:
        """Whether there can be a log that `what` means: there is an instance of this name, or it
        is not known yet which instances there are."""
        instances = self._application.status.instances
        known = {i.instance for i in instances} | {i.component for i in instances}
        return not self._what or not known or self._what in known | set(_MACHINERY)

    @property
    def found(self) -> bool:
        """Whether any log has been there."""
        return any(path.exists() for path in self._tails)

    def tell_missing(self) -> None:
        """Says which logs cannot be had now, and why."""
        for log in self._logs():
            if log.missing:
                rest = "the rest of its log" if log.path.exists() else "its log"
                self._shell.note(f"{log.instance}: {rest} cannot be had now: {log.missing}")

    def print_new(self, final: bool = False) -> None:
        """Prints what has been written since the last call; `final`: unfinished lines too, and all
        logs that there are by now."""
        if final or not self._listed or self._clock() >= self._listed_until:
            self._listed = self._logs()
            self._listed_until = self._clock() + LIST_EVERY
        for log in self._listed:
            tail = self._tails.get(log.path)
            if tail is None:
                tail = Tail(log.path) if self._as_it_is else LineTail(log.path)
                self._tails[log.path] = tail
            if isinstance(tail, Tail):
                for piece in tail.read_new():
                    self._write(log.path, piece)
            else:
                prefix = f"{log.instance} | ".encode()
                lines = tail.read_lines(final)
                if lines:
                    self._shell.write(b"".join(prefix + line for line in lines))

    def _write(self, path: Path, piece: bytes) -> None:
        if not self._parted:
            self._shell.write(piece)
            return
        parts = self._own_lines.setdefault(path, OwnLines()).split(piece)
        for own, lines in itertools.groupby(parts, key=lambda part: part[0]):
            text = b"".join(line for _, line in lines)
            if own:
                self._shell.note(text.decode(errors="replace").rstrip("\n"))
            else:
                self._shell.write(text)

    def not_found(self) -> NotFoundError:
        """The error for a log that has not been there."""
        name = self._application.name
        if not self._what or self.may_come():
            what = f"log {self._what!r}" if self._what else "logs"
            when = " yet" if self._application.live else ""
            return NotFoundError(
                f"{name} has no {what}{when}", f"`tfapp status {name}` says how it stands."
            )
        known = [log.instance for log in self._all_logs()]
        known += [i.instance for i in self._application.status.instances if i.instance not in known]
        component = self._what.partition("/")[0]
        siblings = [name for name in known if name.partition("/")[0] == component]
        match = "" if siblings else close_match(self._what, known)
        logs = ", ".join(siblings or known) or "none"
        hint = f"Did you mean {match}?" if match else f"Logs: {logs}."
        return NotFoundError(f"{name} has no log {self._what!r}", hint)

    def close(self) -> None:
        """Prints what was held back, and closes all files."""
        for own_lines in self._own_lines.values():
            self._shell.write(own_lines.rest())
        for tail in self._tails.values():
            tail.close()

    def _logs(self) -> tuple[LogFile, ...]:
        logs = select_logs(self._all_logs(), self._what)
        return tuple(log for log in logs if self._what or log.instance not in _MACHINERY)

    def _all_logs(self) -> tuple[LogFile, ...]:
        return self._engine.logs(self._application.name, self._application.run)


def follow_logs(printer: LogPrinter, engine: Engine, application: Application) -> None:
    """Prints until the application has ended."""
    feed = Feed(engine, application.name, application.run)
    while True:
        try:
            feed.next(LOOK_EVERY)
        except EOFError:
            return
        finally:
            printer.print_new()
