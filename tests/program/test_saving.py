"""Programs that save before a planned stop agree on a step, however late one of them hears."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runner.driving import eventually
from tfapp.program import keras_backup, saving
from tfapp.program.saving import Saver

SOON = 600.0  # seconds


class Program(threading.Thread):
    """A program that trains in step with all that share its `barrier`."""

    def __init__(self, folder: Path, barrier: threading.Barrier, together: bool = True):
        super().__init__(daemon=True)
        folder.mkdir()
        self.request, self.told = folder / "request", folder / "told"
        self.barrier = barrier
        self.saver = Saver(str(self.request), str(self.told), together)
        self.step = 0
        self.saved: list[int] = []
        self.returned: list[int] = []  # the steps at which it has gone on after that

    def run(self) -> None:
        while True:
            try:
                self.barrier.wait()
            except threading.BrokenBarrierError:
                return
            time.sleep(0.001)
            self.step += 1
            if self.saver.finished(self.step, lambda: self.saved.append(self.step)):
                self.returned.append(self.step)

    def ask(self, action: str, step: int | None = None, seconds: float = SOON) -> None:
        asked = {"id": "a", "action": action, "step": step, "until": time.time() + seconds}
        new = self.request.with_suffix(".new")
        new.write_text(json.dumps(asked))
        os.replace(new, self.request)

    def says(self, **wanted: Any) -> dict[str, Any]:
        def said() -> dict[str, Any] | None:
            told = json.loads(self.told.read_text()) if self.told.exists() else {}
            same = all(told.get(name) == value for name, value in wanted.items())
            return told if told and same else None

        return eventually(said, str(wanted))


@pytest.fixture
def programs(tmp_path):
    barriers = []

    def start(count: int, **more: Any) -> list[Program]:
        barrier = threading.Barrier(count if more.get("together", True) else 1)
        barriers.append(barrier)
        found = [Program(tmp_path / str(number), barrier, **more) for number in range(count)]
        for program in found:
            program.start()
        for program in found:
            program.says(id="")
        return found

    yield start
    for barrier in barriers:
        barrier.abort()


def test_all_save_at_the_same_step_and_wait_there(programs):
    first, second = programs(2)
    first.ask("hold")
    told = first.says(id="a")["step"]
    # It waits after the next step, and the other one, which has not heard, can finish one more.
    eventually(lambda: first.step == told + 1, "it holds")
    second.ask("hold")
    step = max(told, second.says(id="a")["step"]) + 1
    assert second.step <= step
    for one in (first, second):
        one.ask("save", step)
    for one in (first, second):
        assert one.says(action="save")["saved"] == step
        assert (one.saved, one.step, one.returned) == ([step], step, [])
        one.ask("over", step)
    assert (first.step, second.step) == (step, step)
    for one in (first, second):
        one.ask("go-on")
    eventually(lambda: first.returned == second.returned == [step], "they go on")
    assert first.says(action="")["saved"] is None


def test_one_that_agrees_with_nobody_saves_at_its_next_step(programs):
    (alone,) = programs(1, together=False)
    alone.ask("hold")
    assert alone.says(id="a")["step"] is None
    alone.ask("save", 10**9)
    saved = alone.says(action="save")["saved"]
    assert alone.saved == [saved] == [alone.step]


@pytest.mark.parametrize("action", ["hold", "save"])
def test_a_program_that_nobody_stops_trains_on(programs, action):
    (program,) = programs(1)
    program.ask(action, program.step, seconds=0.3)
    eventually(lambda: program.saver._asked is not None, "it hears")
    step = program.step
    eventually(lambda: program.step > step + 10, "it trains on")


def test_what_is_no_request_is_ignored(programs):
    (program,) = programs(1)
    for text in ("", "{}", "[1]", '{"action": "save", "until": "soon"}'):
        program.request.write_text(text)
        step = program.step
        time.sleep(3 * saving.INTERVAL)
        assert program.step > step
    assert program.saved == []


@pytest.mark.parametrize(
    ("config", "together"),
    [
        ("", False),
        ('{"cluster": {"worker": ["a:1"]}}', False),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', True),
        ('{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}', True),
        ('{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}}', False),
    ],
)
def test_who_trains_together(config, together):
    assert saving._train_together(config) == together


def test_what_programs_md_shows(monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "programs.md").read_text(encoding="utf-8")
    keras, loop = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    called = []
    monkeypatch.setattr(keras_backup, "backup_and_restore", lambda folder: f"backup in {folder}")
    model = SimpleNamespace(fit=lambda data, **given: called.append(given["callbacks"]))
    exec(keras, {"model": model, "data": [], "folder": "/f"})
    given = {"start": 2, "steps": 4, "batches": iter("abc"), "train_step": called.append}
    exec(loop, {**given, "manager": None})
    assert called == [["backup in /f"], "a", "b"]


def test_without_a_runner_nothing_happens(monkeypatch):
    monkeypatch.setattr(saving, "_own", None)
    assert saving.save_if_asked(1, lambda: pytest.fail("nobody has asked")) is False
    with pytest.raises(TypeError):
        saving.save_if_asked(1.5, lambda: None)  # type: ignore[arg-type]
    monkeypatch.setattr(saving, "_own", None)
