"""The environment of a cluster for TensorFlow, and for scripts written for Slider or TF-Spawner.

Pure. A task's index is its place among the instances of its role, in job order. TensorBoard stands
outside of the cluster. The evaluator is in the cluster of its own TF_CONFIG, where
MultiWorkerMirroredStrategy looks for it, and not in those of the others: the chief under
ParameterServerStrategy would connect to it. The Slider flags and WORKER_NUMBER count a chief as
worker 0; TF_CONFIG keeps it as `chief`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from tfapp.contract.messages import Member
from tfapp.contract.names import CLUSTER_ROLES
from tfapp.script import ScriptError

TASK_ROLES = (*CLUSTER_ROLES, "evaluator")
# The variables in which gRPC looks for a proxy. It knows none in capitals.
GRPC_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
ADDRESS_EXPORT = "host_port"  # the export that holds "host:port", in whatever group


class NoAddressError(ScriptError):
    """A member of the cluster exports no address, or the same one as another member. The text is a
    sentence for the user."""


def address(member: Member) -> str:
    """ "host:port" of one member. NoAddressError when it exports none and needs one. Nobody
    connects to an evaluator: TensorFlow takes any port for it."""
    for group in member.exports.values():
        if ADDRESS_EXPORT in group:
            return group[ADDRESS_EXPORT]
    if member.role == "evaluator":
        return f"[{member.host}]:0" if ":" in member.host else f"{member.host}:0"
    raise NoAddressError(
        f"{member.instance} exports no {ADDRESS_EXPORT}: give component {member.component} a "
        f"compExports word <group>-{ADDRESS_EXPORT} in metainfo"
    )


def cluster_spec(
    members: Iterable[Member], roles: Sequence[str] = CLUSTER_ROLES
) -> dict[str, list[str]]:
    """role -> addresses, for the `roles` of a TensorFlow cluster. NoAddressError when two of its
    members would listen at the same one."""
    spec: dict[str, list[str]] = {}
    owners: dict[str, Member] = {}
    for member in members:
        if member.role in roles:
            own = address(member)
            other = owners.setdefault(own, member)
            if other is not member:
                raise NoAddressError(
                    f"{other.instance} and {member.instance} both export {own}: on one host each "
                    f"needs a port of its own, as ${{{member.component}.ALLOCATED_PORT}}"
                    "{PER_CONTAINER} gives it"
                )
            spec.setdefault(member.role, []).append(own)
    return spec


def task_index(instance: str, members: Sequence[Member]) -> int:
    """The place of an instance among those of its role. KeyError for an unknown one."""
    roles = {member.instance: member.role for member in members}
    same = [name for name, role in roles.items() if role == roles[instance]]
    return same.index(instance)


def tf_config(instance: str, members: Sequence[Member]) -> str:
    role = next(member.role for member in members if member.instance == instance)
    task = {"type": role, "index": task_index(instance, members)}
    spec = cluster_spec(members, TASK_ROLES if role == "evaluator" else CLUSTER_ROLES)
    return json.dumps({"cluster": spec, "task": task})


def slider_flags(instance: str, members: Sequence[Member]) -> dict[str, str]:
    """JOB_NAME, TASK_INDEX, PS_HOSTS and WORKER_HOSTS as Slider's package gave them."""
    spec = cluster_spec(members)
    role = next(member.role for member in members if member.instance == instance)
    index = task_index(instance, members)
    if role == "worker":
        index += len(spec.get("chief", ()))
    return {
        "JOB_NAME": "worker" if role == "chief" else role,
        "TASK_INDEX": str(index),
        "PS_HOSTS": ",".join(spec.get("ps", ())),
        "WORKER_HOSTS": ",".join((*spec.get("chief", ()), *spec.get("worker", ()))),
    }


def spawner_environment(instance: str, members: Sequence[Member]) -> dict[str, str]:
    """WORKER_NUMBER (of a worker or chief only) and TOT_WORKERS as TF-Spawner gave them."""
    flags = slider_flags(instance, members)
    total = sum(1 for member in members if member.role in ("chief", "worker"))
    environment = {"TOT_WORKERS": str(total)}
    if flags["JOB_NAME"] == "worker":
        environment["WORKER_NUMBER"] = flags["TASK_INDEX"]
    return environment


def task_environment(instance: str, members: Sequence[Member]) -> Mapping[str, str]:
    return {
        "TF_CONFIG": tf_config(instance, members),
        **spawner_environment(instance, members),
    }


def without_proxy(members: Iterable[Member], env: Mapping[str, str]) -> dict[str, str]:
    """The variable by which gRPC reaches the cluster's members directly although a proxy is set in
    `env`; {} where none is. Without no_grpc_proxy, gRPC reads no_proxy."""
    if not any(env.get(name) for name in GRPC_PROXIES):
        return {}
    given = env.get("no_grpc_proxy") or env.get("no_proxy") or ""
    hosts = [member.host for member in members if member.role != "tensorboard"]
    names = dict.fromkeys(filter(None, (*map(str.strip, given.split(",")), *hosts)))
    return {"no_grpc_proxy": ",".join(names)}
