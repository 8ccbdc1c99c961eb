"""The class Script that a package's script inherits, and the words of a value."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.contract_values import make_component, make_job
from tfapp import processes
from tfapp.contract.names import ENV_IMAGE_DIR
from tfapp.runner.program import StartError
from tfapp.runner.run_mode import ProcessMode
from tfapp.script import Context, Program, Script, ScriptError


def context_of(site: dict[str, str], values: dict[str, str] | None = None) -> Context:
    component = make_component(site=site)
    known = values or {}

    def expand(key: str, text: str) -> str:
        for name, value in known.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    return Context(
        job=make_job(component),
        component=component,
        index=1,
        generation=1,
        host="127.0.0.1",
        python="python3",
        work_dir=Path("/c/work"),
        log_dir=Path("/c/logs"),
        files_dir=Path("/c/files"),
        package_dir=Path("/c/package"),
        checkpoint_dir="/ckpt/digits",
        data_dir="",
        env={},
        config={},
        expand=expand,
    )


class PlayedHandle:
    pid = 1

    def __init__(self, alive: bool = True, catcher: str = "", catching: int = 0):
        self.alive = alive
        self.catcher = catcher
        self.catching = catching  # looks for which it has a handler
        self.signals: list[int] = []

    def running(self) -> bool:
        return self.alive

    def signal(self, number: int) -> str:
        self.signals.append(number)
        return self.catcher

    def catches(self, number: int) -> bool:
        self.catching -= 1
        return self.catching >= 0


def test_an_instance_has_a_name():
    assert context_of({}).instance == "worker/1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("--a 1  --b", ("--a", "1", "--b")),
        ("--name 'two words' \"and $HOME\"", ("--name", "two words", "and $HOME")),
        ("--dir ${DIR}", ("--dir", "/a folder/x")),
        ("--dir=${DIR}/y", ("--dir=/a folder/x/y",)),
    ],
)
def test_words_are_split_before_their_placeholders_are_replaced(text, words):
    context = context_of({"site.global.args": text}, {"DIR": "/a folder/x"})
    assert context.words("args") == words


def test_a_missing_value_has_no_words():
    assert context_of({}).words("args") == ()


def test_an_open_quotation_is_refused():
    with pytest.raises(ScriptError, match=r"^site\.global\.args cannot be split into words: "):
        context_of({"site.global.args": "--a 'b"}).words("args")


def test_a_script_says_what_to_run():
    with pytest.raises(NotImplementedError, match="Script has no start"):
        Script().start(context_of({}))


def test_stop_asks_with_sigterm_unless_a_script_knows_better():
    handle = PlayedHandle()
    Script().stop(context_of({}), handle)
    assert handle.signals == [signal.SIGTERM]


def test_a_program_is_well_while_it_runs():
    assert Script().status(context_of({}), PlayedHandle()) is True
    assert Script().status(context_of({}), PlayedHandle(alive=False)) is False


def test_a_program_of_the_image_starts_in_the_images_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "left_behind", tuple)  # see tests/conftest.py
    (tmp_path / "own").mkdir()
    base = dataclasses.replace(context_of({}), work_dir=tmp_path)
    mode = ProcessMode(SimpleNamespace(private=SimpleNamespace(redact=())))
    for env, of_image, folder in (
        ({ENV_IMAGE_DIR: f"{tmp_path}/own"}, True, tmp_path / "own"),
        ({ENV_IMAGE_DIR: f"{tmp_path}/own"}, False, tmp_path),
        ({}, True, tmp_path),
    ):
        context = dataclasses.replace(base, env={"PATH": os.environ["PATH"], **env})
        program = Program(("sh", "-c", f"pwd > {tmp_path}/told"), of_image=of_image)
        assert mode.start(program, context).wait().code == 0
        assert (tmp_path / "told").read_text() == f"{folder}\n"
    with pytest.raises(StartError, match="only a Docker engine tells the image's own command"):
        mode.start(Program((), entry_point=True), context)
