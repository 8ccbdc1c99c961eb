"""The suite's parts: what each needs, and how long each took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

YARN, DOCKER, KUBERNETES, SPARK = "YARN", "docker", "Kubernetes", "Spark"
TRAININGS, REST = "trainings", "the rest"
PARTS = (YARN, DOCKER, KUBERNETES, SPARK, TRAININGS, REST)


def part_of(nodeid: str, fixtures: Collection[str], marks: Collection[str]) -> str:
    """The part of a test, by what it asks for: the first of PARTS that fits."""
    if nodeid.startswith("tests/clusters/yarn/") and "cluster" in fixtures:
        return YARN
    if nodeid.startswith("tests/clusters/kubernetes/") and "cluster" in fixtures:
        return KUBERNETES
    if nodeid.startswith("tests/clusters/spark/") and "cluster" in fixtures:
        return SPARK
    if "docker_engine" in fixtures:
        return DOCKER
    return TRAININGS if "trains" in marks else REST


def table(times: Iterable[tuple[str, str, float]]) -> list[str]:
    """Lines that say how long each part took. `times`: of each step of a test its part, its
    process (as "gw0") and seconds."""
    by_part: Counter[str] = Counter()
    by_process: Counter[str] = Counter()
    for part, process, seconds in times:
        by_part[part] += seconds
        by_process[process] += seconds
    lines = [f"{by_part[part]:8.0f} s  {part}" for part in PARTS if part in by_part]
    if len(by_process) > 1:
        lines += [f"{by_process[name]:8.0f} s  in process {name}" for name in sorted(by_process)]
    return lines
