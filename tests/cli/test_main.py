import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys

import pytest

import tfapp
from tests import programs
from tests.cli.played_engine import shell
from tfapp.cli.commands import COMMANDS, HEADINGS, INSTEAD
from tfapp.cli.main import Outcome, dispatch, error_boundary, main
from tfapp.cli.parser import parse
from tfapp.engines import ENGINES
from tfapp.errors import (
    BadStateError,
    ExitCode,
    InvalidPackageError,
    UnknownApplicationError,
    UsageError,
)
from tfapp.problems import Position, Problem


def outcome_of(error: BaseException, a_shell, words=("status", "app")) -> int:
    outcome = Outcome()
    with error_boundary(a_shell, list(words), outcome):
        raise error
    return outcome.code


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (BadStateError("it is odd", "Do this."), 70, "error: it is odd\n  Do this.\n"),
        (UnknownApplicationError("there is no x"), 69, "error: there is no x\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            InvalidPackageError((Problem(Position("f", 1, 2), "syntax", "no", hint="Mend."),)),
            77,
            "f:1:2: error: no [syntax]\n  Mend.\nerror: 1 error in the package\n",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_boundary_makes_messages_and_codes(tmp_path, error, code, text):
    a_shell = shell(tmp_path)
    assert outcome_of(error, a_shell) == code
    assert (a_shell.out.text, a_shell.err.text) == ("", text)


def test_a_bug_is_reported_in_a_file_without_values(tmp_path):
    a_shell = shell(tmp_path)
    words = ["create", "app", "--option", "site.global.password", "hunter2", "--name=hunter2"]
    assert outcome_of(RuntimeError("oops"), a_shell, words) == 50
    (report,) = (tmp_path / "home" / "bug-reports").iterdir()
    assert a_shell.err.text == (
        f"error: this is a bug in tfapp (RuntimeError)\n  {report} holds what a bug report needs.\n"
    )
    text = report.read_text()
    assert "command: tfapp create --option --name\n" in text
    assert f"tfapp {tfapp.__version__}\n" in text
    assert text.rstrip().endswith("RuntimeError: oops")
    assert "hunter2" not in text
    assert report.stat().st_mode & 0o777 == 0o600


def test_a_bug_is_reported_elsewhere_when_home_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "home").write_text("")
    assert outcome_of(RuntimeError("oops"), shell(tmp_path)) == 50
    assert len(list(tmp_path.glob("tfapp-*/bug-*.txt"))) == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("vaildate", "Did you mean `tfapp validate`?"),
        ("frobnicate", "`tfapp --help` lists the commands."),
    ],
)
def test_an_unknown_command(tmp_path, name, hint):
    with pytest.raises(UsageError) as caught:
        dispatch([name], shell(tmp_path))
    assert (caught.value.message, caught.value.hint) == (f"there is no command {name!r}", hint)


@pytest.mark.parametrize("name", INSTEAD)
def test_a_command_that_is_called_otherwise_elsewhere(tmp_path, name):
    assert name not in COMMANDS
    with pytest.raises(UsageError) as caught:
        dispatch([name, "mnist", "--force"], shell(tmp_path))
    assert caught.value.hint == INSTEAD[name]
    named = re.findall(r"`tfapp ([a-z-]+)", INSTEAD[name])
    assert named and set(named) <= set(COMMANDS)


def test_no_command_shows_the_help_and_is_wrong_usage(tmp_path):
    a_shell = shell(tmp_path)
    assert dispatch([], a_shell) == ExitCode.USAGE
    assert "  validate        report all errors in a package\n" in a_shell.err.text


