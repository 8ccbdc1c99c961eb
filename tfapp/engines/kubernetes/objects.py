"""The objects of a compiled application on a cluster, as plain data. Pure except for reading pod
templates and a shipped environment."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.compiler.compile import Compiled
from tfapp.compiler.python import digest_of
from tfapp.compiler.render import render_objects
from tfapp.contract.encoding import encode
from tfapp.engines.definition import Definition
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.record import DEFINITION
from tfapp.engines.kubernetes.pods import (
    BOOTSTRAP,
    CERTIFICATE,
    KEY,
    Manifest,
    Places,
    has_witness,
    master_pod,
    of_instances,
    of_run,
    pods,
    ttl_of,
)
from tfapp.package.model import ConfigValue, setting
from tfapp.standalone import bootstrap

# Keys of the application's Secret beside its files, which are called by their SHA-256.
SPEC, PODS, JOB = "spec", "pods", "job"
FILES = "file:///tfapp/files/"  # then a SHA-256: the source of each file in the spec

MAX_CONTENT = 1_000_000  # bytes in a Secret, whose limit is 1 MiB
STRUCK_OUT = "[secret]"
BUDGET = "PodDisruptionBudget"


def objects(
    compiled: Compiled, at: Places, record: Mapping[str, str], credentials: tuple[bytes, bytes]
) -> list[Manifest]:
    """All objects for the first run, in the order of their creation: the record, the Secrets, the
    master's permissions, the budget of evictions, its Job. All after the record are owned by it
    (`owned`). `record`: the data of the record. `credentials`: certificate and key, PEM."""
    assert compiled.plan is not None
    shared = compiled.plan.package.config.global_
    own_account = setting(shared, "kubernetes.service.account") is None
    content = application_content(compiled, at)
    return [
        {
            **_object("ConfigMap", at, names.application_object(at.name)),
            "data": dict(record),
        },
        _secret(at, names.application_object(at.name), content),
        *(rights(at) if own_account else ()),
        *(of_the_witness(at) if has_witness(compiled.plan) else ()),
        *_budget(at, setting(shared, "kubernetes.min.available")),
        *run_objects(content, at, credentials),
    ]


def run_objects(
    content: Mapping[str, bytes], at: Places, credentials: tuple[bytes, bytes]
) -> list[Manifest]:
    """The Secret and the Job of run `at.run`. `content`: the data of the application's Secret."""
    job = json.loads(content[JOB])
    template = of_run(job["spec"]["template"], at.name, at.run)
    metadata = {**job["metadata"], "name": names.run_object(at.name, at.run)}
    metadata["labels"] = {**metadata["labels"], names.RUN: str(at.run)}
    certificate, key = credentials
    secret = _secret(
        at, names.run_object(at.name, at.run), {CERTIFICATE: certificate, KEY: key}, of_a_run=True
    )
    return [secret, {**job, "metadata": metadata, "spec": {**job["spec"], "template": template}}]


