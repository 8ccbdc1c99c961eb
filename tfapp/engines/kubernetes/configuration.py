"""The configuration of the API server's client: kubeconfig files, or the service account of the pod
of this process.

The library `kubernetes` merges the files and runs logins: plug-ins (`exec`), OIDC and token files.
It raises the exceptions of its parsers and logs the messages of plug-ins. Here every failure
becomes one sentence with the file and the context.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tfapp.close_match import did_you_mean
from tfapp.errors import NotFoundError, UnavailableError
from tfapp.frozen import frozen

DEFAULT = ".kube/config"  # below the user's home
DEFAULT_NAMESPACE = "default"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
INSTALL = "Install it: `pip install 'tfapp[kubernetes]'`."

T = TypeVar("T")


@frozen
class Access:
    """A cluster and a login. `configuration`: the library's. `source`: the origin of both, for
    messages. `context`: "" in the cluster."""

    configuration: Any
    source: str
    context: str
    namespace: str
    in_cluster: bool = False
    plugin: str = ""  # the command that logs in, as a shell would take it

    @property
    def server(self) -> str:
        """The address of the API server, such as "https://10.0.0.1:6443"."""
        return self.configuration.host

    def authorization(self) -> str:
        """The value of the header Authorization; "" for logins by certificate. An expired token is
        renewed. UnavailableError if that fails."""
        known = self.configuration
        with _login(self.source, self.plugin):
            if known.refresh_api_key_hook is not None:
                known.refresh_api_key_hook(known)
            # The library's name for it differs by version; 36.0.0 writes one and reads the other.
            return known.api_key.get("BearerToken") or known.api_key.get("authorization") or ""


def load(
    environ: Mapping[str, str],
    namespace: str = "",
    context: str = "",
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The configuration in the files of KUBECONFIG, in ~/.kube/config, or of the service account of
    this pod. UnavailableError if there is none, or it cannot be used; NotFoundError for an unknown
    `context`."""
    library()
    paths = files(environ)
    found = [path for path in paths if os.path.exists(path)]
    if found:
        return _of_files(found, namespace, context)
    if environ.get("KUBECONFIG"):
        missing = ", ".join(paths)
        raise UnavailableError(
            f"KUBECONFIG names {missing}, and there is no such file",
            "Set KUBECONFIG to the file that your cluster's owner gave you.",
        )
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return _of_pod(environ, namespace, context, service_account)
    raise UnavailableError(
        f"no Kubernetes cluster is configured: KUBECONFIG is not set and there is no {paths[0]}",
        "Set KUBECONFIG to the file that your cluster's owner gave you.",
    )


def require_library() -> None:
    """UnavailableError if the library `kubernetes` is not installed. Does not load it."""
    if importlib.util.find_spec("kubernetes") is None:
        raise UnavailableError("the Kubernetes engine needs the Python library kubernetes", INSTALL)


def library() -> Any:
    """The library `kubernetes`. UnavailableError if it is not installed."""
    try:
        with warnings.catch_warnings():
            # Of google-auth, on Python 3.9: each command would say it.
            warnings.simplefilter("ignore", FutureWarning)
            import kubernetes
    except ImportError as error:
        raise UnavailableError(
            f"the Kubernetes engine needs the Python library kubernetes: {error}", INSTALL
        ) from error
    return kubernetes


def quantity(text: object) -> Any:
    """The number (Decimal) in a quantity such as "100m" or "2Gi". ValueError for other text."""
    return library().utils.quantity.parse_quantity(text)


def files(environ: Mapping[str, str]) -> Sequence[str]:
    """The kubeconfig files that `environ` names, also missing ones."""
    named = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    home = environ.get("HOME") or os.path.expanduser("~")
    return [os.path.expanduser(path) for path in named] or [os.path.join(home, DEFAULT)]


def _of_pod(
    environ: Mapping[str, str], namespace: str, context: str, service_account: Path
) -> Access:
    from kubernetes.client.configuration import Configuration
    from kubernetes.config.incluster_config import InClusterConfigLoader

    source = "the service account of this pod"
    if context:
        raise NotFoundError(
            f"there is no context {context!r}: in a pod its service account logs in",
            "Leave --context out, or set KUBECONFIG.",
        )
    configuration = Configuration()
    try:
        InClusterConfigLoader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=environ,
        ).load_and_set(configuration)
        own = (service_account / "namespace").read_text().strip()
    except Exception as error:  # the library's, and what reading raises
        raise UnavailableError(
            f"the Kubernetes API cannot be used with {source}: {one_line(error)}",
            "The pod must not have automountServiceAccountToken: false.",
        ) from error
    return Access(configuration, source, "", namespace or own, in_cluster=True)


