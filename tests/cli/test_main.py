from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tfapp
from tests.cli.played_engine import shell
from tfapp.cli import main as main_module
from tfapp.cli.main import Outcome, dispatch, error_boundary, main
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


def test_no_command_shows_the_help_and_is_wrong_usage(tmp_path):
    a_shell = shell(tmp_path)
    assert dispatch([], a_shell) == ExitCode.USAGE
    assert "  validate        say all that is wrong with a package\n" in a_shell.err.text


def test_help_of_a_command_is_its_docstring(capsys):
    for words in (["stop", "--help"], ["help", "stop"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 0
        assert (
            "Stops a running application and waits until it has ended." in capsys.readouterr().out
        )


def test_words_behind_a_double_dash_go_to_the_command_that_passes_them_on():
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("-w", type=int)
    parser.set_defaults(passed=[])
    args = main_module.parse(parser, ["s.py", "-w", "2", "--", "-w", "--", "x"])
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
            "  What the program is to get stands at the end, behind `--`: -- --epochs 3\n",
        ),
    ],
    ids=str,
)
def test_wrong_flags(capsys, words, hint):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(hint)


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
            "NAME  STATE  RUN  STARTED  TAGS  ID\n",
            "no applications yet\n",
        ),
    ],
)
def test_standard_streams_that_are_closed(words, code, out, err):
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m tfapp {words}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_python_m_tfapp_and_a_wrong_flag():
    done = subprocess.run(
        [sys.executable, "-m", "tfapp", "list", "--frob"],
        capture_output=True,
        text=True,
        timeout=60,
    )
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tfapp schema | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")
