"""The master in its pod, and pods as its containers."""

import hashlib
from collections.abc import Callable

import pytest

from tests.clusters.kubernetes.applications import FOREVER, Application
from tests.clusters.kubernetes.namespace import wait_for
from tfapp.contract.names import SUCCEEDED
from tfapp.protocol.connection import FINISHED_STATES, LIVE_STATES, Connection


@pytest.fixture
def application(cluster, namespace) -> Callable[..., Application]:
    return lambda name, **services: Application(namespace, cluster.kubeconfig, name, **services)


def told(connection: Connection) -> dict[str, tuple[str, str, str]]:
    """Container -> state, message, reason."""
    found = connection.containers((*LIVE_STATES, *FINISHED_STATES))
    return {c.id: (c.state, c.message, c.reason) for c in found}


def test_every_way_in_which_a_container_ends_or_does_not_begin(application):
    app = application(
        "ways",
        good="""sha256sum data; echo '{"generation": 1}' > $LOG_DIRS/tfapp-returned.json""",
        bad="echo secret; exit 4",
        bare="exit 0",
        start="echo 'tfapp: cannot start: no x'; exit 78",
        memory="exec python3 -c 'b\"x\" * (1 << 30)'",
        k=FOREVER,
        s="exit 3",
        a=FOREVER,
        i=FOREVER,
        v=FOREVER,
    )
    app.large = {"data": (b"large" * 1000 + b"\n") * 500}
    side = {"name": "side", "image": app.image, "command": ["sh", "-c", FOREVER]}
    app.pod_specs = {
        "bare": {"main": {"command": ["/nowhere"]}},
        "memory": {"main": {"resources": {"limits": {"memory": "64Mi"}}}},
        "s": {"containers": [side]},
        "a": {"nodeSelector": {"no": "such"}},
        "i": {"main": {"image": "localhost/none:1", "imagePullPolicy": "Never"}},
        "v": {"main": {"envFrom": [{"secretRef": {"name": "gone"}}]}},
    }
    app.create()
    missing = hashlib.sha256(app.large["data"]).hexdigest()
    wait_for(lambda: getattr(app.recorded().state, "missing", ()) == (missing,), "state")
    assert app.put("data") == (200, "")
    waiting = {
        "a_0": "waiting for a node: 0/2 nodes are available",
        "i_0": "waiting for the image localhost/none:1: ErrImageNeverPull: ",
        "v_0": 'waiting for its container: CreateContainerConfigError: secret "gone" not found',
    }
    with app.connection() as master:
        wait_for(lambda: told(master)["k_0"][0] == "RUNNING", "start")
        master.kill_container("k_0")
        wait_for(lambda: all(told(master)[c][1].startswith(w) for c, w in waiting.items()), "words")
        others = told(master).keys() - waiting.keys()
        wait_for(lambda: all(told(master)[c][0] in FINISHED_STATES for c in others), "ends")
        found = told(master)
        master.shutdown(SUCCEEDED, "all is seen")
    assert app.ended().ending.status.state == SUCCEEDED
    assert {c: found[c] for c in others} == {
        "good_0": ("SUCCEEDED", "Completed successfully.", ""),
        "bad_0": ("FAILED", "exit code 4", ""),
        "bare_0": ("FAILED", found["bare_0"][1], "start"),
        "start_0": ("FAILED", "no x", "start"),
        "memory_0": ("FAILED", "OOMKilled, exit code 137", "memory"),
        "k_0": ("KILLED", "Killed by user request.", ""),
        "s_0": ("FAILED", "exit code 3", ""),
    }
    assert found["bare_0"][1].startswith("its container does not start: ")
    assert "no such file or directory" in found["bare_0"][1]
    log = app.log("good-0")
    assert log.endswith(f'{missing}  data\ntfapp: returned {{"generation":1}}\n')
    # What has begun stays, with its log, and so does the master's pod.
    pods = app.pods()
    wait_for(lambda: app.pods()["master"]["status"]["phase"] == "Succeeded", "end of the master")
    assert pods.keys() >= {"good-0", "bad-0", "bare-0", "start-0", "memory-0", "k-0", "s-0"}
    assert "a-0" not in pods
    assert {i: p["status"]["phase"] for i, p in pods.items() if i not in ("master", "good-0")} == (
        dict.fromkeys(pods.keys() - {"master", "good-0"}, "Failed")
    )
    assert pods["k-0"]["metadata"]["name"] == "tfapp-ways-1-k-0"