def _of_files(paths: Sequence[str], namespace: str, context: str) -> Access:
    from kubernetes.client.configuration import Configuration
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    single = {path: _read(path) for path in paths}
    where = ", ".join(paths)
    merged = KubeConfigMerger(os.pathsep.join(paths))
    # The first file that says it decides, as with kubectl; the library takes the last.
    current = next((c for c in (v.get("current-context") for v in single.values()) if c), "")
    contexts = [each["name"] for each in merged.config.value["contexts"]]
    name = context or current
    known = f"Contexts: {', '.join(sorted(contexts))}." if contexts else ""
    if not name:
        hint = f"Name one with --context. {known}".strip()
        raise UnavailableError(f"no current context is set in {where}", hint)
    if name not in contexts:
        hint = f"{did_you_mean(name, contexts, form='Did you mean {!r}?')} {known}".strip()
        if context:
            raise NotFoundError(f"there is no context {name!r} in {where}", hint)
        message = f"the current context of {where} is {name!r}, and there is no such context"
        raise UnavailableError(message, hint)
    source = f"context {name!r} of {where}"
    chosen = merged.config["contexts"].get_with_name(name)["context"]
    configuration = Configuration()
    plugin = _check(merged.config, chosen, source)
    with _login(source, plugin):
        loader = KubeConfigLoader(
            config_dict=merged.config,
            active_context=name,
            config_base_path=None,
            config_persister=merged.save_changes,
        )
        loader.load_and_set(configuration)
    if not str(configuration.host).startswith(("https://", "http://")):
        raise UnavailableError(
            f"{source} cannot be used: its server is {configuration.host!r}",
            "A server's address begins with https://.",
        )
    own = chosen.safe_get("namespace") or DEFAULT_NAMESPACE
    return Access(configuration, source, name, namespace or own, plugin=plugin)


def _read(path: str) -> dict[str, Any]:
    """Reads a single file, so that an error can name it."""
    from kubernetes.config.kube_config import KubeConfigMerger

    try:
        read = KubeConfigMerger(path).config.value
        for section in ("contexts", "clusters", "users"):
            if not all(each["name"] for each in read[section]):
                raise ValueError(f"a name is missing in its {section}")
    except Exception as error:  # the library's, the YAML reader's, and what a wrong shape raises
        raise UnavailableError(
            f"the kubeconfig file {path} cannot be read: {_words(error)}",
            "Set KUBECONFIG to another file, or correct this one.",
        ) from error
    return read


def _check(config: Any, chosen: Any, source: str) -> str:
    """Checks that the cluster and the user of a context exist. Returns the command of the login
    plug-in."""
    user: Any = {}
    for section, key in (("clusters", "cluster"), ("users", "user")):
        name = chosen.safe_get(key)
        found = {each["name"]: each for each in config.value[section]}
        if section == "users" and not name:
            return ""
        if name not in found or not isinstance(found[name].safe_get(key), dict):
            raise UnavailableError(
                f"{source} cannot be used: there is no {key} {name!r}",
                f"Mend the file, or name another context with --context. {_listed(section, found)}",
            )
        user = found[name].safe_get(key)
    plugin = user.get("exec") or {}
    return " ".join([str(plugin.get("command", "")), *map(str, plugin.get("args") or ())]).strip()


def _listed(section: str, names: Mapping[str, Any]) -> str:
    return f"{section.capitalize()}: {', '.join(sorted(names)) or 'none'}."


@contextlib.contextmanager
def _login(source: str, plugin: str) -> Iterator[None]:
    """Converts what the library raises or logs in the block into an UnavailableError."""
    hint = f"This must work: `{plugin}`." if plugin else "Log in again."
    with _logged() as words:
        try:
            yield
        except Exception as error:  # the library's, a parser's, an identity provider's
            raise UnavailableError(f"{source} cannot be used: {_words(error)}", hint) from error
    if words:
        # On a terminal the plug-in has written there itself, and the library stumbles over that.
        told = [word for word in words if "NoneType" not in word]
        said = "; ".join(told) or f"`{plugin}` failed"
        raise UnavailableError(f"the login of {source} failed: {said}", hint)


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Collects the errors that this thread logs to the root logger."""
    words: list[str] = []
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != thread or record.levelno < logging.ERROR:
            return True
        words.append(one_line(record.getMessage()))
        return False

    root = logging.getLogger()
    handler = logging.NullHandler()  # without any, `logging.error` would add one for good
    root.addFilter(keep)
    root.addHandler(handler)
    try:
        yield words
    finally:
        root.removeHandler(handler)
        root.removeFilter(keep)


def _words(error: Exception) -> str:
    """The message of an exception, without the library's terms."""
    text = one_line(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, (TypeError, AttributeError, KeyError)):
        return "it has not the shape of a kubeconfig file"
    return text.replace("Invalid kube-config file. ", "").replace("Invalid kube-config. ", "")


def one_line(text: object) -> str:
    return " ".join(str(text).split())
