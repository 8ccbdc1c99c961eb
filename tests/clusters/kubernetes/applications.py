"""Applications made of objects by hand, as the engine makes them: the master is the real one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google.protobuf
import grpc
from kubernetes_cluster.api import ApiError
from kubernetes_cluster.images import PYTHON

from tests.clusters.kubernetes.namespace import Namespace, wait_for
from tfapp.compiler.contents import ArchiveEntry, pack
from tfapp.compiler.runtime import read_runtime
from tfapp.contract.names import ACCEPTED
from tfapp.contract.status import ApplicationStatus
from tfapp.engines.credentials import new_credentials
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod import names, record
from tfapp.engines.kubernetes.pod.record import RecordedRun, RunRecord, read_run
from tfapp.engines.kubernetes.pods import MASTER_FILES, MASTER_PROGRAM
from tfapp.protocol.connection import Connection, connect
from tfapp.skein_library import skein
from tfapp.standalone import bootstrap

# The image has a Python alone: the libraries are this machine's.
LIBRARIES = Path(grpc.__file__).parents[1]
assert Path(google.protobuf.__file__).parents[2] == LIBRARIES
RUN = "exec python3 -u /tfapp/runtime/bootstrap.py $0 $1 /tfapp/run/certificate /tfapp/run/key "
FOREVER = "trap 'exit 143' TERM; while :; do sleep 0.1; done"


class Application:
    """One application of a namespace, and its first run. `services`: component -> script. It goes
    on until somebody ends it."""

    image = PYTHON

    def __init__(self, namespace: Namespace, kubeconfig: Path, name: str, **services: str):
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self.name = name
        self.object = names.application_object(name)
        self.run = names.run_object(name, 1)
        self.services = services
        self.pod_specs: dict[str, dict[str, Any]] = {}  # component -> more of its pods
        self.large: dict[str, bytes] = {}  # files that are put to the master
        self.instances = 1
        self.certificate, self.key = new_credentials(time.time())
        runtime = read_runtime(MASTER_FILES, compiled=False)
        self.runtime = pack((ArchiveEntry(*file) for file in runtime), small=True)

    def create(self) -> None:
        """All objects, the Job last."""
        now = time.time()
        accepted = ApplicationStatus(self.name, ACCEPTED, 0, now, now, ())
        known = RunRecord(f"application_{int(now * 1000)}_0001", 1, accepted, now, "")
        data = {"definition": json.dumps({"user": "ann"}), "run-1": record.text(known)}
        self._add("v1", "ConfigMap", "configmaps", self.object, data=data)
        files = {**self._files(), "bootstrap.py": Path(bootstrap.__file__).read_bytes()}
        self._secret(self.object, files)
        self._secret(self.run, {"certificate": self.certificate, "key": self.key})
        self._rights()
        job = {
            "backoffLimit": 0,
            "template": {"metadata": self._of_pods("master"), "spec": self._pod()},
        }
        self._add("batch/v1", "Job", "jobs", self.run, spec=job)

    def recorded(self) -> RecordedRun:
        """What the record says."""
        found = self.namespace.api.call("GET", f"{self.namespace.path}/configmaps/{self.object}")
        return read_run(found["data"], 1)

    def ended(self) -> RecordedRun:
        """The same once there is an ending."""
        self._wait(lambda: self.recorded().ending, "an ending")
        return self.recorded()

    def pods(self) -> dict[str, dict[str, Any]]:
        """Component and instance -> pod: "master", "w-0"."""
        of_run = (
            pod
            for pod in self.namespace.pods()
            if pod["metadata"].get("labels", {}).get(names.APPLICATION) == names.slug(self.name)
        )
        return {self._label(pod): pod for pod in of_run}

    def log(self, instance: str) -> str:
        """Of its newest pod."""
        name = self.pods()[instance]["metadata"]["name"]
        return self.namespace.api.text(
            "GET", f"{self.namespace.path}/pods/{name}/log?container={names.CONTAINER}"
        )

    def logs(self) -> str:
        """All, for messages."""
        found = []
        for instance in self.pods():
            try:
                found.append(f"--- {instance}\n{self.log(instance)}")
            except (ApiError, KeyError) as error:
                found.append(f"--- {instance}\n{error}")
        return "\n".join(found)

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """To its master, once it serves."""
        self._wait(self._serves, "an address")
        state = self.recorded().state
        assert state is not None
        with (
            self._forward(state.pod, state.address) as address,
            connect(address, self.certificate, self.key) as connection,
        ):
            yield connection

    def put(self, name: str) -> tuple[int, str]:
        """Brings a large file to the master; its answer."""
        state = self.recorded().state
        assert state is not None
        digest = hashlib.sha256(self.large[name]).hexdigest()
        with self._forward(state.pod, state.files) as address:
            with tempfile.TemporaryDirectory() as folder:
                pem = Path(folder, "pem")
                pem.write_bytes(self.key + self.certificate)
                tls = bootstrap.MasterClient(address, pem, pem).tls
            there = http.client.HTTPSConnection(address, context=tls, timeout=60)
            with contextlib.closing(there):
                there.request("PUT", f"/files/{digest}", self.large[name])
                answer = there.getresponse()
                return answer.status, answer.read().decode()

    # -- inside --
    def _wait(self, ready: Callable[[], object], what: str) -> None:
        try:
            wait_for(ready, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def _serves(self) -> bool:
        state = self.recorded().state
        return state is not None and state.address != ""

    @contextlib.contextmanager
    def _forward(self, pod: str, address: str) -> Iterator[str]:
        cluster = KubernetesCluster.open({"KUBECONFIG": str(self.kubeconfig)}, self.namespace.name)
        with cluster.forward(pod, int(address.rpartition(":")[2])) as (host, port):
            yield f"{host}:{port}"

    def _label(self, pod: dict[str, Any]) -> str:
        labels = pod["metadata"]["labels"]
        return labels.get(names.INSTANCE) or labels[names.COMPONENT]

    def _files(self) -> dict[str, bytes]:
        shared = {"tfapp-runtime": (self.runtime, "ARCHIVE")}
        shared |= {name: (data, "FILE") for name, data in self.large.items()}
        digests = {name: hashlib.sha256(data).hexdigest() for name, (data, _) in shared.items()}
        files = {
            name: skein.File(source=f"file:///tfapp/files/{digests[name]}", type=kind)
            for name, (_, kind) in shared.items()
        }
        resources = skein.Resources(memory=64, vcores=1)
        spec = skein.ApplicationSpec(
            name=self.name,
            master=skein.Master(script=FOREVER, files=files, resources=resources),
            services={
                name: skein.Service(
                    script=script,
                    files=files,
                    resources=resources,
                    instances=self.instances,
                    allow_failures=True,
                )
                for name, script in self.services.items()
            },
        )
        kept = {digests[n]: data for n, (data, _) in shared.items() if n not in self.large}
        pods = {name: self._component(name) for name in self.services}
        return {
            "spec": spec.to_protobuf().SerializeToString(),
            "pods": json.dumps(pods).encode(),
            **kept,
        }

    def _component(self, component: str) -> dict[str, Any]:
        command = ["sh", "-c", f"{RUN}/tfapp/work"]
        spec = self._spec({"name": names.CONTAINER, "image": self.image, "command": command})
        more = dict(self.pod_specs.get(component, {}))
        spec["containers"] += more.pop("containers", [])
        spec["containers"][0] |= more.pop("main", {})
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._of_pods(component),
            "spec": {**spec, "automountServiceAccountToken": False, **more},
        }

    def _pod(self) -> dict[str, Any]:
        """The master's."""
        fields = {"TFAPP_POD_NAME": "metadata.name", "TFAPP_POD_IP": "status.podIP"}
        container = {
            "name": names.CONTAINER,
            "image": self.image,
            "command": ["python3", "-u", "/tfapp/runtime/runtime.zip", MASTER_PROGRAM],
            "env": [
                {"name": "TFAPP_NAME", "value": self.name},
                {"name": "TFAPP_RUN", "value": "1"},
                *(
                    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                    for name, path in fields.items()
                ),
            ],
        }
        spec = self._spec(container)
        spec["volumes"].append({"name": "tfapp-app", "secret": {"secretName": self.object}})
        mount = {"name": "tfapp-app", "mountPath": "/tfapp/app", "readOnly": True}
        container["volumeMounts"].append(mount)
        return {**spec, "serviceAccountName": self.object}

    def _spec(self, container: dict[str, Any]) -> dict[str, Any]:
        """A pod of one container, with what all have."""
        mounts = {
            "tfapp-run": "/tfapp/run",
            "tfapp-runtime": "/tfapp/runtime",
            "tfapp-work": "/tfapp/work",
            "libraries": "/libraries",
        }
        container["volumeMounts"] = [{"name": n, "mountPath": p} for n, p in mounts.items()]
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
        container.setdefault("env", []).append({"name": "PYTHONPATH", "value": "/libraries"})
        runtime = hashlib.sha256(self.runtime).hexdigest()
        keys = {"bootstrap.py": "bootstrap.py", runtime: "runtime.zip"}
        items = [{"key": key, "path": path} for key, path in keys.items()]
        return {
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [
                {"name": "tfapp-run", "secret": {"secretName": "tfapp-of-another-run"}}
                if container["command"][0] == "sh"
                else {"name": "tfapp-run", "secret": {"secretName": self.run}},
                {"name": "tfapp-runtime", "secret": {"secretName": self.object, "items": items}},
                {"name": "tfapp-work", "emptyDir": {}},
                {"name": "libraries", "hostPath": {"path": str(LIBRARIES)}},
            ],
        }

    def _of_pods(self, component: str) -> dict[str, Any]:
        return {"labels": names.pod_labels(self.name, 1, component)}

    def _rights(self) -> None:
        rules = [
            ("", "pods", ("create", "get", "list", "watch", "delete", "patch")),
            ("", "events", ("list",)),
            ("", "configmaps", ("create", "get", "patch")),
            ("batch", "jobs", ("get",)),
        ]
        group, name = "rbac.authorization.k8s.io", self.object
        self._add("v1", "ServiceAccount", "serviceaccounts", name)
        role = [{"apiGroups": [g], "resources": [r], "verbs": list(v)} for g, r, v in rules]
        self._add(f"{group}/v1", "Role", "roles", name, rules=role)
        self._add(
            f"{group}/v1",
            "RoleBinding",
            "rolebindings",
            name,
            roleRef={"apiGroup": group, "kind": "Role", "name": name},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": self.namespace.name}],
        )

    def _secret(self, name: str, content: dict[str, bytes]) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        self._add("v1", "Secret", "secrets", name, data=data)

    def _add(self, version: str, kind: str, plural: str, name: str, **body: Any) -> None:
        path = self.namespace.path
        if "/" in version:
            path = f"/apis/{version}/namespaces/{self.namespace.name}"
        item = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}
        self.namespace.api.call("POST", f"{path}/{plural}", item)
