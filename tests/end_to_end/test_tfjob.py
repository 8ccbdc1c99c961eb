"""A TFJob, imported, on this machine: its command is run as it stands and trains with TensorFlow, a
killed worker begins again with the others, and worker 0 decides about the end."""

import sys

import pytest
import yaml

pytestmark = pytest.mark.trains

PROGRAM = """
import json, os, pathlib, signal, sys, time
sys.modules["sklearn"] = None  # Keras would load it, which takes long
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
number = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
def one():
    return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))
total = strategy.run(tf.function(one))
folder, level = map(pathlib.Path, sys.argv[1:])
print("worker", number, "sum", float(total), level, flush=True)
told, failed, again = folder / "told", folder / "failed", folder / "again"
if number == 0:
    told.touch()
if number == 1:
    while not told.exists():
        time.sleep(0.2)
    if not failed.exists():
        failed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    again.touch()
    time.sleep(1000)
while not again.exists():
    time.sleep(0.2)
"""


def test_an_imported_tfjob_trains_and_survives_a_killed_worker(tfapp):
    container = {
        "name": "tensorflow",
        "image": "registry.example.org/digits:1",
        "command": [sys.executable, "-c", PROGRAM, str(tfapp.work)],
        "args": ["level-$(LEVEL)"],
        "env": [{"name": "LEVEL", "value": "2"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    spec = {"terminationGracePeriodSeconds": 2, "containers": [container]}
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": spec}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "multi"},
        "spec": {"runPolicy": {"backoffLimit": 2}, "tfReplicaSpecs": {"Worker": worker}},
    }
    (tfapp.work / "job.yaml").write_text(yaml.safe_dump(job))
    tfapp.ok("import-tfjob", "job.yaml", "--out", "app")
    tfapp.ok("create", "multi", "--appdef", "app")
    verdict = tfapp.status("multi")["status"]["verdict"]
    assert verdict["summary"].startswith("Succeeded: worker/0 ended with exit code 0")
    assert "It was restarted once before." in verdict["summary"]
    lines = tfapp.asks("logs", "multi", "worker").splitlines()
    for number in (0, 1):
        assert lines.count(f"worker/{number} | worker {number} sum 2.0 level-2") == 2
