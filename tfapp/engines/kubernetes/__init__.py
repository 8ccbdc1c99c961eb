"""The engine of a Kubernetes cluster: containers are pods, and so is the application master. The
record of an application is a ConfigMap, which its master writes. Files under TFAPP_HOME are copies
of logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.engines import EngineOption

if TYPE_CHECKING:
    from tfapp.engines.kubernetes.engine import KubernetesEngine

DEFINITIONS = "kubernetes/applications/*/definition.json"  # below TFAPP_HOME
IMAGES = True
OPTIONS = (
    EngineOption("namespace", "", "namespace, by default the context's", place=True, short="n"),
    EngineOption("context", "", "context of the kubeconfig, by default its own", place=True),
    EngineOption("queue", "default", "Kueue's local queue"),
)


def open_engine(
    home: Path, environ: Mapping[str, str], namespace: str = "", context: str = ""
) -> KubernetesEngine:
    """The engine of the cluster that `environ` selects, with its files under `home`. `namespace`,
    `context`: "" for those of the kubeconfig."""
    from tfapp.engines.kubernetes.engine import KubernetesEngine

    return KubernetesEngine(home, environ, namespace, context)


def require(environ: Mapping[str, str]) -> None:
    """UnavailableError if the library of Kubernetes is not installed."""
    from tfapp.engines.kubernetes.configuration import require_library

    require_library()
