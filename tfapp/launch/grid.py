"""Runs the points of a grid, each as an application of its own, some at a time.

The engine's records are all that is kept: the name of an application follows from its point, so a
command that was killed finds again what it has begun."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tfapp.contract.names import SUCCEEDED
from tfapp.engines.base import Application, Engine
from tfapp.engines.refusals import DamagedError
from tfapp.errors import ExistsError, InUseError, TfappError, UnknownApplicationError
from tfapp.interrupts import ctrl_c_asks, last_words
from tfapp.launch import on_end
from tfapp.launch.caller import Caller
from tfapp.launch.follow import LOOK_EVERY, States, Stopper, has_ended
from tfapp.launch.points import Point
from tfapp.problems import first_of

MOST_AT_ONCE = 100
STOPPED = "stopped by Ctrl-C"
_TRIES = 5  # of another command that begins the same points at the same time
_NAMED = 4


class _Running(NamedTuple):
    states: States
    stopper: Stopper


class Grid:
    """Some points of a grid on an engine. `found` has the applications of those that were begun, or
    had been, as they are now. `error`: why the others were not begun."""

    def __init__(
        self,
        name: str,
        points: tuple[Point, ...],
        engine: Engine,
        caller: Caller,
        submit: Callable[[Point], Application],
        check: Callable[[Point], object],
    ):
        """`submit` submits a point, with the tag `name`; ExistsError where its name is taken.
        `check` raises what `submit` would, if the point is invalid."""
        self.points = {point.application(name): point for point in points}
        self.found: dict[str, Application] = {}
        self.error: TfappError | None = None
        self.asked = 0  # how often Ctrl-C was pressed
        self._name, self._engine, self._caller = name, engine, caller
        self._submit, self._check = submit, check
        self._running: dict[str, _Running] = {}

    def run(self, at_once: int, fresh: bool = False) -> Mapping[str, Application]:
        """Runs all points that have not succeeded yet to their end, `at_once` at a time, and
        follows those that run already. `fresh`: all of them anew. After a point that cannot be
        submitted no more are begun. Returns `found`."""
        self._tell_others()
        waiting = list(reversed(self.points))
        with ctrl_c_asks(self._ask), self._told_that_they_go_on():
            while waiting or self._running:
                if self.asked or self.error:
                    waiting.clear()
                elif waiting and len(self._running) < at_once:
                    self._begin(waiting.pop(), fresh)
                self._look(0.0 if waiting and len(self._running) < at_once else LOOK_EVERY)
        return self.found

    def _ask(self) -> None:
        self.asked += 1
        for running in list(self._running.values()):
            running.stopper.ask()

    def _told_that_they_go_on(self) -> contextlib.AbstractContextManager[None]:
        if self._engine.stays:
            return contextlib.nullcontext()
        return last_words(
            f"what runs of {self._name} goes on; the same command follows it, "
            f"`tfapp stop --tag {self._name}` ends it"
        )

    def _tell_others(self) -> None:
        """Names what an earlier command has begun that is no point any more."""
        names = [
            each.name
            for each in self._engine.list()
            if self._name in each.tags and each.name not in self.points
        ]
        if names:
            self._caller.note(
                f"{first_of(names, _NAMED)}: of {self._name}, and none of these points; "
                "`tfapp destroy NAME --force` ends and deletes one"
            )

    def _begin(self, name: str, fresh: bool) -> None:
        try:
            self.found[name] = found = self._begun(name, fresh)
        except TfappError as error:
            self.error = error
            return
        point, number = self.points[name], len(self.found)
        if has_ended(found):
            self._caller.note(f"{name}: {found.status.state} before ({point})")
            return
        self._caller.note(f"{name}: begins, {number} of {len(self.points)} ({point})")
        stopper = Stopper(self._caller, self._engine, name, STOPPED, "(Ctrl-C once more: at once)")
        self._running[name] = _Running(States(self._engine, name, found.run), stopper)
        while stopper.asked < self.asked:  # Ctrl-C, while it was submitted
            stopper.ask()

    def _begun(self, name: str, fresh: bool) -> Application:
        """The application of a point: the one that runs or has succeeded, or a new one."""
        for _ in range(_TRIES):
            try:
                found = self._engine.find(name)
            except UnknownApplicationError:
                pass
            except DamagedError:  # only its destruction is left
                self._engine.destroy(name)
            else:
                if self._name not in found.tags:
                    raise ExistsError(
                        f"there is an application {name} that is none of the grid {self._name}",
                        "Give the grid another --name.",
                    )
                if not fresh and (found.live or found.status.state == SUCCEEDED):
                    return found
                self._check(self.points[name])  # its record goes only if there is another one
                if fresh and found.live:
                    self._engine.stop(name, "begun anew")
                try:  # refused where another command has started it since
                    self._engine.destroy(name)
                except (InUseError, UnknownApplicationError):
                    continue
            try:
                return self._submit(self.points[name])
            except ExistsError:  # another command of this grid was faster
                continue
        raise ExistsError(f"another command begins {name} too", "Let one command run the grid.")

    def _look(self, wait: float) -> None:
        """Takes the changes of all that run; waits `wait` seconds at most for the first one."""
        for name, running in list(self._running.items()):
            try:
                while (changed := running.states.next(wait)) is not None:
                    self.found[name] = changed
                    wait = 0.0
            except EOFError:
                self._end(name)
            except TfappError as error:  # such as one that somebody has destroyed
                self._caller.note(f"{name}: {error.message}")
                del self._running[name]
            else:
                running.stopper.act(self.found[name])
            wait = 0.0

    def _end(self, name: str) -> None:
        del self._running[name]
        ended = self.found[name]
        verdict = ended.status.verdict
        self._caller.note(f"{name}: {verdict.summary if verdict else ended.status.state}")
        on_end.run_command(self._caller, self._engine, ended)
