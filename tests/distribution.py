"""How `pytest -n` shares the tests among processes: those that need what is started once for all
of them stay together, and what takes long begins early."""

from typing import Any

from xdist.scheduler import LoadScopeScheduling

# By the beginnings of their names, in the order in which they begin.
TOGETHER = (
    "tests/clusters/yarn/",
    "tests/runner/docker/",
    "tests/clusters/kubernetes/",
    "tests/clusters/yarn/test_kerberos.py",
    "tests/clusters/spark/",
)
APART = (
    "tests/end_to_end/",
    "tests/examples/",
    "tests/test_readme.py",
    "tests/program/test_trainings.py",
    "tests/app_packages/",
    "tests/environment/test_build.py",
    "tests/coordinator/policy/test_random_histories.py",
)


class Scheduling(LoadScopeScheduling):
    """A process takes the first group that none has taken, in the order of collection."""

    def __init__(self, config: Any, log: Any):
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The group of a test: the cluster or engine that it needs, itself, or its file."""
    place = _place(nodeid)
    return nodeid if place in APART else place or nodeid.partition("::")[0]


def rank(nodeid: str) -> int:
    """By which the tests are sorted."""
    place = _place(nodeid)
    return (*TOGETHER, *APART, "").index(place)


def _place(nodeid: str) -> str:
    """The longest beginning that fits, or ""."""
    return max((p for p in (*TOGETHER, *APART) if nodeid.startswith(p)), key=len, default="")
