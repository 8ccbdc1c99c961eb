import os
import sys

import pytest

from tests import programs, python_environments
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


def test_no_package_is_loaded_to_look_into_it(tmp_path):
    packages = {
        "plain": "raise RuntimeError",
        "changes_its_path": "raise RuntimeError(__path__)",
        "makes_some": "import sys; raise RuntimeError(sys.modules)",
    }
    for name, text in packages.items():
        for inside in ("below", "no_package"):
            (tmp_path / name / inside).mkdir(parents=True)
            (tmp_path / name / inside / "there.py").touch()
        (tmp_path / name / "below" / "__init__.py").touch()
        (tmp_path / name / "__init__.py").write_text(text)
    (tmp_path / "module.py").touch()
    interpreter = tmp_path / "python"
    interpreter.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import runpy, sys; sys.path.insert(0, "
        f'"{tmp_path}"); sys.argv = sys.argv[1:]; sys.path.insert(0, ""); '
        'runpy.run_path(sys.argv[0], run_name="__main__")\' "$@"\n'
    )
    interpreter.chmod(0o755)
    below = ("below.there", "below.nothing", "no_package.nothing", "nothing")
    asked = [f"{name}.{one}" for name in packages for one in below]
    told = ask([str(interpreter)], os.environ, [*asked, "module.nothing"], b"")
    assert told.lacking == ("plain.below.nothing", "plain.nothing")


@pytest.mark.parametrize("how", ["working folder", "PYTHONPATH"])
def test_what_only_the_asking_process_can_import_is_missing(tmp_path, how):
    (tmp_path / "helper.py").touch()
    (tmp_path / "asks.py").write_text(
        "import os, sys\n"
        "from tfapp.environment.probe import ask\n"
        "environ = {k: v for k, v in os.environ.items() if not k.startswith('PYTHON')}\n"
        "print(ask([sys.executable], environ, ('os', '__main__', 'helper'), b'').lacking)\n"
    )
    environ = {"PYTHONPATH": str(tmp_path)} if how == "PYTHONPATH" else {}
    done = programs.python("-m", "asks", cwd=tmp_path, environ=environ, without="PYTHON")
    assert (done.stdout, done.stderr) == ("('helper',)\n", "")


def test_syntax(command):
    told = ask(command, os.environ, (), b"x = 1\nif x\n    pass\n")
    text = "expected ':'" if told.version >= (3, 10) else "invalid syntax"
    assert told.syntax == SyntaxProblem(2, 5, text)


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
