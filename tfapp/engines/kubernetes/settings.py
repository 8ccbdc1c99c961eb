"""The keys site.global.kubernetes.* of a component or of the application, as values. Pure."""

from __future__ import annotations

import re

from tfapp.contract.job import Settings
from tfapp.engines.kubernetes.volumes import Volume, parse_volumes
from tfapp.frozen import frozen

_EFFECTS = re.compile(r"([^=:]+)(?:=([^:]*))?(?::(\w+))?\Z")


@frozen
class PodSettings:
    """The settings for pods. "" and () for a key that is not set. `user`: 0 for that of the image.
    `cpu`: in Kubernetes' notation."""

    volumes: tuple[Volume, ...]
    pull_secrets: tuple[str, ...]
    service_account: str
    gpu_resource: str
    cpu: str
    node_selector: dict[str, str]
    tolerations: tuple[dict[str, str], ...]
    priority_class: str
    user: int
    pull_policy: str

    @classmethod
    def read(cls, settings: Settings) -> PodSettings:
        """VolumeError for invalid volumes."""
        pairs = (word.partition("=") for word in settings.names("kubernetes.node.selector"))
        return cls(
            volumes=parse_volumes(settings.names("kubernetes.volumes")),
            pull_secrets=settings.names("kubernetes.image.pull.secrets"),
            service_account=settings.text("kubernetes.service.account"),
            gpu_resource=settings.text("kubernetes.gpu.resource"),
            cpu=settings.text("kubernetes.cpu.request"),
            node_selector={key: value for key, _, value in pairs},
            tolerations=tuple(_toleration(w) for w in settings.names("kubernetes.tolerations")),
            priority_class=settings.text("kubernetes.priority.class"),
            user=int(settings.text("kubernetes.user") or 0),
            pull_policy=_POLICIES.get(settings.text("docker.pull"), ""),
        )


_POLICIES = {"never": "Never", "missing": "IfNotPresent", "always": "Always"}


def _toleration(word: str) -> dict[str, str]:
    match = _EFFECTS.match(word)
    assert match is not None, word  # the schema has seen to that
    key, value, effect = match.groups()
    found = {"key": key, "operator": "Exists"}
    if value is not None:
        found = {"key": key, "operator": "Equal", "value": value}
    return {**found, "effect": effect} if effect else found