def owned(body: Manifest, record: Mapping[str, Any]) -> Manifest:
    """`body` with the record as its owner: it is deleted with the record."""
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": record["metadata"]["name"],
        "uid": record["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}


def printed(bodies: Sequence[Manifest]) -> list[Manifest]:
    return [
        {**body, "data": dict.fromkeys(body["data"], STRUCK_OUT)}
        if body["kind"] == "Secret"
        else body
        for body in bodies
    ]


def rendered(compiled: Compiled, at: Places) -> str:
    """What `create` sends, as YAML without the values of Secrets, and a pod of each component. The
    record gets its run, and each pod its name, number and owner later."""
    assert compiled.plan is not None
    definition = encode(Definition.of(at.name, compiled)).decode()
    made = objects(compiled, at, {DEFINITION: definition}, (b"", b""))
    return render_objects([*printed(made), *pods(compiled.plan, at).values()])


# ---- The application's Secret -----------------------------------------------------------------


def application_content(compiled: Compiled, at: Places) -> dict[str, bytes]:
    """The data of the application's Secret: the runtime archive, and as many files as fit, the
    smallest first. The master waits for the others."""
    plan, spec = compiled.plan, compiled.spec
    assert plan is not None
    data = {hashlib.sha256(file.data).hexdigest(): file.data for file in compiled.files}
    runtime, *others = data  # the archive comes first: see Shipment.all
    master = master_pod(
        plan, at, spec.master.resources.memory, spec.master.resources.vcores, runtime
    )
    content = {
        SPEC: _spec_with_digests(compiled),
        PODS: _json(pods(plan, at)),
        JOB: _json(_job(at, master, ttl_of(plan.package), plan.job.attempts)),
        BOOTSTRAP: Path(bootstrap.__file__).read_bytes(),
        runtime: data[runtime],
    }
    room = MAX_CONTENT - sum(map(len, content.values()))
    for digest in sorted(others, key=lambda digest: (len(data[digest]), digest)):
        room -= len(data[digest])
        if room < 0:
            break
        content[digest] = data[digest]
    return content


def digests(compiled: Compiled) -> dict[str, str]:
    """The SHA-256 of each local file of the application, by its source in the spec. An environment
    that is not built yet (`--dry-run`) has none."""
    found = {file.source: hashlib.sha256(file.data).hexdigest() for file in compiled.files}
    for archive in compiled.archives:
        if archive.path is not None and archive.path.exists():
            found[archive.url] = digest_of(archive.path)
    return found


def left_out(compiled: Compiled, bodies: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The sources of the files that are in no Secret among `bodies`, by their SHA-256."""
    inside = {key for body in bodies if body["kind"] == "Secret" for key in body["data"]}
    return {digest: source for source, digest in digests(compiled).items() if digest not in inside}


def _spec_with_digests(compiled: Compiled) -> bytes:
    """Skein's ApplicationSpec, serialized, with files named by their SHA-256."""
    known = digests(compiled)
    definition = Definition.of(compiled.spec.name, compiled)
    parts = [definition.spec.get("master", {}), *definition.spec.get("services", {}).values()]
    for part in parts:
        for file in part.get("files", {}).values():
            if file["source"] in known:
                file["source"] = FILES + known[file["source"]]
    return definition.spec_message()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# ---- The others -------------------------------------------------------------------------------


def rights(at: Places) -> list[Manifest]:
    """The master's ServiceAccount, and its permissions in the namespace."""
    name = names.application_object(at.name)
    known = [name, names.journal_object(at.name), names.witness_object(at.name)]
    role = {
        **_object("Role", at, name, "rbac.authorization.k8s.io/v1"),
        "rules": [
            _rule("", "pods", "create", "get", "list", "watch", "delete", "patch"),
            _rule("", "pods/log", "get"),
            _rule("", "events", "list", "create"),
            {**_rule("", "configmaps", "get", "patch"), "resourceNames": known},
            _rule("", "configmaps", "create"),  # those, and the owner of its pods
            _rule("batch", "jobs", "get", "patch"),  # whether it goes on, and that it does not
        ],
    }
    return [_object("ServiceAccount", at, name), role, _binding(at, name)]


def of_the_witness(at: Places) -> list[Manifest]:
    """The ServiceAccount of runners, which ask the witness whether their master is lost, with its
    only permission, and a token."""
    witness = names.witness_object(at.name)
    role = {
        **_object("Role", at, witness, "rbac.authorization.k8s.io/v1"),
        "rules": [{**_rule("", "configmaps", "get"), "resourceNames": [witness]}],
    }
    token = _secret(at, witness, {})
    del token["immutable"]  # Kubernetes fills it in
    token["type"] = "kubernetes.io/service-account-token"
    token["metadata"]["annotations"]["kubernetes.io/service-account.name"] = witness
    return [_object("ServiceAccount", at, witness), role, _binding(at, witness), token]


def _binding(at: Places, name: str) -> Manifest:
    """Gives a ServiceAccount the Role of its name."""
    return {
        **_object("RoleBinding", at, name, "rbac.authorization.k8s.io/v1"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": at.namespace}],
    }


def _rule(group: str, resource: str, *verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _budget(at: Places, least: ConfigValue | None) -> Iterator[Manifest]:
    """The PodDisruptionBudget, where `least` pods have to stay. It can have no maxUnavailable:
    nothing that controls the pods has a number of replicas. A pod that is not ready helps nobody,
    and does not hold up the end of its node."""
    if least is not None:
        spec = {
            "minAvailable": int(least.text),
            "selector": of_instances(at),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
        name = names.application_object(at.name)
        yield {**_object(BUDGET, at, name, "policy/v1"), "spec": spec}


def _job(at: Places, pod: Manifest, ttl: int | None, attempts: int) -> Manifest:
    """The master's Job, which starts a single pod, and another one when that is lost: `attempts`
    altogether. It does so while the lost one is still terminating, as on a node that does not
    answer: that is why it has no podFailurePolicy, and why the master itself makes an ending
    final."""
    body = _object("Job", at, names.run_object(at.name, at.run), "batch/v1", of_a_run=True)
    metadata = {key: pod["metadata"][key] for key in ("labels", "annotations")}
    spec: Manifest = {
        "backoffLimit": attempts - 1,
        "template": {"metadata": metadata, "spec": pod["spec"]},
    }
    if ttl is not None:
        spec["ttlSecondsAfterFinished"] = ttl
    return {**body, "spec": spec}


def _secret(
    at: Places, name: str, content: Mapping[str, bytes], of_a_run: bool = False
) -> Manifest:
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    body = _object("Secret", at, name, of_a_run=of_a_run)
    return {**body, "type": "Opaque", "immutable": True, "data": data}


def _object(
    kind: str, at: Places, name: str, version: str = "v1", of_a_run: bool = False
) -> Manifest:
    labels = names.run_labels(at.name, at.run) if of_a_run else names.application_labels(at.name)
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": at.namespace,
            "labels": {**labels, **names.common_labels(at.name), **names.tag_label(at.tags)},
            "annotations": names.application_annotations(at.name, at.user),
        },
    }
