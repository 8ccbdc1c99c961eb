"""Finds applications that a namespace refuses, before anything is created: missing rights, objects
that the API server or its admission refuses, references to missing objects.

What the login may not read is not checked; the API server decides in the end. Whether nodes and
quotas have room is for the scheduler and the quotas to say, while pods wait: nodes can be added.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from tfapp.engines.kubernetes import pods
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.configuration import quantity
from tfapp.engines.kubernetes.objects import BUDGET, left_out, objects, rights
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.failures import RefusedObjectError, rule
from tfapp.engines.kubernetes.pods import CODE, Places
from tfapp.engines.kubernetes.rights import (
    NEEDED,
    OF_ACCOUNTS,
    OF_BUDGETS,
    OF_PORTS,
    missing,
    refusal,
)
from tfapp.errors import ForbiddenError
from tfapp.package.model import AppPackage, ConfigValue, setting
from tfapp.problems import Position, Problem

if TYPE_CHECKING:
    from tfapp.compiler.compile import Compiled

MASTER = names.MASTER_COMPONENT
ACCOUNT = "site.global.kubernetes.service.account"
_DEFAULT_ACCOUNT = "default"
AT_ONCE = 4  # calls
_EXCEEDED = re.compile(r"exceeded quota: .*, requested: (\S+), used: \S+, limited: (\S+)")

# The part of a pod's specification -> the key below site.global. that it comes from.
_KEYS = (
    ("volumes", "kubernetes.volumes"),
    ("nodeSelector", "kubernetes.node.selector"),
    ("tolerations", "kubernetes.tolerations"),
    ("priorityClassName", "kubernetes.priority.class"),
    ("serviceAccountName", "kubernetes.service.account"),
    ("imagePullSecrets", "kubernetes.image.pull.secrets"),
    ("securityContext", "kubernetes.user"),
    ("containers[0].volumeMounts", "kubernetes.volumes"),
    ("containers[0].image", "docker.image"),
    ("", "kubernetes.pod.template"),
)
# A resource that a pod asks for -> where it is asked for: below site.global., in resources.
_OF_RESOURCES = {"cpu": ("kubernetes.cpu.request", "yarn.vcores"), "memory": ("", "yarn.memory")}
_OF_GPUS = ("kubernetes.gpu.resource", "yarn.gpus")


class WantedRights(NamedTuple):
    """A pod with its name, and the number of pods of this kind."""

    component: str  # MASTER for the application's own
    instances: int
    pod: dict[str, Any]


def check(cluster: KubernetesCluster, compiled: Compiled, at: Places) -> tuple[Problem, ...]:
    """Errors for what the cluster refuses. ForbiddenError if the login lacks rights; ExistsError if
    the name is taken; NotFoundError if the namespace does not exist."""
    plan = compiled.plan
    if plan is None:
        return ()
    package = plan.package
    bodies = objects(compiled, at, {}, (b"", b""))
    _check_rights(cluster, compiled, at, bodies)
    found = set(pods.check(plan, at, claims(cluster)))
    wanted = _wanted(compiled, at, bodies[-1])
    checks: list[Callable[[], Iterable[Problem]]] = [
        # A dry run of a RoleBinding to a Role that does not exist yet is refused to most logins.
        *(
            functools.partial(_check_object, cluster, package, body)
            for body in bodies
            if body["kind"] != "RoleBinding"
        ),
        # One without instances is checked when it gets some.
        *(functools.partial(_check_pod, cluster, package, e, at) for e in wanted if e.instances),
        functools.partial(_check_queue, cluster, at),
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of the time is the API server's
        found.update(*pool.map(lambda check: tuple(check()), checks))
    return tuple(sorted(found))


def claims(cluster: KubernetesCluster) -> dict[str, Sequence[str]]:
    """The access modes of each PersistentVolumeClaim, {} if the login may not list them."""
    with contextlib.suppress(ForbiddenError):
        return {
            each["metadata"]["name"]: (each.get("spec") or {}).get("accessModes") or ()
            for each in cluster.list("PersistentVolumeClaim")
        }
    return {}


def _check_rights(
    cluster: KubernetesCluster, compiled: Compiled, at: Places, bodies: Sequence[Mapping[str, Any]]
) -> None:
    """ForbiddenError with all missing rights, and with alternatives where there are some."""
    kinds = {body["kind"] for body in bodies}
    accounts = missing(cluster, OF_ACCOUNTS) if "Role" in kinds else ()
    needed = (*NEEDED, *OF_BUDGETS) if BUDGET in kinds else NEEDED
    lacking = (*missing(cluster, needed), *accounts)
    if lacking:
        raise refusal(cluster, lacking, own_account(at) if accounts else "")
    lacking = () if cluster.in_cluster else missing(cluster, OF_PORTS)
    large = left_out(compiled, bodies).values() if lacking else ()
    if large:
        names_of = " and ".join(source.rpartition("/")[2] for source in large)
        instead = f"Or have {names_of} in the image: together, files of 1 MB need no port."
        raise refusal(cluster, lacking, instead)


def own_account(at: Places) -> str:
    """The hint for a login that may not create service accounts."""
    return f"Or set {ACCOUNT} to a service account that has the rules {of_master(at)}."


def of_master(at: Places) -> str:
    """The rules that the master's service account needs, as YAML in one line."""
    role = next(body for body in rights(at) if body["kind"] == "Role")
    return ", ".join(
        rule(each["apiGroups"][0], each["resources"][0], each["verbs"]) for each in role["rules"]
    )


