"""The doctor on a real cluster."""

import json
import platform
import re
import sys

import pytest


def findings(user, *flags: str) -> tuple[int, dict[str, str], dict[str, str]]:
    """The exit code, and by subject the levels and the texts."""
    done = user.call("doctor", "--format", "json", *flags)
    found = json.loads(done.stdout)["findings"]
    said = {f["subject"]: f["text"] for f in found}
    return done.returncode, {f["subject"]: f["level"] for f in found}, said


def test_a_cluster_that_is_well(user):
    code, found, said = findings(user)
    assert code == 0
    assert re.search(r"can be written, [0-9]+ MiB in \.tfapp/cache$", said["hdfs"])
    assert list(found) == [
        *("python", "home", "java", "yarn", "configuration"),
        *("resourcemanager", "nodes", "clocks", "hdfs"),
    ]
    assert set(found.values()) == {"ok"}


@pytest.mark.weekly
def test_an_interpreter_on_every_node(user, cluster, tmp_path):
    """It is there, and on one of them it does not run."""
    broken = cluster.host(2)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "${{NM_HOST:-}}" != {broken} ] || {{ echo no libpython >&2; exit 127; }}\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    done = user.call("doctor", "--python", str(python), "--format", "json")
    assert done.returncode == 53, done.stdout + done.stderr
    nodes = {
        found["text"].partition(":")[0]: (found["level"], found["text"].partition(": ")[2])
        for found in json.loads(done.stdout)["findings"]
        if found["subject"] == "node"
    }
    well = ("ok", f"Python {platform.python_version()}, {sys.executable}")
    ill = ("problem", f"{python} does not run: no libpython (--python)")
    assert nodes == {
        **{cluster.host(node): well for node in (1, 3)},
        broken: ill,
    }
    assert cluster.metric("appsRunning") == 0
