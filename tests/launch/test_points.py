import re
from pathlib import Path

import pytest

from tests.readme import README
from tfapp.errors import NotFoundError
from tfapp.launch.points import MOST_POINTS, STEM, InvalidPointsError, Point, read_points


def read(tmp_path, text: str, name: str = "points.yaml") -> list[dict[str, str]]:
    path = tmp_path / name
    path.write_text(text)
    return [dict(point.parameters) for point in read_points(path)]


def test_the_five_points_of_the_page(tmp_path):
    page = (README.parent / "docs" / "grid.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", page)
    pairs = [("0.1", "32"), ("0.1", "64"), ("0.01", "32"), ("0.01", "64"), ("1", "16")]
    assert read(tmp_path, text) == [{"rate": rate, "units": units} for rate, units in pairs]


def test_values_are_as_they_are_written(tmp_path):
    text = "rate: [1e-3, 1.10, 010]\nname: 'a b'\nenv.ON: true\n"
    assert read(tmp_path, text) == [
        {"rate": rate, "name": "a b", "env.ON": "true"} for rate in ("1e-3", "1.10", "010")
    ]


def test_the_same_point_is_there_once(tmp_path):
    text = '[{"a": [1, 2], "b": 3}, {"b": 3, "a": 2}]'
    assert read(tmp_path, text, "points.json") == [{"a": "1", "b": "3"}, {"a": "2", "b": "3"}]


def test_a_name_follows_from_the_parameters_alone():
    one, other = Point({"a": "1", "b": "2"}), Point({"b": "2", "a": "1"})
    assert one.application("digits") == other.application("digits") != Point({}).application("x")
    assert len(one.application("d" * STEM)) == 100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: error: expected a row of parameters"),
        ("- 5\n", "1:3: error: expected a row of parameters"),
        ("- {}\n", "1:3: error: expected a row of parameters"),
        ("[]\n", f"1:1: error: expected 1 to {MOST_POINTS} points, found 0"),
        ("a: {b: 1}\n", "1:4: error: expected a value of a"),
        ("a: [1, [2]]\n", "1:8: error: expected a value of a"),
        ("a:\n", "1:3: error: expected a value of a"),
        ("a: []\n", "1:4: error: a has no values"),
        ("a b: 1\n", "1:1: error: 'a b' is no name of a parameter"),
        ("a: 1\na: 2\n", "2:1: error: the key 'a' stands here a second time"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, text, problem):
    with pytest.raises(InvalidPointsError) as error:
        read(tmp_path, text)
    (found,) = map(str, error.value.problems)
    assert found.startswith(f"{tmp_path}/points.yaml:{problem}")


def test_too_many_are_refused_before_they_are_made(tmp_path):
    many = ", ".join(map(str, range(100)))
    text = "".join(f"p{number}: [{many}]\n" for number in range(20))
    with pytest.raises(InvalidPointsError) as error:
        read(tmp_path, text)
    assert f"found {100**20}" in error.value.problems[0].message


def test_there_is_no_such_file(tmp_path):
    with pytest.raises(NotFoundError, match="No such file"):
        read_points(Path(tmp_path / "none.yaml"))
