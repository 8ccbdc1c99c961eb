"""Loading a package's script: from its place, under its own name, on nobody's path."""

from __future__ import annotations

import sys

import pytest

from tfapp.runner import script_loader
from tfapp.runner.script_loader import load_script, own_traceback
from tfapp.script import ScriptError

GOOD = """
import dataclasses
from tfapp.script import Program, Script

@dataclasses.dataclass
class Settings:
    epochs: int = 1

class Trainer(Script):
    def start(self, context):
        return Program(("echo", str(Settings().epochs)))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, script_loader.MODULE_NAME, raising=False)
    (tmp_path / "scripts").mkdir()

    def write(text: str, name: str = "tensorflow.py"):
        (tmp_path / "scripts" / name).write_text(text)
        return tmp_path

    yield write
    sys.modules.pop(script_loader.MODULE_NAME, None)


def test_the_one_script_of_the_file_is_made(package):
    path, modules = list(sys.path), set(sys.modules)
    script = load_script(package(GOOD), "scripts/tensorflow.py")
    assert script.start(None).argv == ("echo", "1")
    assert sys.path == path
    assert set(sys.modules) - modules == {script_loader.MODULE_NAME}


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "tensorflow.py", "scripts/tensorflow.py must define one class .*; found: none"),
        (
            GOOD.replace("Trainer", "One") + GOOD.replace("Trainer", "Two"),
            "tensorflow.py",
            "One, Two",
        ),
        ("from tfapp.script import Script", "tensorflow.py", "found: none"),
        (GOOD, "other.py", "the package has no scripts/tensorflow.py"),
    ],
)
def test_a_file_without_exactly_one_script_is_refused(package, text, name, message):
    with pytest.raises(ScriptError, match=message):
        load_script(package(text, name), "scripts/tensorflow.py")


def test_a_file_that_is_no_python_is_refused(package):
    with pytest.raises(ScriptError, match=r"its name must end in \.py"):
        load_script(package(GOOD, "start.sh"), "scripts/start.sh")


def test_what_the_file_raises_passes_through_with_its_own_traceback(package):
    folder = package("def broken():\n    return 1 / 0\n\nbroken()\n")
    with pytest.raises(ZeroDivisionError) as raised:
        load_script(folder, "scripts/tensorflow.py")
    text = own_traceback(raised.value, folder)
    lines = [line.strip() for line in text.splitlines() if "^" not in line and "~" not in line]
    place = folder / "scripts/tensorflow.py"
    assert lines == [
        "Traceback (most recent call last):",
        f'File "{place}", line 4, in <module>',
        "broken()",
        f'File "{place}", line 2, in broken',
        "return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_a_syntax_error_has_a_traceback_of_its_own(package):
    folder = package("def broken(:\n")
    with pytest.raises(SyntaxError) as raised:
        load_script(folder, "scripts/tensorflow.py")
    assert f'File "{folder}/scripts/tensorflow.py", line 1' in own_traceback(raised.value, folder)
