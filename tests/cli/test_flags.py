import argparse
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, shell, status
from tfapp.cli.flags import (
    add_engine_options,
    add_package_flags,
    engine_options_of,
    overrides_of,
    seconds,
    user_files,
)
from tfapp.engines import EngineOption, kubernetes, yarn
from tfapp.package.overrides import Overrides


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_package_flags(parser)
    return parser.parse_args(words)


def test_sliders_flags_in_their_long_and_short_forms():
    long = parse(
        *("--option", "site.global.a", "1", "--compopt", "worker", "env.B", "2"),
        *("--resopt", "yarn.memory", "512", "--rescompopt", "ps", "yarn.vcores", "2"),
        *("--component", "worker", "4", "--option", "site.global.c", "3"),
    )
    short = parse(
        *("-O", "site.global.a", "1", "--co", "worker", "env.B", "2"),
        *("-ro", "yarn.memory", "512", "-rco", "ps", "yarn.vcores", "2"),
        *("--role", "worker", "4", "-O", "site.global.c", "3"),
    )
    assert overrides_of(long) == overrides_of(short)
    assert overrides_of(long) == Overrides(
        options=(("site.global.a", "1"), ("site.global.c", "3")),
        compopts=(("worker", "env.B", "2"),),
        resopts=(("yarn.memory", "512"),),
        rescompopts=(("ps", "yarn.vcores", "2"),),
        components=(("worker", "4"),),
    )


def test_files_may_be_given_in_one_flag_or_in_several(tmp_path):
    names = ("a.py", "b.py", "c.py")
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_text("")
    args = parse("--files", str(paths[0]), str(paths[1]), "--files", str(paths[2]))
    notes: list[str] = []
    assert user_files(args, notes.append) == dict(zip(names, paths))
    assert notes == []


@pytest.mark.parametrize("flag", ["--template", "--resources", "--files"])
def test_an_empty_path_is_not_the_current_folder(flag, capsys):
    with pytest.raises(SystemExit):
        parse(flag, "")
    assert f"argument {flag}: expected a path, found nothing" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1.5", 1.5)])
def test_seconds(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", ""])
def test_what_are_no_seconds(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is not a number of seconds"):
        seconds(text)


def test_an_engine_declares_its_own_flags(tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes, "OPTIONS", ())
    monkeypatch.setattr(yarn, "OPTIONS", (EngineOption("queue", "plain", "a test's queue"),))
    engine = PlayedEngine(tmp_path, [])
    for flags, queue in (((), "plain"), (("--queue", "fast"), "fast")):
        code, a_shell = call(
            tmp_path, engine, "compile", "app-packages/tensorflow", *flags, cwd=Path.cwd()
        )
        assert (code, a_shell.out.text.splitlines()[1]) == (0, f"queue: {queue}"), a_shell.err.text


def test_a_flag_of_another_engine_is_noted_where_it_was_given(tmp_path):
    for flags, noted in (((), ""), (("--queue", "fast"), "--queue is ignored: the engine local ")):
        engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
        words = ("create", "app", "--appdef", "app-packages/tensorflow", *flags)
        code, a_shell = call(tmp_path, engine, *words, cwd=Path.cwd())
        notes = [line for line in a_shell.err.text.splitlines() if "queue" in line]
        assert [line[: len(noted)] for line in notes] == [noted] * bool(noted), a_shell.err.text


def test_a_flag_that_says_where_applications_are_is_on_every_command(tmp_path, monkeypatch):
    place = EngineOption("place", "", "where they are", place=True, short="n")
    monkeypatch.setattr(kubernetes, "OPTIONS", ())
    monkeypatch.setattr(yarn, "OPTIONS", (place,))
    for words in (("list", "-n", "here"), ("status", "app", "--place", "here")):
        engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
        code, a_shell = call(tmp_path, engine, *words)
        noted = "--place is ignored: the engine local does not have it\n"
        assert (code, a_shell.err.text) == (0, noted)


def test_the_default_of_a_flag_of_an_engine_is_the_users(tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes, "OPTIONS", ())
    monkeypatch.setattr(yarn, "OPTIONS", (EngineOption("queue", "plain", "a test's queue"),))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text("yarn: {queue: mine}\n")
    a_shell = shell(tmp_path)
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    for words, queue in (
        (["--engine", "yarn"], "mine"),
        (["--engine", "yarn", "--queue", "fast"], "fast"),
        (["--engine", "local"], "plain"),
    ):
        assert engine_options_of(parser.parse_args(words), a_shell) == {"queue": queue}