def test_help_of_a_command_is_its_docstring(capsys):
    for words in (["stop", "--help"], ["help", "stop"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
        assert (
            "Stops running applications and waits until they have ended." in capsys.readouterr().out
        )


def test_help_has_each_command_once_below_its_heading(tmp_path):
    dispatch([], a_shell := shell(tmp_path))
    _, *groups = re.split(
        "|".join(f"(?m:^{text}:$)" for text in HEADINGS.values()), a_shell.err.text
    )
    firsts = [group.split()[0] for group in groups]
    assert firsts == list(HEADINGS)
    assert re.findall(r"(?m)^  ([a-z][a-z-]+)  ", "".join(groups)) == list(COMMANDS)


def test_help_fits_a_narrow_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    dispatch([], a_shell := shell(tmp_path))
    rows = a_shell.err.text
    assert "  report          write an application's page as\n                  one file\n" in rows
    with pytest.raises(SystemExit):
        main(["stop", "--help"])
    _, description, examples, *_ = capsys.readouterr().out.split("\n\n")
    assert max(map(len, description.splitlines())) <= 50
    assert "  tfapp stop --tag sweep-7 --format json" in examples.splitlines()


def test_words_behind_a_double_dash_go_to_the_command_that_passes_them_on():
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("-w", type=int)
    parser.set_defaults(passed=[])
    args = parse(parser, ["s.py", "-w", "2", "--", "-w", "--", "x"])
    assert vars(args) == {"script": "s.py", "w": 2, "passed": ["-w", "--", "x"]}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["list", "--tags", "x"], "unrecognized arguments: --tags x\n  Did you mean --tag?\n"),
        (["list", "--frob"], "unrecognized arguments: --frob\n"),
        (["list", "extra"], "unrecognized arguments: extra\n"),
        (["run", "a.py", "--worker=3"], "--worker=3\n  Did you mean --workers?\n"),
        (
            ["run", "a.py", "--epochs", "3"],
            "unrecognized arguments: --epochs 3\n"
            "  Arguments of the program go at the end, after `--`: -- --epochs 3\n",
        ),
    ],
    ids=str,
)
def test_wrong_flags(capsys, words, hint):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(hint)


def test_a_usage_error_shows_what_is_needed(capsys):
    for words, shown in (
        (["create"], "usage: tfapp create --appdef DIR NAME [options]\n"),
        (
            ["registry", "--name", "x"],
            "usage: tfapp registry --name NAME (--listexp | --getexp GROUP) [options]\n",
        ),
        (
            ["run"],
            "usage: tfapp run SCRIPT|MODULE:FUNCTION|-m MODULE [-w N] [--ps N] [options] [--",
        ),
        (["run", "a.py", "-m", "a"], "usage: tfapp run SCRIPT|MODULE:FUNCTION|-m MODULE [-w N]"),
    ):
        with pytest.raises(SystemExit):
            main(words)
        assert capsys.readouterr().err.startswith(shown)


def test_a_value_that_is_none_of_the_choices(capsys):
    with pytest.raises(SystemExit):
        main(["list", "--engine", "kubernets"])
    assert capsys.readouterr().err.endswith("\n  Did you mean kubernetes?\n")


def test_the_version(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "kubernetes" else found(name)
    )
    for words in (["--version"], ["version"]):
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:5] == [
            f"tfapp {tfapp.__version__}",
            f"Python {platform.python_version()}",
            f"TensorFlow {importlib.metadata.version('tensorflow')}",
            "engine kubernetes: the Kubernetes engine needs the Python library kubernetes. "
            "Install it: `pip install 'tfapp[kubernetes]'`.",
            "engine local: found",
        ]
        assert [line.split()[1] for line in lines[3:]] == [f"{name}:" for name in ENGINES]
        assert lines[6].startswith("engine yarn: there is no Java: ")


def test_the_version_loads_no_library():
    """It is as fast as `tfapp --help`."""
    code = (
        "import sys\nfrom tfapp.cli.main import main\nmain(['--version'])\n"
        "print([n for n in ('tensorflow', 'skein', 'grpc', 'kubernetes', 'pyspark', 'yaml')"
        " if n in sys.modules])"
    )
    assert programs.printed("-c", code).splitlines()[-1] == "[]"


def test_flags_before_the_command(tmp_path):
    with pytest.raises(UsageError) as caught:
        dispatch(["--engine", "yarn", "list", "-q"], shell(tmp_path))
    assert caught.value.hint == "Write `tfapp list --engine yarn -q`."


