"""A runner asks a program to save, which answers in its file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.runner.driving import eventually
from tfapp.contract.saving import HOLD, OVER, SAVE, InstanceSave, SaveRequest
from tfapp.program.saving import Saver
from tfapp.runner.saving import Saving

UNTOLD = InstanceSave("a", "worker/1", "worker_1", takes_part=False)


def made(folder: Path) -> tuple[Saving, Path, Path]:
    request, told = folder / "request", folder / "told"
    return Saving("worker/1", "worker_1", request, told), request, told


def ask(saving: Saving, action: str, step: int | None = None, seconds: float = 60.0):
    saving.newest = SaveRequest("a", 1, action, seconds, step)
    return saving.take(saving.newest, lambda: True)


def test_a_program_that_says_nothing_takes_no_part(tmp_path):
    saving, request, _ = made(tmp_path)
    assert not saving.takes_part
    assert [ask(saving, action) for action in (HOLD, SAVE, OVER)] == [UNTOLD, UNTOLD, None]
    assert not request.exists()


def test_one_that_begins_to_take_part_later_is_not_told_when_to_save(tmp_path):
    """It may be further than the step that the others have agreed on."""
    saving, request, told = made(tmp_path)
    assert ask(saving, HOLD) == UNTOLD
    told.write_text("{}")
    assert saving.takes_part
    assert ask(saving, SAVE, 7) == UNTOLD
    assert not request.exists()


def test_a_program_of_python_tells_its_step_and_that_it_has_saved(tmp_path):
    saving, request, told = made(tmp_path)
    saver, steps, saved = Saver(str(request), str(told), together=True), iter(range(1, 100)), []
    holds = threading.Event()

    def train() -> None:
        for step in steps:
            if step > 3:
                assert holds.wait(60)
            saver.finished(step, lambda step=step: saved.append(step))

    threading.Thread(target=train, daemon=True).start()
    eventually(lambda: saving.takes_part, "it takes part")
    eventually(lambda: saver._step == 3, "three steps")
    assert ask(saving, HOLD) == InstanceSave("a", "worker/1", "worker_1", True, 3)
    holds.set()
    assert ask(saving, SAVE, 6) == InstanceSave("a", "worker/1", "worker_1", True, 6, saved=True)
    assert saved == [6]
    assert json.loads(told.read_text())["saved"] == 6
    assert next(steps) == 7, "it waits to be stopped"
    saving.forget()
    assert not saving.takes_part


@pytest.mark.parametrize("text", ["", "[]", "{", '{"id": "a", "action": "hold", "step": 1e9}'])
def test_what_a_program_says_is_checked(tmp_path, text):
    saving, _, told = made(tmp_path)
    told.write_text(text)
    answer = ask(saving, HOLD, seconds=0.1)
    assert answer is None or answer.step is None


def test_nobody_is_waited_for_any_more_once_that_is_over(tmp_path):
    saving, request, told = made(tmp_path)
    told.write_text("{}")
    found = []
    asked = SaveRequest("a", 1, HOLD, 600.0)
    saving.newest = asked
    waiting = threading.Thread(target=lambda: found.append(saving.take(asked, lambda: True)))
    waiting.start()
    eventually(request.exists, "it is asked")
    ask(saving, OVER)
    waiting.join(60)
    assert found == [None]
    assert json.loads(request.read_text())["action"] == OVER
