"""Saving before a planned stop: a flex, instances that join, `tfapp stop`, an evicted pod.

    from tfapp.program.saving import save_if_asked

    for step in range(start, steps):
        train_step(next(batches))
        save_if_asked(step + 1, lambda: manager.save())

All instances that train together save at the end of the same step, and wait there to be stopped.
Without a request a call costs less than a microsecond. Where there is no runner nothing happens.
Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfapp import threads

REQUEST, TOLD = "TFAPP_SAVE_FILE", "TFAPP_SAVED_FILE"  # the variables that name the files
INTERVAL = 0.1  # seconds between two looks at the request
_HURRY = 0.02  # the same while somebody waits
_LONGEST = 4096  # bytes of a request

# As tfapp.contract.saving has them.
_HOLD, _SAVE, _GO_ON = "hold", "save", "go-on"


def save_if_asked(step: int, save: Callable[[], object], together: bool | None = None) -> bool:
    """Call it at the end of each step, with the number of steps that are finished: it tells tfapp
    that this program saves before a planned stop. When one is due, it calls `save()` at the end of
    the step that all instances have agreed on, and waits to be stopped. Returns whether it has
    saved; usually it does not come back then. An error of `save` is raised.

    `together`: whether the instances train in step, so that all have to save at the same one; by
    default where the cluster has several chiefs and workers, and no ps.

    >>> save_if_asked(10, lambda: None)
    False
    """
    return _saver(together).finished(operator.index(step), save)


class Saver:
    """A program that saves when it is asked. `request` and `told`: the files by which its runner
    asks and hears; None where there is none. `calendar` returns seconds since 1970."""

    def __init__(
        self,
        request: str | None,
        told: str | None,
        together: bool,
        calendar: Callable[[], float] = time.time,
    ):
        self._request, self._told = request, told
        self._together = together
        self._calendar = calendar
        self._changed = threading.Condition()
        self._step: int | None = None  # the last whole one
        self._asked: dict[str, Any] | None = None
        self._saved: int | None = None
        self._done = ""  # the id of the request at which it has saved

    def finished(self, step: int, save: Callable[[], object]) -> bool:
        if self._request is None or self._told is None:
            return False
        with self._changed:
            begins, self._step = self._step is None, step
            if begins:
                self._tell({})
                threads.start_surely("tfapp-save", self._listen)
            if self._asked is None:
                return False
        return self._obey(step, save)

    def _obey(self, step: int, save: Callable[[], object]) -> bool:
        """Waits at the end of a step until it is known when to save."""
        with self._changed:
            asked = self._wait_while(_HOLD)
            if asked is None or asked["id"] == self._done:
                return False
            at = asked["step"]
            if self._together and at is not None and step < at:
                return False
        save()
        with self._changed:
            self._done, self._saved = asked["id"], step
            self._tell(asked)
            self._wait_while(_SAVE, "over")
        return True

    def _wait_while(self, *actions: str) -> dict[str, Any] | None:
        """What is asked, once it is none of `actions`; None when it is too late for that."""
        while self._asked is not None and self._asked["action"] in actions:
            left = self._asked["until"] - self._calendar()
            if left <= 0:
                self._go_on()
                break
            self._changed.wait(min(left, 1.0))
        asked = self._asked
        return asked if asked is not None and asked["action"] == _SAVE else None

    def _listen(self) -> None:
        seen = None
        while True:
            time.sleep(INTERVAL if self._asked is None else min(INTERVAL, _HURRY))
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found = os.stat(self._request)  # type: ignore[arg-type]
                mark = (found.st_mtime_ns, found.st_ino)
                if mark == seen:
                    continue
                with open(self._request, "rb") as file:  # type: ignore[arg-type]
                    self._hear(json.loads(file.read(_LONGEST)))
                seen = mark

    def _hear(self, asked: dict[str, Any]) -> None:
        with self._changed:
            action = asked["action"]
            if action == _GO_ON or asked["until"] <= self._calendar():
                self._go_on()
            else:
                self._asked = asked
            if action == _HOLD:
                self._tell(asked)
            self._changed.notify_all()

    def _go_on(self) -> None:
        self._asked = self._saved = None
        self._tell({})

    def _tell(self, asked: Mapping[str, Any]) -> None:
        """Writes what has been done at the request `asked`; {} for none."""
        told = {
            "id": asked.get("id", ""),
            "action": asked.get("action", ""),
            "step": self._step if self._together else None,
            "saved": self._saved,
        }
        new = f"{self._told}.new"
        try:
            with open(new, "w", encoding="utf-8") as file:
                json.dump(told, file)
            os.replace(new, self._told)  # type: ignore[arg-type]
        except OSError as error:
            print(f"tfapp: {self._told} cannot be written: {error}", file=sys.stderr, flush=True)


def _train_together(config: str) -> bool:
    cluster = json.loads(config or "{}").get("cluster", {})
    trainers = [*cluster.get("chief", ()), *cluster.get("worker", ())]
    return len(trainers) > 1 and not cluster.get("ps")


_own: Saver | None = None
_making = threading.Lock()


def _saver(together: bool | None) -> Saver:
    global _own
    if _own is None:
        with _making:
            if _own is None:
                if together is None:
                    together = _train_together(os.environ.get("TF_CONFIG", ""))
                _own = Saver(os.environ.get(REQUEST), os.environ.get(TOLD), together)
    return _own
