"""Saving before a planned stop: the coordinator asks all programs of a generation, those that take
part agree on a step, save at its end, and wait to be stopped.

A program that hears `HOLD` says the last step that it has finished, and begins none after the next
one. So the step after the highest that is told lies ahead of all, however late one of them hears.
"""

from __future__ import annotations

from tfapp.contract.encoding import Coded
from tfapp.frozen import frozen

HOLD = "hold"  # say the last step, and wait at the end of the next one
SAVE = "save"  # save at the end of `step`, and wait to be stopped
OVER = "over"  # nobody is waited for any more: what was planned begins
GO_ON = "go-on"  # nothing has followed: train on

# Seconds after the time to save for which programs wait to be stopped. Then they train on.
PATIENCE = 30.0


@frozen
class SaveRequest(Coded):
    """Asks the programs of a generation. `action`: one of the constants above. `seconds`: from now,
    for which a program waits at most. `step`: at whose end all save; None for each program its
    own."""

    id: str
    generation: int
    action: str
    seconds: float = 0.0
    step: int | None = None


@frozen
class InstanceSave(Coded):
    """What an instance has done at a request. `step`: the last one that its program had finished
    when it heard `HOLD`, or at which it has `saved`; None for one that agrees with nobody."""

    id: str
    instance: str
    container: str
    takes_part: bool
    step: int | None = None
    saved: bool = False
