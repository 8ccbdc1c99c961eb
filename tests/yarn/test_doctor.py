"""The doctor on a real cluster."""

from __future__ import annotations

import json
import platform
import sys

from tests.yarn.test_broken_world import safe_mode


def findings(user, *flags: str) -> tuple[int, dict[str, str]]:
    done = user.call("doctor", "--format", "json", *flags)
    return done.returncode, {f["subject"]: f["level"] for f in json.loads(done.stdout)}


def test_a_cluster_that_is_well(user):
    code, found = findings(user)
    assert code == 0
    assert list(found) == [
        *("python", "home", "java", "yarn", "configuration"),
        *("resourcemanager", "nodes", "clocks", "hdfs"),
    ]
    assert set(found.values()) == {"ok"}


def test_an_interpreter_on_every_node(user, cluster):
    on_one = cluster.folder / "python"
    for python, expected in ((sys.executable, "ok"), (str(on_one), "problem")):
        done = user.call("doctor", "--python", python, "--format", "json")
        assert done.returncode == (0 if expected == "ok" else 53), done.stdout + done.stderr
        nodes = {
            found["text"].partition(":")[0]: (found["level"], found["text"].partition(": ")[2])
            for found in json.loads(done.stdout)
            if found["subject"] == "node"
        }
        if expected == "ok":
            words = f"Python {platform.python_version()}, {python}"
        else:
            words = f"there is no Python interpreter {python} (--python)"
        assert nodes == {cluster.host(node): (expected, words) for node in range(1, 4)}
    assert cluster.metric("appsRunning") == 0


def test_a_file_system_that_takes_nothing(user, cluster):
    safe_mode(cluster, "enter")
    try:
        code, found = findings(user)
    finally:
        safe_mode(cluster, "leave")
    assert code == 53
    assert [subject for subject, level in found.items() if level != "ok"] == ["hdfs"]