def test_an_argument_that_is_no_text(tmp_path):
    with pytest.raises(UsageError) as caught:
        dispatch(["status", os.fsdecode(b"caf\xe9")], shell(tmp_path))
    assert caught.value.message == "the argument 'caf\\udce9' is not UTF-8 text"


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ("list >&-", 0, "", "no applications yet\n"),
        ("lst 2>&-", 2, "", ""),
        ("create >&- 2>&-", 2, "", ""),
        (
            "list <&- | head -n 1",
            0,
            "NAME  STATE  RUN  STARTED  DURATION  TAGS  ID\n",
            "no applications yet\n",
        ),
    ],
)
def test_standard_streams_that_are_closed(words, code, out, err):
    done = programs.run("bash", "-o", "pipefail", "-c", f"{sys.executable} -m tfapp {words}")
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_python_m_tfapp_and_a_wrong_flag():
    done = programs.python("-m", "tfapp", "list", "--frob")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unrecognized arguments: --frob" in done.stderr


@pytest.mark.parametrize("module", ["tfapp.cli.main", "argparse", "tfapp.cli.commands.list"])
def test_ctrl_c_while_modules_are_imported(module):
    code = (
        "import sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, *_):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.modules.pop('argparse', None)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "sys.argv = ['tfapp', 'list']\n"
        "from tfapp.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = programs.python("-c", code)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def bash(script: str, cwd=None) -> subprocess.CompletedProcess:
    """`script`, in which `tfapp` is the command."""
    tfapp_function = f'tfapp() {{ {sys.executable} -m tfapp "$@"; }}'
    return programs.run("bash", "-c", f"{tfapp_function}\n{script}", cwd=cwd)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("validate BAD", 77),
        ("validate --format sarif BAD", 77),
        ("schema", 0),
        ("schema --help", 0),
        ("--help", 0),
        ("--version", 0),
    ],
)
def test_a_reader_that_goes_away_changes_no_exit_code(tmp_path, words, code):
    (tmp_path / "BAD").mkdir()
    done = bash(f"tfapp {words} 2>err | exec 0<&-; echo ${{PIPESTATUS[0]}}", cwd=tmp_path)
    assert done.stdout == f"{code}\n"
    err = (tmp_path / "err").read_text()
    assert "Broken" not in err
    assert ("BAD: 2 errors" in err) == bool(code)


def test_findings_come_before_their_summary_where_both_streams_are_one_file(tmp_path):
    done = bash(f"cd {tmp_path}; tfapp validate one two 2>&1")
    assert [line.partition(":")[2] for line in done.stdout.splitlines() if ":" in line] == [
        " error: there is no package here [package]",
        " error: there is no package here [package]",
        " 1 error, 0 warnings",
        " 1 error, 0 warnings",
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--help", 0, ""),
        ("list --help", 0, ""),
        (
            "list",
            53,
            "error: the folder in which tfapp was called does not exist any more\n"
            "  Change to another one.\n",
        ),
    ],
)
def test_in_a_folder_that_was_deleted(tmp_path, words, code, message):
    done = bash(f"mkdir gone; cd gone; rmdir ../gone; TFAPP_HOME=home tfapp {words}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, message)
    assert ("usage: tfapp" in done.stdout) == (not code)


WINDOWS = """
import sys

class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "grp", "pwd", "resource", "termios"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotThere())
sys.platform = "win32"
"""
COMMAND = """
sys.argv = ["tfapp", "list"]
from tfapp.__main__ import main
sys.exit(main())
"""
CALL = """
import tfapp
try:
    tfapp.run
except tfapp.errors.UnavailableError as error:
    print(f"error: {error}\\n  {error.hint}", file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("program", [COMMAND, CALL], ids=["command", "call"])
def test_windows_is_refused_with_the_way_out(program):
    """Before anything is imported that Windows does not have."""
    done = programs.python("-c", WINDOWS + program)
    assert (done.returncode, done.stdout, done.stderr) == (
        53,
        "",
        "error: tfapp does not run on Windows\n"
        "  Call it in WSL (`wsl --install`), in a Linux container, or on a Linux host that "
        "reaches the cluster.\n",
    )
