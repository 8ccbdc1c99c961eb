"""Notices a program that was stopped (SIGSTOP): it lives, and nothing comes of it any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tfapp.contract.exit import Exit


class Standstill:
    """Looks from time to time at what of a program was stopped. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._since: dict[str, float] = {}  # when it was first seen stopped

    def look(self, stopped: Iterable[str]) -> Exit | None:
        """How the program has ended, in effect, when something of it was stopped at the last
        look too. `stopped`: see Running.stopped."""
        now = self._clock()
        before = self._since
        self._since = {what: before.get(what, now) for what in stopped}
        for what in self._since:
            if what in before:
                text = f"{what} and did not go on within {now - before[what]:.1f} s"
                return Exit(None, None, "hang", text)
        return None