def _wanted(compiled: Compiled, at: Places, job: Mapping[str, Any]) -> list[WantedRights]:
    """The pod of the master, and one pod of each component."""
    assert compiled.plan is not None
    template = job["spec"]["template"]
    master = {"apiVersion": "v1", "kind": "Pod", **template}
    made = pods.pods(compiled.plan, at)
    found = [WantedRights(MASTER, 1, _named(master, names.run_object(at.name, at.run), at))]
    for component in compiled.job.components:
        name = names.pod_name(at.name, at.run, component.name, 0)
        pod = _named(made[component.name], name, at)
        found.append(WantedRights(component.name, component.instances, pod))
    return found


def _named(pod: Mapping[str, Any], name: str, at: Places) -> dict[str, Any]:
    metadata = {**pod["metadata"], "name": name, "namespace": at.namespace}
    return {**pod, "metadata": metadata}


# ---- The API server's own word ----------------------------------------------------------------


def _check_object(
    cluster: KubernetesCluster, package: AppPackage, body: Mapping[str, Any]
) -> Iterator[Problem]:
    """Dry runs of all objects except pods. Secrets are sent without their content."""
    tried = dict(body)
    if tried["kind"] == "Secret":
        tried["data"] = dict.fromkeys(tried["data"], "")
    try:
        cluster.create(tried, dry_run=True)
    except RefusedObjectError as error:
        for field, message in error.causes:
            where = f"{body['kind']}{f' at {field}' if field else ''}"
            text = f"the cluster does not take the application's {where}: {message}"
            hint = f"Set {ACCOUNT}." if body["kind"].startswith("Role") else ""
            at = place(package, MASTER, field)
            if body["kind"] == BUDGET:
                at = package.config.global_["site.global.kubernetes.min.available"].at
            yield Problem(at, CODE, text, hint=hint)


def _check_pod(
    cluster: KubernetesCluster, package: AppPackage, wanted: WantedRights, at: Places
) -> tuple[Problem, ...]:
    """Objects that the pod refers to and that do not exist; if there are none, what the API server
    reports."""
    absent = tuple(_absent(cluster, package, wanted, at))
    return absent or tuple(_refused(cluster, package, wanted, at))


def _refused(
    cluster: KubernetesCluster, package: AppPackage, wanted: WantedRights, at: Places
) -> Iterator[Problem]:
    """The message of an admission that refuses a pod: Pod Security, limits, quotas, classes. A
    login that may not create pods gets none."""
    spec = dict(wanted.pod["spec"])
    if spec.get("serviceAccountName") == names.application_object(at.name):
        spec["serviceAccountName"] = _DEFAULT_ACCOUNT  # its own is not made yet
    body = {**wanted.pod, "spec": spec}
    with contextlib.suppress(ForbiddenError):
        try:
            cluster.create(body, dry_run=True)
        except RefusedObjectError as error:
            for field, message in error.causes:
                if _is_full(message):
                    continue
                told = f" at {field}" if field else ""
                yield Problem(
                    place(package, wanted.component, field),
                    CODE,
                    f"the cluster does not take pods of {wanted.component}{told}: {message}",
                )


