"""The driver's connections to the programs that are fed, renewed with each generation."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfapp.feed.state import Program, State, View
from tfapp.feed.wire import Credentials, connect, start_thread

LOOK_EVERY = 0.5  # seconds between two requests for the application's state
RECONNECT_EVERY = 0.3
# Settings that all programs must have in common -> their names in messages.
_ALIKE = {"batch": "batches of", "columns": "columns", "window": "a shuffle window of"}

log = logging.getLogger(__name__)


class Programs:
    """Connects to the programs and handles their messages, in threads of its own."""

    def __init__(self, state: State, look: Callable[[], View], credentials: Credentials):
        """`look`: returns the application's present state."""
        self._state, self._look = state, look
        self._client_tls = credentials.tls(server=False)
        self._connecting = 0  # the generation whose programs are being connected
        start_thread(self._watch)

    def _watch(self) -> None:
        while not self._state.closed:
            try:
                view = self._look()
            except Exception:  # the next request may succeed; stall_timeout limits the wait
                log.warning("the application cannot be asked", exc_info=True)
            else:
                with self._state.changed:
                    self._state.view = view
                    if view.generation != self._connecting and view.addresses:
                        self._renew(view)
                    self._state.wake()
                if view.ended:
                    return
            time.sleep(LOOK_EVERY)

    def _renew(self, view: View) -> None:
        """Connects to the programs of a new generation."""
        self._drop_programs()
        self._connecting = view.generation
        for number, (instance, address) in enumerate(sorted(view.addresses.items())):
            start_thread(self._serve_program, view, number, instance, address)

    def _drop_programs(self) -> None:
        for program in self._state.programs.values():
            program.line.end()
        self._state.programs, self._state.live = {}, False
        self._state.broken = self._state.published = None

    def _serve_program(self, view: View, number: int, instance: str, address: str) -> None:
        hello = {
            "role": "ledger",
            "feed": self._state.feed_id,
            "generation": view.generation,
            "worker": number,
            "seed": self._state.seed,
        }
        while True:
            with self._state.changed:
                ended = self._state.closed or self._state.view.ended
                if ended or self._connecting != view.generation:
                    return
            try:
                line = connect(address, self._client_tls, hello)
            except OSError:  # the program has not begun to listen
                time.sleep(RECONNECT_EVERY)
            else:
                break
        try:
            self._converse(Program(instance, number, line), view)
        finally:
            line.close()

    def _converse(self, program: Program, view: View) -> None:
        """Handles the messages of a program until its connection ends, or the next generation
        begins."""
        with self._state.changed:
            if self._connecting != view.generation or self._state.closed:
                return
            self._state.programs[program.instance] = program
            self._state.progress = time.monotonic()
            if self._state.unasked:
                with contextlib.suppress(OSError):  # noticed below
                    program.line.say({"unasked": True})
        with contextlib.suppress(OSError):
            while True:
                said = program.line.hear()
                with self._state.changed:
                    if self._connecting != view.generation:
                        return
                    self._hear(program, said, view)
        with self._state.changed:
            ledger = self._state.ledger
            is_asked = program.answers and not self._state.unasked
            if ledger.over and program.took >= ledger.each and not is_asked:
                return  # it has had all
            if self._connecting == view.generation and not self._state.closed:
                self._state.live = False
                words = (
                    f"the connection to {program.instance} has ended, and the application goes on. "
                    "A program that wants no more calls context.feed.stop(); programs that are fed "
                    "begin again together (RestartCluster), not one alone (RestartInstance)"
                )
                self._state.broken = self._state.broken or (time.monotonic(), words)
                self._state.wake()

    def _hear(self, program: Program, said: dict[str, Any], view: View) -> None:
        self._state.progress = time.monotonic()
        if "commit" in said:
            part = tuple(said["part"])
            ok = self._state.live and self._state.ledger.commit(
                program.number, part, said["attempt"], said["first"], said["rows"], said["digest"]
            )
            program.line.say({"entered": said["commit"], "ok": ok})
            self._state.publish()
            self._state.moved.notify_all()
        elif "took" in said:
            program.took = said["took"]
            self._state.ledger.take(program.number, program.took)
            self._state.moved.notify_all()
            if self._state.ledger.over:
                self._state.changed.notify_all()
        elif "ready" in said:
            program.ready = said["ready"]
            ready = [each for each in self._state.programs.values() if each.ready is not None]
            if len(ready) == len(view.addresses):
                self._begin(view, ready)
        elif "answers" in said:
            program.answers = True
            self._state.moved.notify_all()
        elif "stop" in said and not self._state.ledger.over:
            # The number of batches is fixed when all programs have said how many they took.
            self._state.say_all({"hold": True})
        elif "holds" in said:
            program.holds = said["holds"]
            held = [each.holds for each in self._state.programs.values()]
            if all(each is not None for each in held):
                self._state.ledger.stop(max(each or 0 for each in held))
                self._state.publish()
                self._state.wake()

    def _begin(self, view: View, programs: Sequence[Program]) -> None:
        """Begins to feed a generation, all of whose programs are ready."""
        first = programs[0].ready or {}
        for program in programs:
            for key, what in _ALIKE.items():
                mine = (program.ready or {})[key]
                if mine != first[key]:
                    self._state.fail(
                        f"{programs[0].instance} asks for {what} {first[key]} and "
                        f"{program.instance} for {mine}; all must ask for the same"
                    )
                    return
        state = self._saved([program.ready or {} for program in programs])
        before = self._state.ledger.lost
        self._state.ledger.begin(
            view.generation,
            len(programs),
            first["batch"],
            window=first["window"],
            seed=self._state.seed,
            state=state,
        )
        lost = self._state.ledger.lost - before
        if lost > 0:
            self._state.note(
                f"{self._state.name}: {lost} rows went to programs that have failed, and are not "
                "fed again; with context.feed.state() in their checkpoint they would be"
            )
        self._state.live = True
        self._state.wake()
        if self._state.features is not None:
            self._state.say_all({"features": self._state.features})
        self._state.publish()

    def _saved(self, ready: Sequence[Mapping[str, Any]]) -> tuple[int, list[int]] | None:
        states = [each["state"] for each in ready]
        if any(state is None or state[0] != self._state.feed_id for state in states):
            return None
        generations = {state[1] for state in states}
        if len(generations) > 1 or not self._state.ledger.knows(states[0][1], len(states)):
            return None
        return states[0][1], [state[2] for state in states]
