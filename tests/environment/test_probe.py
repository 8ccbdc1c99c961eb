from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import python_environments
from tfapp.environment.probe import CannotRunError, SyntaxProblem, ask


@pytest.fixture(scope="module", params=["own", "other"])
def command(request, tmp_path_factory):
    """This interpreter, and another one with the same packages."""
    if request.param == "own":
        return [sys.executable]
    folder = python_environments.make(tmp_path_factory.mktemp("env") / "env")
    return [str(folder / "bin" / "python")]


def test_modules(command):
    asked = ("skein", "google.protobuf", "google.nothing", "x.y", "os", "no_such_thing")
    told = ask(command, os.environ, asked, b"")
    assert told.version == tuple(sys.version_info[:3])
    assert told.lacking == ("google.nothing", "x.y", "no_such_thing")
    assert told.syntax is None


@pytest.mark.parametrize("how", ["working folder", "PYTHONPATH"])
def test_what_only_the_asking_process_can_import_is_missing(tmp_path, how):
    (tmp_path / "helper.py").touch()
    (tmp_path / "asks.py").write_text(
        "import os, sys\n"
        "from tfapp.environment.probe import ask\n"
        "environ = {k: v for k, v in os.environ.items() if not k.startswith('PYTHON')}\n"
        "print(ask([sys.executable], environ, ('os', '__main__', 'helper'), b'').lacking)\n"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    if how == "PYTHONPATH":
        environ[how] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "asks"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("('helper',)\n", "")


def test_syntax(command):
    told = ask(command, os.environ, (), b"x = 1\nif x\n    pass\n")
    assert told.syntax == SyntaxProblem(2, 5, "expected ':'")


def test_nothing_of_the_program_runs(command, tmp_path):
    told = ask(command, os.environ, (), f"open({str(tmp_path / 'x')!r}, 'w')".encode())
    assert (told.syntax, list(tmp_path.iterdir())) == (None, [])


def test_a_null_byte(command):
    assert "null byte" in ask(command, os.environ, (), b"x\0").syntax.text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho 'libpython.so: not found' >&2\nexit 127\n", "does not run: libpython"),
        ("#!/bin/sh\nexit 3\n", "does not run: exit code 3"),
        ("#!/no/shell\n", "cannot be run: No such file or directory"),
    ],
)
def test_an_interpreter_that_is_none(tmp_path, script, said):
    (tmp_path / "python").write_text(script)
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(CannotRunError) as error:
        ask([str(tmp_path / "python")], os.environ, (), b"")
    assert str(error.value).startswith(said)
    assert error.value.foreign == (script == "#!/no/shell\n")
