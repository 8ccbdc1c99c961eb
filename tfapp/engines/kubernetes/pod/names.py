"""The names and labels of an application's objects. Pure, standard library only: it is shipped to
the master's pod."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from tfapp import __version__

MANAGED_BY = "app.kubernetes.io/managed-by"
APPLICATION = "tfapp/application"
RUN = "tfapp/run"
COMPONENT = "tfapp/component"
INSTANCE = "tfapp/instance"
# Kueue's: labels of pods, and annotations of those in a group.
# https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
MANAGED = "kueue.x-k8s.io/managed"  # also its finalizer
GROUP_COUNT = "kueue.x-k8s.io/pod-group-total-count"
GROUP_ROLE = "kueue.x-k8s.io/role-hash"
GROUP_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
TRAINING_ATTEMPT = "training_attempt"  # TF-Spawner's
# Annotations.
NAME = "tfapp/name"
USER = "tfapp/user"

CONTAINER = "tfapp"  # the main container of each pod
PROBE, QUESTION = "probe", "asked"  # a folder of the master's pod, and a file in it
MASTER_COMPONENT = "master"  # the component of the master's own pod; its instance is ""

MAX_SLUG = 30  # characters before the hash
_HASH = 6
_EACH_ATTEMPT = 10_000  # numbers of pods
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z")


def slug(name: str) -> str:
    """The application's name as a name of Kubernetes: "train", "my-train-1c62f0" for "my_train".
    Different names have different slugs. A name that ends with a number gets a hash too, because
    "train-1" is the name of the first run of "train"."""
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower())[:MAX_SLUG].rstrip("-")
    if plain == name and not re.search(r"-\d+\Z", plain):
        return plain
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH]}"


def application_object(name: str) -> str:
    """The name of the record, and of the application's Secret, ServiceAccount, Role and
    RoleBinding."""
    return f"tfapp-{slug(name)}"


def journal_object(name: str) -> str:
    """The name of what the next master has to know, a ConfigMap."""
    return f"{application_object(name)}.journal"


def witness_object(name: str) -> str:
    """The name of what tells runners of their master, a ConfigMap, and of the ServiceAccount, Role,
    RoleBinding and Secret (a token) by which they read it."""
    return f"{application_object(name)}.witness"


def run_object(name: str, run: int) -> str:
    """The name of a run's Secret and Job."""
    return f"tfapp-{slug(name)}-{run}"


def pod_name(name: str, run: int, component: str, number: int, attempt: int = 1) -> str:
    """The name of the pod for container `number` of a component. `attempt`: that of the master. No
    two have the same name; of one component, later pods have larger numbers."""
    return f"{run_object(name, run)}-{dns(component)}-{(attempt - 1) * _EACH_ATTEMPT + number}"


def group_name(name: str, run: int, owner: str, first: str) -> str:
    """The name of a group of pods of which `first` is the first. `owner`: the uid of the pods'
    owner: another application may have had the same name. No two groups have the same name."""
    unique = hashlib.sha256(f"{owner} {first}".encode()).hexdigest()[: 2 * _HASH]
    return f"{run_object(name, run)}-{unique}"


def dns(text: str) -> str:
    """A component's name as a part of a pod's name."""
    plain = re.sub(r"[^a-z0-9-]", "-", text.lower())
    if plain == text:
        return plain
    return f"{plain.strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:_HASH]}"


def common_labels(name: str, component: str = "") -> dict[str, str]:
    """Kubernetes' recommended labels of an object, beside that of who manages it. No selector of
    tfapp has them."""
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
    labels = {
        "name": "tfapp",
        "instance": slug(name),
        "component": label_value(component),
        "part-of": slug(name),
        "version": label_value(__version__),
    }
    return {f"app.kubernetes.io/{key}": value for key, value in labels.items() if value}


def tag_label(tags: Iterable[str]) -> dict[str, str]:
    """TF-Spawner's label: the first of the user's `tags`, where it can be a label."""
    attempt = next(iter(tags), "")
    return {TRAINING_ATTEMPT: attempt} if _VALUE.match(attempt) else {}


def application_labels(name: str) -> dict[str, str]:
    """The labels that select all objects of the application."""
    return {MANAGED_BY: "tfapp", APPLICATION: slug(name)}


def run_labels(name: str, run: int) -> dict[str, str]:
    """The labels that select all objects of a run."""
    return {**application_labels(name), RUN: str(run)}


def selector(labels: Mapping[str, str]) -> str:
    """The selector of objects with all of these labels."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def pod_labels(name: str, run: int, component: str, tags: Iterable[str] = ()) -> dict[str, str]:
    """The labels of a pod, but for its instance. `tags`: the user's."""
    labels = {**run_labels(name, run), COMPONENT: label_value(component)}
    return {**labels, **common_labels(name, component), **tag_label(tags)}


def instance_label(instance: str) -> str:
    """ "worker/0" -> "worker-0"."""
    return label_value(instance.replace("/", "-"))


def label_value(text: str) -> str:
    """`text` as the value of a label; with a hash if it is not valid."""
    if not text or _VALUE.match(text):
        return text
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:MAX_SLUG].strip("-_.")
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:_HASH]}".lstrip("-")


def application_annotations(name: str, user: str) -> dict[str, str]:
    """The annotations of every object of the application."""
    return {NAME: name, USER: user}
