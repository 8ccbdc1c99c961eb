"""Asks the program to save before a planned stop.

Two files in its working folder: in one stands the request, in the other what the program has done.
A program takes part once it has written the second one (tfapp.program.saving).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfapp.contract.saving import GO_ON, HOLD, OVER, SAVE, InstanceSave, SaveRequest

_MOST_BYTES = 4096  # of what a program says
_LARGEST = 2**63
_PAUSE = 0.02  # seconds between two looks


class Saving:
    """The program of `instance` in `container`. `request` and `told`: the two files. `calendar`
    returns seconds since 1970."""

    def __init__(
        self,
        instance: str,
        container: str,
        request: Path,
        told: Path,
        calendar: Callable[[], float] = time.time,
    ):
        self._instance, self._container = instance, container
        self._request, self._told = request, told
        self._calendar = calendar
        self._holds = ""  # the id of the request that the program has heard
        self.newest: SaveRequest | None = None

    def forget(self) -> None:
        """Before another program starts."""
        self._holds = ""
        for file in (self._request, self._told):
            file.unlink(missing_ok=True)

    @property
    def takes_part(self) -> bool:
        return self._told.is_file()

    def take(self, request: SaveRequest, running: Callable[[], bool]) -> InstanceSave | None:
        """What the program has done at a request; None where nothing is to be told. For a thread of
        its own: it waits until the program has done it, or for the time of the request."""
        answer = InstanceSave(request.id, self._instance, self._container, takes_part=False)
        if request.action == HOLD and running() and self.takes_part:
            self._holds = request.id
        if self._holds != request.id:
            return answer if request.action in (HOLD, SAVE) else None
        end = self._calendar() + request.seconds
        self._write(request, end)
        if request.action in (OVER, GO_ON):
            return None
        saves = request.action == SAVE
        while self._calendar() < end and self.newest is request and running():
            told = self._read()
            step = told.get("saved" if saves else "step")
            if told.get("id") == request.id and told.get("action") == request.action:
                return InstanceSave(
                    request.id, self._instance, self._container, True, _whole(step), saves
                )
            time.sleep(_PAUSE)
        return None

    def _write(self, request: SaveRequest, until: float) -> None:
        asked = {
            "id": request.id,
            "action": request.action,
            "step": request.step,
            "until": until,
        }
        new = self._request.with_suffix(".new")
        new.write_text(json.dumps(asked), encoding="utf-8")
        os.replace(new, self._request)

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError), open(self._told, "rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
            return found if isinstance(found, dict) else {}
        return {}


def _whole(step: object) -> int | None:
    return step if type(step) is int and -_LARGEST <= step < _LARGEST else None
