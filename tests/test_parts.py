"""A test's part follows from what the test asks for."""

import configparser

import pytest

from tests import parts, programs
from tests.readme import README

REPOSITORY = README.parent


@pytest.mark.parametrize(
    ("nodeid", "fixtures", "marks", "part"),
    [
        (
            "tests/clusters/yarn/test_docker.py::test_a",
            {"cluster", "docker_engine"},
            set(),
            parts.YARN,
        ),
        ("tests/clusters/yarn/test_cluster.py::test_a", {"tmp_path"}, set(), parts.REST),
        ("tests/clusters/kubernetes/test_cluster.py::test_a", {"cluster"}, set(), parts.KUBERNETES),
        ("tests/clusters/kubernetes/test_programs.py::test_a", {"tmp_path"}, set(), parts.REST),
        ("tests/clusters/spark/test_cluster.py::test_a", {"cluster", "spark"}, set(), parts.SPARK),
        ("tests/clusters/spark/test_cluster.py::test_b", {"tmp_path"}, set(), parts.REST),
        ("tests/runner/docker/test_pull.py::test_a", {"docker_engine"}, {"trains"}, parts.DOCKER),
        ("tests/end_to_end/test_a.py::test_a", {"tmp_path"}, {"trains"}, parts.TRAININGS),
        ("tests/runner/docker/test_lines.py::test_a", (), set(), parts.REST),
    ],
)
def test_part_of(nodeid, fixtures, marks, part):
    assert parts.part_of(nodeid, fixtures, marks) == part


def test_table():
    times = [("the rest", "gw1", 1.2), ("YARN", "gw0", 700.0), ("the rest", "gw0", 60.0)]
    assert parts.table(times) == [
        "     700 s  YARN",
        "      61 s  the rest",
        "     760 s  in process gw0",
        "       1 s  in process gw1",
    ]
    assert parts.table(times[1:2]) == ["     700 s  YARN"]
    assert parts.table([]) == []


def test_the_marker_is_set_before_tests_are_selected(tmp_path):
    """In this suite, and its times are shown."""
    file = REPOSITORY / "tests" / "runner" / "docker" / "test_lines.py"
    trains = REPOSITORY / "tests" / "end_to_end" / "test_tensorflow.py"
    # A folder of its own: pytest deletes those of old sessions at its end.
    words = ["-n", "0", "-m", "not cluster", f"--basetemp={tmp_path / 'session'}"]
    printed = programs.printed(
        "-m", "pytest", *words, file, trains, cwd=REPOSITORY, environ={"PYTEST_ADDOPTS": ""}
    )
    assert "= time by part =" in printed
    assert "s  the rest\n" in printed
    assert " 5 deselected" in printed


def test_the_first_part_is_named_by_the_readme():
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    assert "\ncluster: " in config["tool:pytest"]["markers"]
    assert '`.venv/bin/pytest -n 4 -m "not cluster"`' in README.read_text(encoding="utf-8")
