"""A TFJob, imported, on a real cluster: its program is in the image and uses TensorFlow, its pods
have its claim and its variables, a killed worker begins again with the others, and worker 0 decides
about the end."""

from __future__ import annotations

import os

import pytest
import yaml

from tests.clusters.kubernetes.command import OnKubernetes
from tests.clusters.kubernetes.namespace import wait_for
from tests.clusters.kubernetes.pod_images import TENSORFLOW
from tests.end_to_end.command_line import call

PROGRAM = """
import json, os, pathlib, signal, sys, time
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
number = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
def one():
    return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))
total = strategy.run(tf.function(one))
address = os.environ["POD_IP"] in os.environ["TF_CONFIG"]
print("worker", number, "sum", float(total), os.getcwd(), address, *sys.argv[1:], flush=True)
failed, again = pathlib.Path("/train/failed"), pathlib.Path("/train/again")
if number == 1:
    if not failed.exists():
        failed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    again.touch()
    time.sleep(1000)
while not again.exists():
    time.sleep(0.2)
"""

JOB = f"""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: multi-worker
  labels: {{kueue.x-k8s.io/other: "1"}}
spec:
  runPolicy: {{cleanPodPolicy: Running, backoffLimit: 2}}
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        metadata:
          labels: {{team: research}}
        spec:
          terminationGracePeriodSeconds: 2
          nodeSelector: {{kubernetes.io/os: linux}}
          containers:
            - name: tensorflow
              image: {TENSORFLOW}
              imagePullPolicy: IfNotPresent
              command: [python3, -c, PROGRAM]
              args: [--level=$(LEVEL)]
              workingDir: /usr
              env:
                - {{name: LEVEL, value: "2"}}
                - name: POD_IP
                  valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}
              resources:
                requests: {{cpu: 10m, memory: 512Mi}}
              volumeMounts:
                - {{name: training, mountPath: /train}}
          volumes:
            - name: training
              persistentVolumeClaim: {{claimName: training}}
"""


@pytest.fixture
def tfapp(cluster, namespace, tmp_path):
    tfapp = OnKubernetes(tmp_path, tmp_path / "home", cluster, namespace)
    yield tfapp
    tfapp("destroy", "multi-worker", "--force")


@pytest.mark.weekly
def test_an_imported_tfjob_trains_and_survives_a_killed_worker(
    tfapp, namespace, shared_volume, tmp_path
):
    namespace.claim("training", shared_volume)
    job = yaml.safe_load(JOB)
    [container] = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container["command"][-1] = PROGRAM
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    words = ("import-tfjob", tmp_path / "job.yaml", "--out", tmp_path / "app")
    imported = call(words, {**os.environ, "TFAPP_HOME": str(tmp_path)}, tmp_path)
    assert imported.code == 0, imported.err
    begun = tfapp("create", "multi-worker", "--appdef", tmp_path / "app", "--detach")
    assert begun.code == 0, begun.err

    wait_for(lambda: (shared_volume / "again").exists(), "the second life of worker 1")
    pods = tfapp.pods("multi-worker")
    for worker in ("worker-0", "worker-1"):
        assert pods[worker]["metadata"]["labels"]["team"] == "research"
        assert pods[worker]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    status = tfapp.wait("multi-worker", 0)
    assert status["verdict"]["summary"].startswith("Succeeded: worker/0 ended with exit code 0")
    assert "It was restarted once before" in status["verdict"]["summary"]
    lines = tfapp.asks("logs", "multi-worker", "worker").splitlines()
    for number in (0, 1):
        said = f"worker/{number} | worker {number} sum 2.0 /usr True --level=2"
        assert lines.count(said) == 2, lines
