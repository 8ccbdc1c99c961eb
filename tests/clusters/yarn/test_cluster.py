"""The cluster that users start for themselves, and its disturbances."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters.yarn.conftest import PROGRAM, program

LIMIT = 180.0


def hosts(cluster, state: str = "RUNNING") -> dict[str, dict]:
    found = json.loads(cluster.web(f"nodes?states={state}"))["nodes"] or {"node": []}
    return {node["nodeHostName"]: node for node in found["node"]}


def processes_below(folder: Path) -> list[str]:
    mark = f"{folder}/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "cmdline").read_bytes() + (path / "environ").read_bytes():
                found.append(path.name)
        except OSError:
            continue
    return found


def test_every_node_is_a_host_of_its_own(cluster):
    assert set(hosts(cluster)) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"}


def test_the_first_node_offers_gpus_and_the_last_has_the_label(cluster):
    found = hosts(cluster)
    gpus = {
        host: [
            int(resource["value"])
            for resource in node["totalResource"]["resourceInformations"]["resourceInformation"]
            if resource["name"] == "yarn.io/gpu"
        ]
        for host, node in found.items()
    }
    labels = {host: node.get("nodeLabels", []) for host, node in found.items()}
    assert gpus == {"127.0.0.2": [2], "127.0.0.3": [0], "127.0.0.4": [0]}
    assert labels == {"127.0.0.2": [], "127.0.0.3": [], "127.0.0.4": ["special"]}


def test_its_queues(cluster):
    scheduler = json.loads(cluster.web("scheduler"))["scheduler"]["schedulerInfo"]
    states = {queue["queueName"]: queue["state"] for queue in scheduler["queues"]["queue"]}
    running = ("default", "batch", "labelled", "private")
    assert states == {**dict.fromkeys(running, "RUNNING"), "closed": "STOPPED"}


@pytest.mark.weekly
def test_a_second_cluster_runs_beside_it_and_leaves_nothing(cluster, tmp_path):
    folder = tmp_path / "second"
    run = [sys.executable, str(PROGRAM)]
    where = ["--dir", str(folder), "--cache", str(cluster.cache)]
    size = ["--nodes", "1", "--datanodes", "2"]
    started = subprocess.run([*run, "start", *size, *where], timeout=2 * LIMIT)
    assert started.returncode == 0
    again = subprocess.run([*run, "start", *where], capture_output=True, text=True)
    assert again.returncode == 1
    assert again.stderr == (f"cluster.py: the cluster in {folder} runs already; stop it first\n")
    for action, count in (("kill", 4), ("start", 5)):
        subprocess.run([*run, "manager", action, *where], check=True, timeout=LIMIT)
        assert len(processes_below(folder)) == count
    subprocess.run([*run, "stop", *where], check=True, timeout=LIMIT)
    assert processes_below(folder) == []
    assert not folder.exists()


def test_a_folder_that_is_not_a_cluster_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    cluster = program.Cluster(tmp_path, tmp_path)
    with pytest.raises(program.ClusterError, match="not a cluster's"):
        cluster.start()
    with pytest.raises(program.ClusterError, match="there is no cluster in"):
        cluster.stop()
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_its_variables_are_there_while_a_node_is_not(tmp_path):
    runs = {"pid": os.getpid(), "started": program.Process.of(os.getpid()).started}
    processes = dict.fromkeys(("namenode", "resourcemanager", "node1", "node2"), runs)

    def env(**ended: object) -> subprocess.CompletedProcess[str]:
        state = {"ports": {}, "processes": {**processes, **ended}}
        (tmp_path / "cluster.json").write_text(json.dumps(state))
        return subprocess.run(
            [sys.executable, str(PROGRAM), "env", "--dir", str(tmp_path)],
            env={**os.environ, "JAVA_HOME": "/java"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    gone = {"pid": os.getpid(), "started": 0}
    done = env(node2=gone)
    assert (done.returncode, done.stderr) == (0, "cluster.py: node2 has ended; `node 2 start`\n")
    assert "export JAVA_HOME=/java\n" in done.stdout
    assert env().stdout == done.stdout
    done = env(node2=gone, namenode=gone)
    assert (done.returncode, done.stdout) == (1, "")
    assert "namenode, node2 has ended" in done.stderr
