"""From `tfapp create --engine kubernetes` to the first line of the user's program, against two bare
pods of the same image and size that do the same: they get that program from a ConfigMap, tell each
other their addresses by another one, wait for both, and begin.

    python -m benchmarks.kubernetes_startup IMAGE

On the cluster and in the namespace that the kubeconfig names: examples/kubernetes-cluster is one.
IMAGE has a Python with TensorFlow, grpcio and protobuf, and is on the nodes: pulls are not
measured.

The floor: the same two pods, made by a third one, as an application master in a pod makes them.
The first line: two pods that run the program at once, alone.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import time

from benchmarks.medians import compare, parser
from tfapp.shipped import app_packages_dir

ROUNDS = 7
INSTANCES = 2
BAR = 1.3
LIMIT = 300.0  # seconds for one application

# Every instance says when it begins; the last one counts.
PROGRAM = 'import time; print(f"began {time.time()}", flush=True)\n'

# Calls the API with what every pod has.
CALL = """
import json, os, socket, ssl, sys, time, urllib.request
PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN, SPACE = open(f"{PLACE}/token").read(), open(f"{PLACE}/namespace").read()
TLS = ssl.create_default_context(cafile=f"{PLACE}/ca.crt")
def call(method, path, body=None):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/merge-patch+json"}
    if method == "POST":
        headers["Content-Type"] = "application/json"
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:443"
    url = f"{server}/api/v1/namespaces/{SPACE}/{path}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    return json.load(urllib.request.urlopen(request, context=TLS))
"""
# In each pod. Arguments: prefix of the names, number, their number.
WAITING = """
prefix, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = socket.create_server(("0.0.0.0", 0))
address = f"{socket.gethostbyname(socket.gethostname())}:{server.getsockname()[1]}"
found = call("PATCH", f"configmaps/{prefix}", {"data": {number: address}})
while len(found.get("data", {})) < count + 1:
    time.sleep(0.05)
    found = call("GET", f"configmaps/{prefix}")
server.close()
os.execv(sys.executable, [sys.executable, "/script/program.py"])
"""
# In the pod that makes the others. Argument: their manifests.
MAKING = """
for pod in json.loads(sys.argv[1]):
    call("POST", "pods", pod)
"""

# Makes what the pods need, the pods or the one that makes them, waits for their ends, prints their
# logs, deletes all. Arguments: way, image, prefix of the names, their number, program, and the
# three above.
BARE = """
import json, sys
from kubernetes import client, config, watch
way, image, prefix, count, program, call, waiting, making = sys.argv[1:]
config.load_kube_config()
space = config.list_kube_config_contexts()[1]["context"].get("namespace", "default")
api, rbac = client.CoreV1Api(), client.RbacAuthorizationV1Api()
meta, size = {"name": prefix}, {"requests": {"cpu": "1", "memory": "1152Mi"}}
size["limits"] = {"memory": "1152Mi"}
def pod(name, label, command):
    main = {"name": "main", "image": image, "command": ["python3", "-c", *command]}
    main["resources"] = size
    main["volumeMounts"] = [{"name": "script", "mountPath": "/script"}]
    volumes = [{"name": "script", "configMap": {"name": prefix}}]
    spec = {"restartPolicy": "Never", "containers": [main], "terminationGracePeriodSeconds": 1}
    if way == "alone":
        del main["volumeMounts"]
    else:
        spec |= {"serviceAccountName": prefix, "volumes": volumes}
    return {"metadata": {"name": name, "labels": {label: prefix}}, "spec": spec}
