"""The names and labels of an application's objects. Pure, standard library only: it is shipped to
the master's pod."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MANAGED_BY = "app.kubernetes.io/managed-by"
APPLICATION = "tfapp/application"
RUN = "tfapp/run"
COMPONENT = "tfapp/component"
INSTANCE = "tfapp/instance"
TRAINING_ATTEMPT = "training_attempt"  # TF-Spawner's
# Annotations.
NAME = "tfapp/name"
USER = "tfapp/user"

CONTAINER = "tfapp"  # the main container of each pod
MASTER_COMPONENT = "master"  # the component of the master's own pod; its instance is ""

MAX_SLUG = 30  # characters before the hash
_HASH = 6
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


def run_object(name: str, run: int) -> str:
    """The name of a run's Secret and Job."""
    return f"tfapp-{slug(name)}-{run}"


def pod_name(name: str, run: int, component: str, number: int) -> str:
    """The name of the pod for container `number` of a component."""
    return f"{run_object(name, run)}-{dns(component)}-{number}"


def dns(text: str) -> str:
    """A component's name as a part of a pod's name."""
    plain = re.sub(r"[^a-z0-9-]", "-", text.lower())
    if plain == text:
        return plain
    return f"{plain.strip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:_HASH]}"


def application_labels(name: str) -> dict[str, str]:
    """The labels of every object of the application."""
    return {MANAGED_BY: "tfapp", APPLICATION: slug(name)}


def run_labels(name: str, run: int) -> dict[str, str]:
    """The labels of every object of a run."""
    return {**application_labels(name), RUN: str(run)}


def pod_labels(
    name: str, run: int, component: str, instance: str = "", tags: Iterable[str] = ()
) -> dict[str, str]:
    """The labels of a pod. `instance`: "worker/0", or "" if unknown. `tags`: the user's."""
    labels = {**run_labels(name, run), COMPONENT: label_value(component)}
    if instance:
        labels[INSTANCE] = instance_label(instance)
    attempt = next(iter(tags), "")
    if _VALUE.match(attempt):
        labels[TRAINING_ATTEMPT] = attempt
    return labels


def instance_label(instance: str) -> str:
    """ "worker/0" -> "worker-0"."""
    return label_value(instance.replace("/", "-"))


def label_value(text: str) -> str:
    """`text` as the value of a label; with a hash if it is not valid."""
    if _VALUE.match(text):
        return text
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:MAX_SLUG].strip("-_.")
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:_HASH]}".lstrip("-")


def application_annotations(name: str, user: str) -> dict[str, str]:
    """The annotations of every object of the application."""
    return {NAME: name, USER: user}
