"""What TF-Spawner does, on a real cluster: its flags, its pod file, its entrypoint; and what it
leaves to its user: TensorBoard, and the trained model."""

import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.clusters.kubernetes.command import FRUGAL, OnKubernetes
from tests.clusters.kubernetes.namespace import wait_for
from tests.end_to_end.command_line import read_until
from tests.page.served import document, served

# Reads the variables as its example does. Ends when its file is there.
SCRIPT = """
import json, os, pathlib, time
number, total = os.environ["WORKER_NUMBER"], int(os.environ["TOT_WORKERS"])
print("worker", number, "of", total, json.loads(os.environ["TF_CONFIG"])["cluster"], flush=True)
model = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"], "export", number)
model.mkdir(parents=True)
(model / "weights").write_bytes(bytes(range(256)) * 20_000)
pathlib.Path("notes.txt").write_text(number)
while not pathlib.Path("/saved/enough").exists():
    time.sleep(0.2)
"""
ENTRYPOINT = 'echo "the entrypoint has $GREETING"\npython3 /script/training-script.py\n'
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: PODNAME
  labels:
    app: APPNAME
    training_attempt: ATTEMPT
spec:
  containers:
    - name: tensorflow
      resources:
        requests:
          memory: "512Mi"
          cpu: "10m"
      env:
      volumeMounts:
      - name: script
        mountPath: /script
      command:  ['python', '/script/training-script.py' ]
  volumes:
    - name: script
      configMap:
        name: script
  restartPolicy: Never
"""


@pytest.fixture
def tfapp(cluster, namespace, tmp_path):
    tfapp = OnKubernetes(tmp_path, tmp_path / "home", cluster, namespace)
    yield tfapp
    tfapp("destroy", "--tag", "attempt-7", "--force")


@pytest.mark.weekly
def test_it_is_replaced(tfapp, namespace, shared_volume, tmp_path):
    """In a namespace that takes no pods of root."""
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    namespace.api.call("PATCH", namespace.path, labels, "application/merge-patch+json")
    namespace.claim("models", shared_volume)
    files = {"entrypoint.sh": ENTRYPOINT, "envfile": "GREETING=a-quiet-word\n", "pod.yaml": POD}
    for name, text in {**files, "service.yaml": "apiVersion: v1\nkind: Service\n"}.items():
        (tmp_path / name).write_text(text)
    words = (
        *("run", tfapp.program(SCRIPT), "-w", 2, "-p", 1999, *FRUGAL),
        *("-c", tmp_path / "entrypoint.sh", "-e", tmp_path / "envfile", "-t", "attempt-7"),
        *("--name", "mnist", "--tensorboard", "-O", "site.global.kubernetes.user", 1000),
        *("-O", "site.global.kubernetes.volumes", "pvc:models:/saved"),
        *("-O", "site.global.user.checkpoint.prefix", "/saved"),
    )
    refused = tfapp(*words, "--pod-file", tmp_path / "service.yaml", "--detach")
    assert (refused.code, tfapp.objects()) == (77, []), refused.err
    assert "service.yaml:2:7: error: expected a Pod, found a Service" in refused.err
    begun = tfapp(*words, "--pod-file", tmp_path / "pod.yaml", "--detach", "--wait", 300)
    assert begun.code == 0, begun.err

    pods = tfapp.pods("mnist")
    assert sorted(pods) == ["", "tensorboard-0", "worker-0", "worker-1"]
    assert {pod["metadata"]["labels"]["training_attempt"] for pod in pods.values()} == {"attempt-7"}
    assert "a-quiet-word" not in json.dumps(pods)
    cluster = [f"{pods[worker]['status']['podIP']}:1999" for worker in ("worker-0", "worker-1")]

    def written() -> bool:
        lines = tfapp.asks("logs", "mnist", "worker").splitlines()
        expected = {f"worker/{n} | worker {n} of 2 {{'worker': {cluster}}}" for n in (0, 1)}
        return expected | {f"worker/{n} | the entrypoint has a-quiet-word" for n in (0, 1)} <= set(
            lines
        )

    wait_for(written, "lines of both workers")
    # The model, from a container that runs.
    tfapp.ok("fetch", "mnist", "export/1", tmp_path / "early")
    assert (tmp_path / "early" / "1" / "weights").stat().st_size == 256 * 20_000

    # The page of the application says how one gets to TensorBoard.
    with served(tfapp, "mnist") as address:
        shown = document(address, "worker/1")
    assert [one["name"] for one in shown["instances"]] == ["worker/0", "worker/1", "tensorboard/0"]
    assert [lane["parts"][-1]["kind"] for lane in shown["history"]["lanes"]] == ["runs"] * 3
    assert "the entrypoint has a-quiet-word" in shown["logs"][0]["text"]
    [board] = shown["links"]
    assert (board["what"], board["instance"]) == ("TensorBoard", "tensorboard/0")
    assert board["address"].startswith(f"http://{pods['tensorboard-0']['status']['podIP']}:")
    assert "`tfapp tensorboard mnist --engine kubernetes` leads there" in board["note"]
    assert "`tfapp tensorboard mnist --engine kubernetes` leads to" in tfapp("status", "mnist").err

    # TensorBoard, for as long as it is there.
    with tfapp.start("tensorboard", "mnist") as held:
        try:
            address = re.search(
                r"http://127\.0\.0\.1:\d+\S*", read_until(held, held.stdout, "\n")
            ).group()
            wait_for(lambda: b"<title>TensorBoard</title>" in page(address), "TensorBoard's page")
            (shared_volume / "enough").touch()
            _, problems = held.communicate(timeout=300)
        finally:
            held.kill()
    assert (held.returncode, problems.splitlines()[-1]) == (0, "mnist has ended")
    tfapp.wait("mnist", 0)

    # The model, from a pod that is there for that alone; also at another machine.
    colleague = tfapp.elsewhere(tmp_path / "elsewhere")
    fetched = colleague.ok("fetch", "mnist", tmp_path / "late").splitlines()
    assert fetched == [f"{tmp_path}/late/export/{n}/weights" for n in (0, 1)]
    content = bytes(range(256)) * 20_000
    assert all(Path(path).read_bytes() == content for path in fetched)
    left = colleague.ok("fetch", "mnist", tmp_path / "left", "--outputs").splitlines()
    assert left == [f"{tmp_path}/left/worker_{n}/notes.txt" for n in (0, 1)]
    assert [Path(path).read_text() for path in left] == ["0", "1"]
    assert colleague("fetch", "mnist", "none", tmp_path / "late").code == 44
    assert [name for name in tfapp.objects() if "-fetch-" in name] == []

    ended = tfapp("stop", "--tag", "attempt-7")
    assert (ended.code, ended.err) == (0, "mnist was not running: SUCCEEDED\n")
    gone = colleague("destroy", "--tag", "attempt-7")
    assert (gone.code, gone.err.split(";")[0]) == (0, "mnist is destroyed")
    assert tfapp.objects() == []


def page(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.read()
    except OSError:
        return b""  # it has not come up yet
