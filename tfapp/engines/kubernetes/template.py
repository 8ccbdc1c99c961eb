"""Merges the pod template of a component, a Pod of the user's, with tfapp's pod. Pure except for
reading the file.

The values of tfapp take precedence. Each place where the template differs is a warning.
"""

from __future__ import annotations

import contextlib
import copy
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.contract.names import ENV_OWN_CGROUP
from tfapp.documents import Document, read_document
from tfapp.documents.decode import MAX_BYTES
from tfapp.engines.kubernetes.configuration import quantity
from tfapp.engines.kubernetes.pod.names import CONTAINER, MANAGED_BY, QUEUE_LABEL, TRAINING_ATTEMPT
from tfapp.errors import TfappError
from tfapp.frozen import frozen
from tfapp.package.model import FILES, AppPackage, ConfigValue
from tfapp.package.safety import is_reserved_variable
from tfapp.problems import ERROR, WARNING, Position, Problem

CODE = "pod-template"
_KINDS = ("Pod", "PodTemplate")
# TF-Spawner replaces these words of its pod.yaml.
_PLACEHOLDERS = ("PODNAME", "APPNAME", "ATTEMPT")
_SCRIPT_VOLUME = "script"
_SCRIPT_PATH = "/script/training-script.py"

Manifest = dict[str, Any]
PathTo = tuple["str | int", ...]


@frozen
class Template:
    """A file with a Pod. `root`: the path of the Pod in it."""

    document: Document
    root: PathTo = ()

    @property
    def data(self) -> Manifest:
        found = copy.deepcopy(self.document.data)
        for step in self.root:
            found = found[step]
        return found

    def at(self, *path: str | int) -> Position:
        """The position of a part of the Pod, or of the nearest enclosing part."""
        return self.document.nearest((*self.root, *path))


# ---- Reading ----------------------------------------------------------------------------------


def read_template(
    package: AppPackage, value: ConfigValue, name: str
) -> tuple[Template | None, list[Problem]]:
    """The template in the file that `value` of site.global.kubernetes.pod.template names; None,
    with a problem, if there is none. `name`: the text with placeholders replaced."""
    try:
        label, data = _content(package, value, name)
    except (OSError, TfappError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "message", "") or str(error)
        hint = "name a file of the package, one beside this file, or an absolute path"
        return None, [
            Problem(
                value.at, CODE, f"the pod template {name} cannot be read: {reason}", ERROR, hint
            )
        ]
    syntax = "json" if label.endswith(".json") else "yaml"
    document, problems = read_document(label, data, syntax)
    if document is None:
        return None, list(problems)
    template, found = _template(document)
    return template, [*problems, *found]


def _content(package: AppPackage, value: ConfigValue, name: str) -> tuple[str, bytes]:
    path = Path(name)
    if not path.is_absolute():
        if name in package.source.files():
            return f"{package.source.label}/{name}", package.source.read(name)
        own = package.user_files.get(name.removeprefix(FILES)) if name.startswith(FILES) else None
        path = own or Path(value.at.file).parent / name
    with path.open("rb") as file:
        return str(path), file.read(MAX_BYTES + 1)


def _template(document: Document) -> tuple[Template | None, list[Problem]]:
    data = document.data
    kind = data.get("kind", "Pod") if isinstance(data, Mapping) else None
    if kind not in _KINDS or (kind == "PodTemplate" and "template" not in data):
        return None, [_wrong_kind(document, kind)]
    template = Template(document, ("template",) if kind == "PodTemplate" else ())
    problems = list(_shape(template))
    return (None if problems else template), problems


def _wrong_kind(document: Document, kind: object) -> Problem:
    at = document.at(("kind",)) if kind else document.at(())
    if kind == "Service":
        message = "expected a Pod, found a Service"
        hint = "remove it: programs reach each other by the addresses of their pods"
    else:
        message = f"expected a Pod, found {kind}" if kind else "expected a Pod"
        hint = "write 'kind: Pod', and its containers under 'spec'"
    return Problem(at, CODE, message, ERROR, hint)