names = {f"{prefix}-{n}" for n in range(int(count))}
if way != "alone":
    api.create_namespaced_config_map(space, {"metadata": meta, "data": {"program.py": program}})
    api.create_namespaced_service_account(space, {"metadata": meta})
    rules = [{"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["*"]}]
    rbac.create_namespaced_role(space, {"metadata": meta, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": prefix}
    subjects = [{"kind": "ServiceAccount", "name": prefix, "namespace": space}]
    rbac.create_namespaced_role_binding(
        space, {"metadata": meta, "subjects": subjects, "roleRef": role}
    )
pods = [
    pod(name, "bare", [program] if way == "alone" else [call + waiting, prefix, name, count])
    for name in sorted(names)
]
if way == "made":
    pods = [pod(f"{prefix}-maker", "maker", [call + making, json.dumps(pods)])]
for each in pods:
    api.create_namespaced_pod(space, each)
left = set(names)
events = watch.Watch()
for event in events.stream(api.list_namespaced_pod, space, label_selector=f"bare={prefix}"):
    if event["object"].status.phase in ("Succeeded", "Failed"):
        left.discard(event["object"].metadata.name)
    if not left:
        events.stop()
for name in names:
    print(api.read_namespaced_pod_log(name, space), end="")
for name in (*names, f"{prefix}-maker") if way == "made" else names:
    api.delete_namespaced_pod(name, space, grace_period_seconds=0)
if way != "alone":
    api.delete_namespaced_config_map(prefix, space)
    api.delete_namespaced_service_account(prefix, space)
    rbac.delete_namespaced_role_binding(prefix, space)
    rbac.delete_namespaced_role(prefix, space)
"""


class Bench:
    """`folder` is for files."""

    def __init__(self, folder: Path, image: str, environ: Mapping[str, str]):
        self._image = image
        self._program = folder / "program.py"
        self._program.write_text(PROGRAM)
        self._environ = {**environ, "TFAPP_HOME": str(folder / "home")}
        self._names = (f"startup-{os.getpid()}-{n}" for n in itertools.count())

    def tfapp(self) -> float:
        """Seconds by tfapp."""
        name, began = next(self._names), time()
        self._run("-m", "tfapp", "create", name, *self._flags())
        on_engine = ("--engine", "kubernetes")
        logs = self._run("-m", "tfapp", "logs", name, "worker", *on_engine)
        self._run("-m", "tfapp", "destroy", name, *on_engine)
        return _latest(logs) - began

    def bare(self, way: str) -> float:
        """Seconds by two bare pods: "alone", "waiting" for each other, or the same "made" by a
        pod."""
        name, began = next(self._names), time()
        words = (way, self._image, name, str(INSTANCES), PROGRAM, CALL, WAITING, MAKING)
        return _latest(self._run("-c", BARE, *words)) - began

    def _flags(self) -> Iterable[str]:
        yield from ("--appdef", str(app_packages_dir() / "tensorflow"), "--engine", "kubernetes")
        yield from ("--component", "worker", str(INSTANCES), "--files", str(self._program))
        yield from ("--rescompopt", "worker", "yarn.memory", "1 GiB", "--option")
        yield from ("site.global.user.scripts.entry", self._program.name, "--option")
        yield from ("site.global.docker.image", self._image)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        if done.returncode:
            raise SystemExit(f"{words[:4]} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout


def _latest(said: str) -> float:
    moments = [float(text) for text in re.findall(r"began ([0-9.]+)", said)]
    if len(moments) != INSTANCES:
        raise SystemExit(f"{len(moments)} instances of {INSTANCES} have run")
    return max(moments)


def main() -> None:
    """Prints the medians, and the ratio beside its bar."""
    arguments = parser(__doc__, ROUNDS)
    arguments.add_argument("image", metavar="IMAGE")
    args = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = Bench(Path(folder), args.image, os.environ)
        if args.rounds > 1:
            measured.tfapp()  # what it keeps from one application to the next
        ways: dict[str, Callable[[], float]] = {
            "two pods alone": lambda: measured.bare("alone"),
            "two pods that wait for each other": lambda: measured.bare("waiting"),
            "the same, made by a pod": lambda: measured.bare("made"),
            "tfapp create --engine kubernetes": measured.tfapp,
        }
        alone, bare, made, ours = compare(ways, args.rounds).values()
    print(f"the floor: {made / bare:.2f}x; two pods alone: {alone / bare:.2f}x")
    print(f"tfapp: {ours / made:.2f}x of the floor")
    times = ours / bare
    print(f"{times:.2f}x ({'met' if times <= BAR else 'missed'}: at most {BAR}x)")


if __name__ == "__main__":
    main()
