"""CI counts a skipped test that should have run as a failure."""

import configparser
import importlib.util
import re
import subprocess
import sys
import time

import pytest
import yaml
from packaging.requirements import Requirement

from tests import programs
from tests.readme import README

CHECK = README.parent / ".ci" / "check_skips.py"


@pytest.mark.parametrize(
    ("reason", "code", "text"),
    [
        ("this machine has no GPU", 0, ""),
        ("not today", 1, "skipped: tests.test_x.test_a: not today\n"),
    ],
)
def test_skips(tmp_path, reason, code, text):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_x" name="test_a">'
        f'<skipped type="pytest.skip" message="{reason}"/></testcase>'
        '<testcase classname="tests.test_x" name="test_b"/></testsuite></testsuites>'
    )
    done = programs.python(CHECK, report)
    assert (done.returncode, done.stdout, done.stderr) == (code, text, "")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-n", "2")])
def test_a_session_that_takes_too_long_fails_and_names_the_slowest(flags):
    words = ("-m", "pytest", "-p", "no:cacheprovider", "--durations=3", "-vv", *flags)
    environ = {"TESTS_UNTIL": "1", "PYTEST_ADDOPTS": ""}
    done = programs.python(*words, "tests/test_close_match.py", environ=environ, cwd=README.parent)
    assert done.returncode != 0
    assert "the tests take too long" in done.stdout, done.stdout
    assert "slowest 3 durations" in done.stdout
    assert " passed" not in done.stdout


def test_a_word_that_it_does_not_know():
    done = programs.run("bash", README.parent / ".ci" / "run", "tests")
    words = "lint|types|pairs|fast|clusters|weekly|kueue|matrix [3.9 ...]"
    usage = f"usage: bash .ci/run [{words}]\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", usage)


@pytest.fixture
def matrix():
    spec = importlib.util.spec_from_file_location("matrix", CHECK.with_name("matrix.py"))
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("ends",),
            "Python 3.9: trained 2.16 (0 s)\nPython 3.13: 2.21 FAILED after 0 s: no room\n",
        ),
        (
            ("fast", "3.9"),
            "Python 3.9: trained 2.20 (0 s)\nPython 3.9: the fast tests, 7 passed (0 s)\n",
        ),
        (
            ("all", "3.13"),
            "Python 3.13: trained 2.20 (0 s)\nPython 3.13: 2.21 FAILED after 0 s: no room\n",
        ),
    ],
)
def test_pairs_are_told_as_they_end(matrix, monkeypatch, tmp_path, capsys, words, said):
    def check(uv, python, version, tests, s3):
        if (python, version) == ("python3.13", "2.21"):
            raise matrix.FailedError("no room")
        yield f"trained {version}"
        if tests:
            yield "the fast tests, " + matrix.counted("...\n7 passed in 1.20s\n")

    monkeypatch.setattr(matrix, "WORK", tmp_path)
    monkeypatch.setattr(matrix, "install_uv", lambda: "uv")
    monkeypatch.setattr(matrix, "pythons", lambda: {9: "python3.9", 13: "python3.13"})
    monkeypatch.setattr(matrix, "check", check)
    monkeypatch.setattr(matrix, "served", lambda stack: {})
    failed = "FAILED" in said
    assert (matrix.main(*words), capsys.readouterr().out) == (failed, said)


def test_a_python_that_is_not_there(matrix, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(matrix, "WORK", tmp_path)
    monkeypatch.setattr(matrix, "install_uv", lambda: "uv")
    monkeypatch.setattr(matrix, "pythons", dict)
    assert matrix.main("fast", "3.99") == 2
    assert capsys.readouterr().err == "this machine has no Python 3.99\n"


def test_fast_tests_that_take_too_long_end_by_themselves(matrix, monkeypatch, tmp_path):
    """Not at the time at which `.ci/run`, which tries all pairs before them, would be over."""
    told = "digits: Succeeded\ntensorflow==2.20.0\ntf-keras==2.20.1\n7 passed in 1.20s\n"
    environs = []

    def run(command, environ=None):
        environs.append(environ)
        return told

    monkeypatch.setattr(matrix, "WORK", tmp_path)
    monkeypatch.setattr(matrix, "run", run)
    monkeypatch.setenv("TESTS_UNTIL", "1")
    assert [*matrix.check("uv", "python", "2.20", True, {})][-1] == "the fast tests, 7 passed"
    assert time.time() < float(environs[-1]["TESTS_UNTIL"]) < time.time() + matrix.LIMIT


def test_what_takes_too_long_is_told_with_what_it_has_said(matrix, monkeypatch):
    def run(command, **more):
        raise subprocess.TimeoutExpired(command, more["timeout"], b"begun")

    monkeypatch.setattr(matrix.subprocess, "run", run)
    with pytest.raises(matrix.FailedError, match="^train -x\nbegun\nended after 3600 s$"):
        matrix.run(["train", "-x"])


def test_the_pairs_are_those_that_the_extra_allows(matrix):
    """From the oldest Python and TensorFlow. What is read of the README is what stands there."""
    config = configparser.ConfigParser()
    config.read(README.parent / "setup.cfg")
    extra = config["options.extras_require"]["tensorflow"].split("\n")
    needed = [Requirement(line) for line in extra if line.startswith("tensorflow>")]
    oldest = int(config["options"]["python_requires"].removeprefix(">=3."))
    found = matrix.pairs(range(oldest, 20))
    for minor in {minor for minor, _ in found}:
        here = {"python_version": f"3.{minor}"}
        (bounds,) = (each.specifier for each in needed if each.marker.evaluate(here))
        versions = [version for each, version in found if each == minor]
        assert list(bounds.filter(versions)) == versions
    assert found[0] == (oldest, "2.16")
    assert f"tensorflow>={found[0][1]},<" in str(extra)
    what, words = matrix.readme()
    assert what == ["-e", ".[tensorflow]"]
    assert words[:4] == ["create", "digits", "--appdef", "app-packages/tensorflow"]
    assert sys.version_info[1] in matrix.pythons()


def test_before_a_commit_the_same_is_checked():
    """But on the files that have changed, where a program takes files."""
    root = README.parent
    written = (root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (repository,) = yaml.safe_load(written)["repos"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in repository["hooks"]]
    lines = re.findall(r'"\$venv/bin/((?:ruff|mypy).*)', (root / ".ci" / "run").read_text())
    assert entries == [line.replace('"', "").removesuffix(" .") for line in lines]