def _shape(template: Template) -> Iterator[Problem]:
    """The places at which the template is no valid Pod, as far as tfapp reads it. The API server
    validates the rest."""

    def wrong(expected: str, *path: str | int) -> Problem:
        name = ".".join(map(str, path)) or "the template"
        return Problem(template.at(*path), CODE, f"{name}: expected {expected}", ERROR)

    data = template.data
    if not isinstance(data, Mapping) or not isinstance(data.get("spec"), Mapping):
        yield wrong("a Pod with a 'spec'")
        return
    metadata = data.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        yield wrong("a mapping", "metadata")
        return
    for key in ("labels", "annotations"):
        for name, text in _mapping(metadata.get(key)).items():
            if not isinstance(text, str):
                yield wrong("text (quote it)", "metadata", key, name)
    spec = data["spec"]
    for key in ("containers", "initContainers"):
        names: set[str] = set()
        yield from _listed(wrong, spec.get(key), names, "spec", key)
        for index, container in enumerate(spec.get(key) or ()):
            if isinstance(container, Mapping):
                inside = ("spec", key, index)
                for part, by in (("env", "name"), ("volumeMounts", "mountPath")):
                    yield from _listed(wrong, container.get(part), set(), *inside, part, by=by)
    yield from _listed(wrong, spec.get("volumes"), set(), "spec", "volumes")
    if not spec.get("containers"):
        yield wrong("at least one container", "spec")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(
    wrong: Callable[..., Problem],
    value: object,
    seen: set[str],
    *path: str | int,
    by: str = "name",
) -> Iterator[Problem]:
    """Why `value` is no list of mappings with distinct texts under `by`."""
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        yield wrong("a list", *path)
        return
    for index, item in enumerate(value):
        name = item.get(by) if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name:
            yield wrong(f"an entry with a '{by}'", *path, index)
        elif name in seen:
            yield wrong(f"one entry with the {by} '{name}', found two", *path, index)
        else:
            seen.add(name)


# ---- Merging ----------------------------------------------------------------------------------

# How a field that both set is merged. A list: by the name of its entries, of which tfapp's win, or
# as the union of both. THEIRS: the template's wins. Of all other fields tfapp's wins, in mappings
# key by key.
UNION, THEIRS = "union", "theirs"
_RULES = {
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "tolerations": UNION,
    "topologySpreadConstraints": THEIRS,
    "terminationMessagePolicy": THEIRS,
}
_PROGRAM = ("command", "args", "workingDir")


@frozen
class Written:
    """The values that the package sets for a component, which take precedence over the template.
    `image`, `memory`, `cpu`: whether they are in the package, and not defaults."""

    image: bool
    memory: bool
    cpu: bool
    namespace: str


def merged(template: Template, own: Manifest, written: Written) -> tuple[Manifest, list[Problem]]:
    """The pod `own` with everything that `template` has in addition."""
    merge = _Merge(template, own, written)
    return merge.pod(), merge.problems


