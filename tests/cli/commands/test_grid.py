import argparse

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import PlayedEngine, status
from tfapp.cli.commands import grid
from tfapp.launch.points import Point


@pytest.fixture
def tfapp(tmp_path, monkeypatch):
    """`tfapp grid train.py` with these points, in a folder that has both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")

    def command(points: str, *words: str):
        (tmp_path / "points.yaml").write_text(points)
        engine = PlayedEngine(tmp_path, [status("RUNNING")])
        return call(tmp_path, engine, "grid", "--points", "points.yaml", *words)

    return command


def test_a_dry_run_prints_all_points_and_creates_none(tfapp):
    points = "[{rate: [1, 2], env.MODE: a}, {units: 3, yarn.memory: 1 GiB}]"
    code, shell = tfapp(points, "train.py", "--dry-run", "--name", "g")
    assert code == 0, shell.err.text
    header, *rows = [line.split() for line in shell.out.text.splitlines()]
    assert header == ["NAME", "rate", "env.MODE", "units", "yarn.memory", "STATE", "DURATION"]
    assert [row[1:] for row in rows] == [
        ["1", "a", "-", "-", "-", "-"],
        ["2", "a", "-", "-", "-", "-"],
        ["-", "-", "3", "1", "GiB", "-", "-"],
    ]
    assert all(row[0].startswith("g-") for row in rows)


def test_the_wrong_value_of_a_key_is_told_by_its_parameter(tfapp):
    for key in ("site.global.stop.grace", "yarn.memory"):
        code, shell = tfapp(f"{key}: [1, much]", "train.py", "--dry-run")
        assert code == 77
        assert f"\nthe parameter {key}: error: " in f"\n{shell.err.text}"


def test_a_function_has_no_arguments(tfapp):
    code, shell = tfapp("rate: 1", "train:main")
    assert code == 2
    assert "train:main is a function: it takes no arguments" in shell.err.text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--name", "g" * 95), "cannot be the name of an application"),
        (("--name", "Grid"), "cannot be the name of an application"),
    ],
)
def test_names_leave_room_for_that_of_a_point(tfapp, words, told):
    code, shell = tfapp("rate: 1", "train.py", *words)
    assert (code, told in shell.err.text) == (2, True)


@pytest.mark.parametrize("text", ["0", "101", "-1", "x"])
def test_so_many_at_once_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="1 to 100"):
        grid._at_once(text)


def test_parameters_follow_the_arguments():
    args = argparse.Namespace(passed=["first"], other=1)
    point = Point({"rate": "1e-3", "env.A": "b", "name": "a b"})
    given = grid._of_point(args, point)
    assert (given.passed, given.other) == (["first", "--rate=1e-3", "--name=a b"], 1)
    assert args.passed == ["first"]
