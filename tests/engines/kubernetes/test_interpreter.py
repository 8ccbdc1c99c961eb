"""The command of a pod, run by the shells that images have."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tfapp.engines.kubernetes.interpreter import command

SHELLS = [
    pytest.param(words, id=words[0]) for words in (("dash",), ("bash",), ("busybox", "sh"))
    if shutil.which(words[0])
]  # fmt: skip
PROGRAM = """\
import sys
print(__name__, sys.argv)
sys.exit(3)
"""


@pytest.fixture(params=SHELLS)
def shell(request):
    return request.param


def run(shell, tmp_path, python, args=(), bash=True, **options):
    """(exit code, lines) of the command in a container whose PATH has the files of tmp_path/bin."""
    program = tmp_path / "bootstrap.py"
    program.write_text(PROGRAM)
    binaries = tmp_path / "bin"
    binaries.mkdir(exist_ok=True)
    if bash:
        binaries.joinpath("bash").symlink_to(shutil.which("bash"))
    sh, *words = command(python, "train:3", "a.key", [str(program), "first"], ["z"], **options)
    assert sh == "sh"
    done = subprocess.run(
        [shutil.which(shell[0]), *shell[1:], *words, *args],
        env={"PATH": str(binaries)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def fake(tmp_path, text):
    """A python3 in the container's PATH."""
    path = tmp_path / "bin" / "python3"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o755)


def test_it_becomes_the_program(shell, tmp_path):
    code, (line,) = run(shell, tmp_path, sys.executable, ["10.0.0.1:7", "it's id"])
    assert code == 3
    argv = [str(tmp_path / "bootstrap.py"), "first", "10.0.0.1:7", "it's id", "z"]
    assert line == f"__main__ {argv}"


def test_it_is_the_containers_only_process(shell, tmp_path):
    program = tmp_path / "bootstrap.py"
    program.write_text("import os; print(os.getpid())")
    words = command(sys.executable, "train:3", "", [str(program)])[1:]
    with subprocess.Popen(
        [shutil.which(shell[0]), *shell[1:], *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.read() == f"{process.pid}\n"


def test_without_python(shell, tmp_path):
    assert run(shell, tmp_path, "python3") == (
        78,
        [
            "tfapp: cannot start: there is no Python interpreter python3 in the image train:3 "
            "(a.key)"
        ],
    )


def test_without_bash(shell, tmp_path):
    assert run(shell, tmp_path, sys.executable, bash=False) == (
        78,
        ["tfapp: cannot start: there is no bash in the image train:3"],
    )


OLD = """\
#!{python}
import sys
words = sys.argv[1:]
assert words[:2] == ["-u", "-c"], words
sys.argv = ["-c", *words[3:]]
sys.version_info = (3, 6, 8, "final", 0)
sys.executable = "/usr/bin/python3"
exec(words[2])
"""


def test_with_an_old_python(shell, tmp_path):
    fake(tmp_path, OLD.format(python=sys.executable))
    assert run(shell, tmp_path, "python3") == (
        78,
        [
            "tfapp: cannot start: /usr/bin/python3 of the image train:3 is Python 3.6.8, tfapp "
            "needs 3.9 or newer (a.key)"
        ],
    )


def test_the_look_is_in_words_of_python_2(tmp_path):
    look = command("python3", "train:3", "", ["program"])[6]
    found = ast.parse(look, feature_version=(3, 4))
    assert not any(type(node).__name__ == "JoinedStr" for node in ast.walk(found))


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An interpreter without the libraries."""
    folder = tmp_path_factory.mktemp("bare")
    programs.printed("-m", "venv", "--without-pip", folder)
    return str(Path(folder, "bin", "python"))


def test_without_the_libraries(shell, tmp_path, bare):
    assert run(shell, tmp_path, bare) == (
        78,
        [
            f"tfapp: cannot start: {bare} of the image train:3 lacks grpcio, protobuf, which tfapp "
            "needs (a.key)"
        ],
    )


def test_an_environment_that_travels_brings_the_libraries(shell, tmp_path, bare):
    assert run(shell, tmp_path, bare, libraries=False)[0] == 3