class _Merge:
    def __init__(self, template: Template, own: Manifest, written: Written):
        self.template = template
        self.own = own
        self.written = written
        self.problems: list[Problem] = []
        self.data = template.data
        self.brings_script = any(
            volume["name"] == _mapping(volume.get("configMap")).get("name") == _SCRIPT_VOLUME
            for volume in self.data["spec"].get("volumes") or ()
        )

    def warn(self, message: str, hint: str, *path: str | int) -> None:
        self.problems.append(Problem(self.template.at(*path), CODE, message, WARNING, hint))

    def pod(self) -> Manifest:
        spec = self.data["spec"]
        ours = self.own["spec"]["containers"][0]
        names = [container["name"] for container in spec["containers"]]
        main = names.index(CONTAINER) if CONTAINER in names else 0
        found = self.spec(spec)
        program = self.container(spec["containers"][main], ours, ("spec", "containers", main))
        guests = [c for index, c in enumerate(spec["containers"]) if index != main]
        found["containers"] = [program, *map(self.guest, guests)]
        if spec.get("initContainers"):
            found["initContainers"] = [*map(self.guest, spec["initContainers"])]
        self.check_guests(spec, main)
        metadata = self.metadata(self.data.get("metadata") or {})
        return {**self.own, "metadata": metadata, "spec": found}

    def metadata(self, metadata: Mapping[str, Any]) -> Manifest:
        found = dict(self.own["metadata"])
        known = {"name", "generateName", "labels", "annotations", "namespace"}
        for key in metadata.keys() - known:
            self.warn(f"metadata.{key} of a pod is set by tfapp", "remove it", "metadata", key)
        namespace = metadata.get("namespace")
        if namespace and namespace != self.written.namespace:
            self.warn(
                f"the pods are made in the namespace {self.written.namespace}, not {namespace}",
                "remove it, or give the namespace with --namespace",
                *("metadata", "namespace"),
            )
        for key in ("labels", "annotations"):
            theirs = _values(metadata.get(key))
            ours = {k: v for k, v in found.get(key, {}).items() if k not in theirs or _is_own(k)}
            found[key] = self.both(theirs, ours, ("metadata", key))
        return found

    def spec(self, spec: Mapping[str, Any]) -> Manifest:
        theirs = _without(spec, "containers", "initContainers")
        ours = _without(self.own["spec"], "containers")
        if theirs.pop("activeDeadlineSeconds", None) is not None:
            self.warn(
                "activeDeadlineSeconds is set by tfapp, to end a container",
                "remove it: site.global.application.lifetime limits the application",
                *("spec", "activeDeadlineSeconds"),
            )
        if "affinity" in theirs and "affinity" in ours:
            theirs["affinity"] = ours["affinity"] = both_affinities(
                theirs["affinity"], ours["affinity"]
            )
        return self.both(theirs, ours, ("spec",))

    # -- containers --
    def container(self, theirs: Manifest, ours: Manifest, path: PathTo) -> Manifest:
        name = theirs["name"]
        for key in _PROGRAM:
            if theirs.get(key) and _SCRIPT_PATH not in theirs[key]:
                hint = "remove it; a package's script gives the program's command and folder"
                self.warn(f"container '{name}': its {key} is tfapp's own", hint, *path, key)
        env = self.environment(theirs.get("env"), ours["env"], path, name)
        asked = _mapping(theirs.get("resources"))
        inside = (*path, "resources")
        resources = self.resources(asked, ours["resources"], inside, name)
        words = self.memory(asked, (*inside, "limits", "memory"))
        if words:
            env = [{**v, "value": words} if v["name"] == ENV_OWN_CGROUP else v for v in env]
        ours = {**ours, "env": env, "resources": resources}
        if _mapping(theirs.get("securityContext")).get("privileged"):
            # It would bring privilege escalation.
            ours["securityContext"] = {**ours["securityContext"], "privileged": False}
        if theirs.get("image") and not self.written.image:
            ours["image"] = theirs["image"]
        decided = ("name", "env", "resources", *_PROGRAM)
        kept = {k: ours.get(k) if k in decided else v for k, v in _without(theirs).items()}
        return self.both(_without(kept), ours, path, name)

    def memory(self, theirs: Mapping[str, Any], path: PathTo) -> str:
        """The words on a limit of memory that the template sets; "" if it sets none."""
        limit = _mapping(theirs.get("limits")).get("memory")
        if self.written.memory or not (limit or "memory" in _mapping(theirs.get("requests"))):
            return ""
        if limit is None:
            return "it has no limit, so its node has too little"
        at = self.template.at(*path)
        return f"its limit is {limit}, by {posixpath.basename(at.file)}:{at.line}; raise it there"

    def environment(
        self, theirs: Sequence[Manifest] | None, ours: Sequence[Manifest], path: PathTo, of: str
    ) -> list[Manifest]:
        """The variables of both. The template's win, but for those that every instance gets."""
        kept = {}
        for index, variable in enumerate(theirs or ()):
            name = variable["name"]
            if is_reserved_variable(name):
                message = f"container '{of}': the variable {name} is set by tfapp"
                self.warn(message, "remove it", *path, "env", index)
            else:
                kept[name] = variable
        return [*kept.values(), *(variable for variable in ours if variable["name"] not in kept)]

    def resources(
        self, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: PathTo, of: str
    ) -> Manifest:
        """The resources that the package gives are the package's, with their request and their
        limit. Else they are the template's, as they are there. Where neither gives memory or
        processors, they are the package's default. On Kubernetes, a limit without a request is the
        request too."""
        requests, limits = (dict(_mapping(theirs.get(key))) for key in ("requests", "limits"))
        found = {"requests": dict(requests), "limits": dict(limits)}
        given = {"memory": self.written.memory, "cpu": self.written.cpu}
        for name in {**ours["requests"], **ours["limits"]}:
            if given.get(name, True) or not (name in requests or name in limits):
                for key in ("requests", "limits"):
                    found[key].pop(name, None)
                    if name in ours.get(key, {}):
                        found[key][name] = ours[key][name]
        with contextlib.suppress(KeyError, ValueError):
            if quantity(limits["cpu"]) >= quantity(found["requests"]["cpu"]):
                found["limits"]["cpu"] = limits["cpu"]  # the package has none
        where = {"cpu": "yarn.vcores", "memory": "yarn.memory"}
        for key, named in (("requests", requests), ("limits", limits)):
            for name, amount in named.items():
                used = found[key].get(name, found["limits"].get(name, found["requests"].get(name)))
                if str(used) != str(amount):
                    message = f"container '{of}': its {name} is {used}, as the resources say"
                    key_of = where.get(name, "yarn.gpus")
                    self.warn(message, f"remove it, or change {key_of}", *path, key, name)
        return found

    def guest(self, container: Manifest) -> Manifest:
        """Another container of the template. Where it sets nothing itself, it gets the security
        settings that the Pod Security standard "restricted" requires."""
        ours = self.own["spec"]["containers"][0]["securityContext"]
        found = {
            **container,
            "securityContext": {**ours, **(container.get("securityContext") or {})},
        }
        if found.get("volumeMounts"):
            found["volumeMounts"] = [m for m in found["volumeMounts"] if not self.is_script(m)]
        return found

    def check_guests(self, spec: Mapping[str, Any], main: int) -> None:
        for index, container in enumerate(spec["containers"]):
            if index != main:
                message = f"container '{container['name']}' goes on after the program has ended"
                hint = "tfapp ends it with the pod; as an init container with 'restartPolicy: "
                hint += "Always' it ends by itself"
                self.warn(message, hint, "spec", "containers", index)
        for index, container in enumerate(spec.get("initContainers") or ()):
            if container["name"] == CONTAINER:
                message = f"an init container cannot be called '{CONTAINER}': the program's is"
                at = self.template.at("spec", "initContainers", index, "name")
                self.problems.append(Problem(at, CODE, message, ERROR, "give it another name"))

    def is_script(self, entry: Mapping[str, Any]) -> bool:
        """Whether a volume, or its mount, brings the program of TF-Spawner: a ConfigMap that it
        makes itself."""
        return self.brings_script and entry.get("name") == _SCRIPT_VOLUME

    # -- fields that both set --
    def both(
        self, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: PathTo, of: str = ""
    ) -> Manifest:
        """The fields of both, by _RULES. `of`: the name of the container."""
        found = {**theirs, **ours}
        for key in theirs:
            rule, inside = _RULES.get(key), (*path, key)
            if rule in ("name", "mountPath"):
                found[key] = self.named(theirs[key], ours.get(key, ()), inside, rule, of)
            elif key not in ours or rule == THEIRS:
                found[key] = theirs[key]
            elif rule == UNION:
                found[key] = [*theirs[key], *(x for x in ours[key] if x not in theirs[key])]
            elif isinstance(theirs[key], Mapping) and isinstance(ours[key], Mapping):
                found[key] = self.both(theirs[key], ours[key], inside, of)
            elif theirs[key] != ours[key]:
                name = key if len(inside) == 2 or isinstance(path[-1], int) else f"{path[-1]}.{key}"
                message = f"{_whose(of)}{name} is {_shown(ours[key])}, which tfapp sets"
                self.warn(message, "remove it here", *inside)
        return found

    def named(
        self,
        theirs: Sequence[Manifest],
        ours: Sequence[Manifest],
        path: PathTo,
        by: str,
        of: str,
    ) -> list[Manifest]:
        """The entries of both lists. Where two have one name, it is ours."""
        names = {entry[by]: entry for entry in ours}
        kept = []
        for index, entry in enumerate(theirs):
            if path[-1] != "imagePullSecrets" and self.is_script(entry):
                continue
            if entry[by] not in names:
                kept.append(entry)
            elif entry != names[entry[by]]:
                message = f"{_whose(of)}{path[-1]} has {entry[by]}, which tfapp sets"
                self.warn(message, f"give it another {by}, or remove it", *path, index)
        return [*kept, *ours]


