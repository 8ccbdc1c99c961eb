"""A TFJob whose program is the image's own command, imported, in run mode docker."""

import json

from tests.runner.docker.applications import tfapp
from tests.runner.docker.engine import BASE

IMAGE = "tfapp-test/tfjob:1"
PROGRAM = 'echo "$PWD $1 $LEVEL $TF_CONFIG"; test "$HELD" = no || sleep 1000'
JOB = f"""\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: own-command}}
spec:
  tfReplicaSpecs:
    Chief:
      template:
        spec:
          containers:
            - name: tensorflow
              image: {IMAGE}
              args: [--own]
              env: [{{name: LEVEL, value: "2"}}, {{name: HELD, value: "no"}}]
              resources: {{limits: {{memory: 256Mi}}}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: tensorflow
              image: {IMAGE}
              args: [--own]
              env: [{{name: LEVEL, value: "3"}}]
              resources: {{limits: {{memory: 256Mi}}}}
"""


def test_its_images_own_command_is_run(engine, submission, tmp_path):
    entry_point = json.dumps(["sh", "-c", PROGRAM, "sh"])
    id = engine.docker("create", BASE, "true").strip()
    changes = ("--change", f"ENTRYPOINT {entry_point}", "--change", "WORKDIR /opt")
    engine.docker("commit", *changes, id, IMAGE)
    engine.docker("rm", id)
    (tmp_path / "job.yaml").write_text(JOB)
    package = str(tmp_path / "imported")
    assert tfapp("import-tfjob", str(tmp_path / "job.yaml"), "--out", package).returncode == 0
    options = ("--option", "site.global.run.mode", "docker")
    done = tfapp("create", "app", "--appdef", package, *options)
    assert done.returncode == 0, done.stderr
    lines = [line for line in tfapp("logs", "app").stdout.splitlines() if "--own" in line]
    told = {line.partition(" | ")[0].strip(): line.partition(" | ")[2] for line in lines}
    assert sorted(told) == ["chief/0", "worker/0", "worker/1"]
    for instance, line in told.items():
        folder, argument, level, config = line.split(" ", 3)
        assert (folder, argument) == ("/opt", "--own")
        assert level == ("2" if instance == "chief/0" else "3")
        assert len(json.loads(config)["cluster"]["worker"]) == 2
