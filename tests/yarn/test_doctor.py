"""The doctor on a real cluster."""

from __future__ import annotations

import json

from tests.yarn.test_broken_world import safe_mode


def findings(user) -> tuple[int, dict[str, str]]:
    done = user.call("doctor", "--format", "json")
    return done.returncode, {f["subject"]: f["level"] for f in json.loads(done.stdout)}


def test_a_cluster_that_is_well(user):
    code, found = findings(user)
    assert code == 0
    assert list(found) == [
        *("python", "home", "java", "yarn", "configuration"),
        *("resourcemanager", "nodes", "clocks", "hdfs"),
    ]
    assert set(found.values()) == {"ok"}


def test_a_file_system_that_takes_nothing(user, cluster):
    safe_mode(cluster, "enter")
    try:
        code, found = findings(user)
    finally:
        safe_mode(cluster, "leave")
    assert code == 53
    assert [subject for subject, level in found.items() if level != "ok"] == ["hdfs"]