def _without(mapping: Mapping[str, Any], *keys: str) -> Manifest:
    return {k: v for k, v in mapping.items() if k not in keys and v is not None}


def _whose(container: str) -> str:
    return f"container '{container}': " if container else ""


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def both_affinities(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Manifest:
    """An affinity with the requirements and the preferences of both."""
    node, own = dict(theirs.get("nodeAffinity") or {}), ours["nodeAffinity"]
    if _PREFERRED in own:
        node[_PREFERRED] = [*(node.get(_PREFERRED) or ()), *own[_PREFERRED]]
    if _REQUIRED in own:
        (term,) = own[_REQUIRED]["nodeSelectorTerms"]
        present = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        node[_REQUIRED] = {
            "nodeSelectorTerms": [
                {
                    **each,
                    "matchExpressions": [
                        *(each.get("matchExpressions") or ()),
                        *term["matchExpressions"],
                    ],
                }
                for each in present
            ]
        }
    return {**theirs, "nodeAffinity": node}


def _values(table: Any) -> dict[str, str]:
    return {key: value for key, value in _mapping(table).items() if value not in _PLACEHOLDERS}


def _is_own(key: str) -> bool:
    """Whether a label or annotation is of those by which tfapp finds its objects. The others, which
    are for tools of the cluster, are a default for the template's."""
    return key.startswith("tfapp/") or key in (MANAGED_BY, QUEUE_LABEL, TRAINING_ATTEMPT)
