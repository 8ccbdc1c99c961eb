"""The driver's connections to the programs that are fed, renewed with each generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfapp import threads
from tfapp.feed.driver.state import BrokenFeed, FedProgram, FeedState, View
from tfapp.feed.lines import FROM_PROGRAM, kind_of
from tfapp.feed.wire import Credentials, ImpossibleError, connect

LOOK_EVERY = 0.5  # seconds between two requests for the application's state
RECONNECT_EVERY = 0.3
# Settings that all programs must have in common -> their names in messages.
_ALIKE = {
    "batch": "batches of",
    "columns": "columns",
    "window": "a shuffle window of",
    "objects": "rows as objects:",
}


def _possible(program: FedProgram, said: Mapping[str, Any], kind: str) -> bool:
    """Whether a line is possible after those that this program has sent and got. A commit of rows
    with a digest always is: tasks that are late cause some."""
    if kind == "commit":
        return said["digest"] is not None or bool(program.ready and program.ready["objects"])
    if kind == "took":
        return program.is_begun and program.holds is None
    if kind == "consumed":
        return program.consumed < said["consumed"] == program.took
    if kind == "holds":
        return program.is_held and program.holds is None
    once = {"ready": program.ready is None, "answers": not program.answers}
    return once.get(kind, True)


class Programs:
    """Connects to the programs and handles their messages, in threads of its own."""

    def __init__(self, state: FeedState, look: Callable[[], View], credentials: Credentials):
        """`look`: returns the application's present state."""
        self._state, self._look = state, look
        self._client_tls = credentials.tls(server=False)
        threads.keep("tfapp-feed", self._watch)

    def _watch(self) -> None:
        while not self._state.closed:
            view = self._look()  # after an error again; stall_timeout limits the wait
            with self._state.changed:
                self._state.look(view)
                if view.generation != self._state.fed.generation and view.addresses:
                    self._renew(view)
                self._state.wake()
            if view.ended:
                return
            time.sleep(LOOK_EVERY)

    def _renew(self, view: View) -> None:
        """Connects to the programs of a new generation."""
        self._drop_programs()
        self._state.fed = view
        for number, (instance, address) in enumerate(sorted(view.addresses.items())):
            threads.start_surely(
                "tfapp-feed-program",
                self._serve_program,
                *(view, number, instance, address),
                failed=lambda error, instance=instance: self._reject(instance, view, error),
            )

    def _drop_programs(self) -> None:
        for program in self._state.programs.values():
            program.line.end()
        self._state.programs, self._state.live = {}, False
        self._state.broken = self._state.published = None
        self._state.stopping = False

    def _serve_program(self, view: View, number: int, instance: str, address: str) -> None:
        hello = {
            "role": "ledger",
            "feed": self._state.feed_id,
            "generation": view.generation,
            "worker": number,
            "seed": self._state.seed,
            "instance": instance,
        }
        while True:
            with self._state.changed:
                ended = self._state.closed or self._state.view.ended
                if ended or self._state.fed is not view:
                    return
            try:
                line = connect(address, self._client_tls, hello)
            except OSError:  # the program has not begun to listen
                time.sleep(RECONNECT_EVERY)
            else:
                break
        try:
            self._converse(FedProgram(instance, number, line), view)
        finally:
            line.close()

    def _converse(self, program: FedProgram, view: View) -> None:
        """Handles the messages of a program until its connection ends, or the next generation
        begins. Any other error ends the feed: nobody would notice otherwise that this program is
        not heard any more."""
        try:
            with self._state.changed:
                if self._state.fed is not view or self._state.closed:
                    return
                self._welcome(program)
            while True:
                said = program.line.hear()
                with self._state.changed:
                    if self._state.fed is not view:
                        return
                    self._hear(program, said, view)
        except OSError:
            with self._state.changed:
                self._lose(program, view)
        except Exception as error:  # told before the connection ends
            self._reject(program.instance, view, error)

    def _welcome(self, program: FedProgram) -> None:
        """Tells a program that has just connected what the others know."""
        self._state.programs[program.instance] = program
        self._state.progress = time.monotonic()
        if self._state.error:
            program.line.say({"error": f"the feed has failed: {self._state.error}"})
        if self._state.unasked:
            program.line.say({"unasked": True})
        if self._state.stopping:
            program.is_held = True
            program.line.say({"hold": True})

    def _lose(self, program: FedProgram, view: View) -> None:
        ledger = self._state.ledger
        is_asked = program.answers and not self._state.unasked
        if ledger.over and program.took >= ledger.each and not is_asked:
            return  # it has had all
        if self._state.fed is view and not self._state.closed:
            self._state.live = False
            if self._state.broken is None:
                self._state.broken = BrokenFeed(time.monotonic(), program.instance)
            self._state.wake()

    def _reject(self, instance: str, view: View, error: BaseException) -> None:
        if isinstance(error, ImpossibleError):
            words = f"the driver has got from {instance} {error}"
        else:
            threads.say(f"the feed of {instance}", error)
            words = (
                f"the driver could not handle a line of {instance}: {type(error).__name__}: {error}"
            )
        with self._state.changed:
            if self._state.fed is view and not self._state.closed:
                self._state.live = False
                self._state.fail(words)

    def _hear(self, program: FedProgram, said: dict[str, Any], view: View) -> None:
        """Handles a line. ImpossibleError if it is not possible now."""
        kind = kind_of(said, FROM_PROGRAM)
        if not _possible(program, said, kind):
            raise ImpossibleError(f"{kind!r}: {said[kind]!r}, which is not possible now")
        self._state.progress = time.monotonic()
        if kind == "commit":
            part = tuple(said["part"])
            ok = self._state.live and self._state.ledger.commit(
                program.number, part, said["attempt"], said["first"], said["rows"], said["digest"]
            )
            program.line.say({"entered": said["commit"], "ok": ok})
            self._state.publish()
            self._state.moved.notify_all()
        elif kind == "took":
            self._take(program, said["took"])
        elif kind == "consumed":
            program.consumed = said["consumed"]
            self._state.changed.notify_all()
        elif kind == "ready":
            program.ready = said["ready"]
            ready = [each for each in self._state.programs.values() if each.ready is not None]
            if len(ready) == len(view.addresses):
                self._begin(view, ready)
        elif kind == "answers":
            program.answers = True
            self._state.moved.notify_all()
        elif kind == "stop":
            self._hold()
        elif kind == "holds":
            self._stop(program, said["holds"], view)
        else:
            raise ImpossibleError(f"the words: {said['failed']}")

    def _take(self, program: FedProgram, rows: int) -> None:
        """A program has taken rows, and so has consumed those that it took before."""
        try:
            self._state.ledger.take(program.number, rows)
        except ValueError as error:
            raise ImpossibleError(f"'took': {error}") from None
        program.consumed, program.took = program.took, rows
        self._state.moved.notify_all()
        if self._state.ledger.over:
            self._state.changed.notify_all()

    def _hold(self) -> None:
        """Begins to stop the feed: the number of batches is fixed when all programs, including
        those that are not connected yet, have said how many they took."""
        if self._state.ledger.over or self._state.stopping:
            return
        self._state.stopping = True
        for program in self._state.programs.values():
            program.is_held = True
        self._state.say_all({"hold": True})

    def _stop(self, program: FedProgram, batches: int, view: View) -> None:
        """A program takes no more than `batches` batches, until the feed is stopped."""
        if batches * self._state.batch() != program.took:
            raise ImpossibleError(f"'holds': {batches} batches after {program.took} rows")
        program.holds = batches
        held = [each.holds for each in self._state.programs.values()]
        if len(held) == len(view.addresses) and all(each is not None for each in held):
            for each in self._state.programs.values():
                each.holds, each.is_held = None, False
            self._state.ledger.stop(max(each or 0 for each in held))
            self._state.publish()
            if not program.is_begun:  # nothing was fed
                self._state.say_all({"batches": 0, "rest": 0, "over": True})
            self._state.wake()

    def _begin(self, view: View, programs: Sequence[FedProgram]) -> None:
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
        self._state.ledger.begin(
            view.generation,
            len(programs),
            first["batch"],
            window=first["window"],
            seed=self._state.seed,
            state=self._saved(sorted(programs, key=lambda each: each.number)),
        )
        for program in programs:
            program.is_begun = True
        self._state.live = True
        self._tell_of_loss()
        self._state.wake()
        if self._state.features is not None:
            self._state.say_all({"features": self._state.features})
        self._state.publish()

    def _tell_of_loss(self) -> None:
        """Tells the user of rows that were lost with the last generation. Those of data that was
        consumed when `feed` returned are an error."""
        ledger = self._state.ledger
        lost, self._state.told = ledger.lost - self._state.told, ledger.lost
        words = "went to programs that have failed, and are not fed again"
        remedy = "with context.feed.state() in their checkpoint they would be"
        if ledger.gone and self._state.keeps:
            self._state.fail(
                f"{ledger.gone} rows were consumed before feed() or train() returned, by programs "
                "that have failed since, and their model with these rows is lost; save "
                "context.feed.state() (DataFeed.state()) with each checkpoint, and restore both"
            )
        elif lost > 0:
            self._state.note(f"{self._state.name}: {lost} rows {words}; {remedy}")

    def _saved(self, programs: Sequence[FedProgram]) -> tuple[int, list[int]] | None:
        """The state that the programs have restored, by worker of its generation; None if they have
        restored none. The number of programs may have changed since then if all have restored the
        same position."""
        ledger = self._state.ledger
        states = [(each.ready or {})["state"] for each in programs]
        known = [s for s in states if s and s[0] == self._state.feed_id and ledger.workers_of(s[1])]
        if not known:
            return None
        before = ledger.workers_of(known[0][1])
        alike = all(state == known[0] for state in states)
        if alike or (len(states) == before and all(s and s[:2] == known[0][:2] for s in states)):
            batches = [known[0][2]] * before if alike else [state[2] for state in states]
            return known[0][1], batches
        other = next(n for n, state in enumerate(states) if state != known[0])
        one = states.index(known[0])
        self._state.note(
            f"{self._state.name}: {programs[one].instance} has restored the feed's state "
            f"{states[one]}, and {programs[other].instance} {states[other] or 'none'}: all must "
            "restore that of the same checkpoint, so the feed goes on without it"
        )
        return None