def _is_full(message: str) -> bool:
    """Whether the message is of a quota that has room for the pod once others have gone: that is
    waited for. The API has no field for it."""
    found = _EXCEEDED.search(message)
    if found is None:
        return False
    requested, limited = (
        dict(part.partition("=")[::2] for part in text.split(",")) for text in found.groups()
    )
    return all(quantity(requested[key]) <= quantity(limited.get(key, "0")) for key in requested)


def place(package: AppPackage, component: str, field: str) -> Position:
    """The position in the package of the value at `field` of a pod, as closely as it is known."""
    values = _values(package, component)
    inner = field.replace("spec.template.", "", 1) if field.startswith("spec.template.") else field
    inner = inner.replace("spec.", "", 1)
    if ".resources." in inner:
        resource = inner.rpartition(".resources.")[2].partition(".")[2]
        return _place_of_resource(package, component, resource.strip("[]"))
    for part, key in _KEYS:
        value = _given(values, key)
        if inner.startswith(part) and value is not None:
            return value.at
    return package.master.at if component == MASTER else package.component(component).at


def _values(package: AppPackage, component: str) -> Mapping[str, ConfigValue]:
    config = package.config
    return config.global_ if component == MASTER else config.components[component]


def _given(values: Mapping[str, ConfigValue], key: str) -> ConfigValue | None:
    found = setting(values, key) if key else None
    return None if found is None or found.is_default else found


def _place_of_resource(package: AppPackage, component: str, resource: str) -> Position:
    key, asked = _OF_RESOURCES.get(resource, _OF_GPUS if "/" in resource else ("", ""))
    value = _given(_values(package, component), key)
    if value is not None:
        return value.at
    size = package.master if component == MASTER else package.resources[component]
    return size.place(asked)


# ---- What is named and not there --------------------------------------------------------------


def _absent(
    cluster: KubernetesCluster, package: AppPackage, wanted: WantedRights, at: Places
) -> Iterator[Problem]:
    """Missing objects to which pods refer, once for each position. A class that the login may not
    read is left to the dry run."""
    own = {names.application_object(at.name), names.run_object(at.name, at.run)}
    for kind, name, field in references(wanted.pod["spec"]):
        if name in own:
            continue
        with contextlib.suppress(ForbiddenError):
            found = cluster.get(kind, name)
            if found is None:
                where = f" in namespace {at.namespace!r}" if kind != "PriorityClass" else ""
                message = f"there is no {kind} {name!r}{where}"
                yield Problem(place(package, wanted.component, field), CODE, message)
            elif (found.get("status") or {}).get("phase") == "Lost":
                message = f"the volume of {kind} {name!r} is lost"
                yield Problem(place(package, wanted.component, field), CODE, message)


def references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, field) of each object that a pod of this specification needs."""
    for number, volume in enumerate(spec.get("volumes") or ()):
        field = f"spec.volumes[{number}]"
        for kind, source, key in (
            ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
            ("Secret", "secret", "secretName"),
            ("ConfigMap", "configMap", "name"),
        ):
            named = volume.get(source) or {}
            if named.get(key) and not named.get("optional"):
                yield kind, named[key], field
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        sources = [*(container.get("envFrom") or ())]
        sources += [each.get("valueFrom") or {} for each in container.get("env") or ()]
        for source in sources:
            for kind, keys in (
                ("Secret", ("secretRef", "secretKeyRef")),
                ("ConfigMap", ("configMapRef", "configMapKeyRef")),
            ):
                for named in filter(None, map(source.get, keys)):
                    if not named.get("optional"):
                        yield kind, named["name"], "spec.containers"
    for secret in spec.get("imagePullSecrets") or ():
        yield "Secret", secret["name"], "spec.imagePullSecrets"
    if spec.get("serviceAccountName"):
        yield "ServiceAccount", spec["serviceAccountName"], "spec.serviceAccountName"
    if spec.get("priorityClassName"):
        yield "PriorityClass", spec["priorityClassName"], "spec.priorityClassName"


def _check_queue(cluster: KubernetesCluster, at: Places) -> Iterator[Problem]:
    if at.queue in pods.NO_QUEUE:
        return
    with contextlib.suppress(ForbiddenError):
        if cluster.get("LocalQueue", at.queue) is None:
            message = f"there is no LocalQueue {at.queue!r} in namespace {at.namespace!r}"
            hint = "--queue names a local queue of Kueue. Leave it out where there is none."
            yield Problem(Position(f"--queue {at.queue}"), "queue", message, hint=hint)
