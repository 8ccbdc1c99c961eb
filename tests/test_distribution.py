"""Tests that share a cluster or an engine run in one process of `pytest -n`."""

from tests.distribution import group_of, rank

# In the order in which they begin, each with its group; "" is the test itself.
TESTS = {
    "tests/clusters/yarn/test_docker.py::test_a": "tests/clusters/yarn/",
    "tests/runner/docker/test_deaths.py::test_a[1]": "tests/runner/docker/",
    "tests/clusters/kubernetes/test_cluster.py::test_a": "tests/clusters/kubernetes/",
    "tests/clusters/yarn/test_kerberos.py::test_a": "tests/clusters/yarn/test_kerberos.py",
    "tests/clusters/spark/test_cluster.py::test_a": "tests/clusters/spark/",
    "tests/end_to_end/test_lives.py::test_a": "",
    "tests/test_readme.py::test_a": "",
    "tests/coordinator/policy/test_random_histories.py::test_a[2]": "",
    "tests/cli/test_live.py::TestLive::test_a": "tests/cli/test_live.py",
}


def test_groups():
    assert {test: group_of(test) for test in TESTS} == {t: group or t for t, group in TESTS.items()}


def test_the_longest_begin_first():
    assert sorted(sorted(TESTS), key=rank) == list(TESTS)
