from __future__ import annotations

import argparse

import pytest

from tfapp.cli.package_flags import add_package_flags, overrides_of, user_files
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
    assert user_files(args) == dict(zip(names, paths))


@pytest.mark.parametrize("flag", ["--template", "--resources", "--files"])
def test_an_empty_path_is_not_the_current_folder(flag, capsys):
    with pytest.raises(SystemExit):
        parse(flag, "")
    assert f"argument {flag}: expected a path, found nothing" in capsys.readouterr().err
