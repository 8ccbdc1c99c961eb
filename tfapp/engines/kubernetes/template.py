"""Merges the pod template of a component, a Pod of the user's, with tfapp's pod. Pure except for
reading the file.

The values of tfapp take precedence. Each place where the template differs is a warning.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfapp.documents import Document, read_document
from tfapp.documents.decode import MAX_BYTES
from tfapp.engines.kubernetes.names import CONTAINER
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
        """A copy of the Pod."""
        found = copy.deepcopy(self.document.data)
        for step in self.root:
            found = found[step]
        return found

    def at(self, *path: str | int) -> Position:
        """The position of a part of the Pod, or of the nearest enclosing part."""
        whole = (*self.root, *path)
        for length in range(len(whole), -1, -1):
            try:
                return self.document.key_at(whole[:length])
            except KeyError:
                continue
        raise AssertionError("the whole document has a place")


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

    def warn(self, message: str, hint: str, *path: str | int) -> None:
        self.problems.append(Problem(self.template.at(*path), CODE, message, WARNING, hint))

    def pod(self) -> Manifest:
        data = self.template.data
        spec = data["spec"]
        self.drop_script_volume(spec)
        main, index = self.main_container(spec)
        containers = [c for c in spec["containers"] if c is not main]
        ours = self.own["spec"]["containers"][0]
        found = self.spec(spec)
        found["containers"] = [self.container(main, ours, ("spec", "containers", index))]
        found["containers"] += map(self.guest, containers)
        if spec.get("initContainers"):
            found["initContainers"] = [*map(self.guest, spec["initContainers"])]
        self.check_guests(spec, index)
        return {**self.own, "metadata": self.metadata(data.get("metadata") or {}), "spec": found}

    def metadata(self, metadata: Mapping[str, Any]) -> Manifest:
        ours = self.own["metadata"]
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
        return {
            **ours,
            **{
                key: self.table(
                    {k: v for k, v in (metadata.get(key) or {}).items() if v not in _PLACEHOLDERS},
                    ours.get(key, {}),
                    ("metadata", key),
                )
                for key in ("labels", "annotations")
            },
        }

    def spec(self, spec: Mapping[str, Any]) -> Manifest:
        """The spec but for its containers."""
        apart = ("containers", "initContainers")
        theirs = {k: v for k, v in spec.items() if k not in apart and v is not None}
        if "activeDeadlineSeconds" in theirs:
            del theirs["activeDeadlineSeconds"]
            hint = "remove it: site.global.application.lifetime limits the application"
            self.warn(
                "activeDeadlineSeconds is set by tfapp, to end a container", hint,
                *("spec", "activeDeadlineSeconds"),
            )  # fmt: skip
        ours = {k: v for k, v in self.own["spec"].items() if k not in apart}
        found = {**theirs, **ours}
        for key in ("volumes", "imagePullSecrets"):
            if key in theirs or key in ours:
                found[key] = self.named(theirs.get(key), ours.get(key), ("spec", key))
        if "tolerations" in theirs and "tolerations" in ours:
            found["tolerations"] = [
                *theirs["tolerations"],
                *(one for one in ours["tolerations"] if one not in theirs["tolerations"]),
            ]
        if "topologySpreadConstraints" in theirs:
            found["topologySpreadConstraints"] = theirs["topologySpreadConstraints"]
        if "affinity" in theirs and "affinity" in ours:
            found["affinity"] = both_affinities(theirs["affinity"], ours["affinity"])
        for key in ("nodeSelector", "securityContext"):
            if key in theirs and key in ours:
                found[key] = self.table(theirs[key], ours[key], ("spec", key))
        done = {"volumes", "imagePullSecrets", "tolerations", "topologySpreadConstraints"}
        done |= {"affinity", "nodeSelector", "securityContext"}
        for key in (ours.keys() & theirs.keys()) - done:
            self.differs(theirs[key], ours[key], ("spec", key))
        return found

    # -- containers --
    def main_container(self, spec: Mapping[str, Any]) -> tuple[Manifest, int]:
        """The program's container in the template, and its place: the one of our name, or the
        first."""
        for index, container in enumerate(spec["containers"]):
            if container["name"] == CONTAINER:
                return container, index
        return spec["containers"][0], 0

    def container(self, theirs: Manifest, ours: Manifest, path: PathTo) -> Manifest:
        name = theirs["name"]
        found = {**{k: v for k, v in theirs.items() if v is not None}, **ours}
        if theirs.get("image") and not self.written.image:
            found["image"] = theirs["image"]
        elif theirs.get("image"):
            self.differs(theirs["image"], ours["image"], (*path, "image"), name)
        for key in ("command", "args", "workingDir"):
            if theirs.get(key) and _SCRIPT_PATH not in theirs[key]:
                hint = "remove it; a package's script gives the program's command and folder"
                self.warn(f"container '{name}': its {key} is tfapp's own", hint, *path, key)
            if key not in ours:
                found.pop(key, None)
        if "terminationMessagePolicy" in theirs:
            found["terminationMessagePolicy"] = theirs["terminationMessagePolicy"]
        if "imagePullPolicy" in theirs and "imagePullPolicy" in ours:
            self.differs(theirs["imagePullPolicy"], ours["imagePullPolicy"],
                         (*path, "imagePullPolicy"), name)  # fmt: skip
        found["env"] = self.environment(theirs.get("env"), ours["env"], path, name)
        found["volumeMounts"] = self.named(
            theirs.get("volumeMounts"), ours["volumeMounts"], (*path, "volumeMounts"),
            by="mountPath", of=name,
        )  # fmt: skip
        security = theirs.get("securityContext") or {}
        own = dict(ours["securityContext"])
        if security.get("privileged"):
            own["privileged"] = False  # it would bring privilege escalation
        inside = (*path, "securityContext")
        found["securityContext"] = self.table(security, own, inside, name)
        found["resources"] = self.resources(
            theirs.get("resources") or {}, ours["resources"], (*path, "resources"), name
        )
        return found

    def environment(
        self, theirs: Sequence[Manifest] | None, ours: Sequence[Manifest], path: PathTo, of: str
    ) -> list[Manifest]:
        kept = []
        for index, variable in enumerate(theirs or ()):
            name = variable["name"]
            if is_reserved_variable(name):
                message = f"container '{of}': the variable {name} is set by tfapp"
                self.warn(message, "remove it", *path, "env", index)
            else:
                kept.append(variable)
        names = {variable["name"] for variable in kept}
        return [*kept, *(variable for variable in ours if variable["name"] not in names)]

    def resources(
        self, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: PathTo, of: str
    ) -> Manifest:
        """Memory, processors and GPUs are the package's where it says how many, else the
        template's; other resources are the template's. Of memory as much is requested as is the
        limit."""
        requests, limits = (dict(_mapping(theirs.get(key))) for key in ("requests", "limits"))
        found = {"requests": dict(requests), "limits": dict(limits)}
        memory = limits.get("memory", requests.get("memory"))
        if memory is None or self.written.memory:
            memory = ours["limits"]["memory"]
        found["requests"]["memory"] = found["limits"]["memory"] = memory
        cpu = requests.get("cpu", limits.get("cpu"))
        found["requests"]["cpu"] = (
            ours["requests"]["cpu"] if cpu is None or self.written.cpu else cpu
        )
        for name, amount in ours["limits"].items():
            if name != "memory":  # GPUs
                found["limits"][name] = amount
                found["requests"].pop(name, None)
        where = {"cpu": "yarn.vcores", "memory": "yarn.memory"}
        for key, named in (("requests", requests), ("limits", limits)):
            for name, amount in named.items():
                used = found[key].get(name, found["limits"].get(name))
                if str(used) != str(amount):
                    message = f"container '{of}': its {name} is {used}, as the resources say"
                    key_of = where.get(name, "yarn.gpus")
                    self.warn(message, f"remove it, or change {key_of}", *path, key, name)
        return found

    def guest(self, container: Manifest) -> Manifest:
        """A container of the template alone, as 'restricted' wants it where it says nothing."""
        ours = self.own["spec"]["containers"][0]["securityContext"]
        found = {
            **container,
            "securityContext": {**ours, **(container.get("securityContext") or {})},
        }
        if found.get("volumeMounts"):
            found["volumeMounts"] = [mount for mount in found["volumeMounts"] if mount]
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

    def drop_script_volume(self, spec: Manifest) -> None:
        """TF-Spawner's way to bring the program: a ConfigMap that it makes itself."""
        volumes = spec.get("volumes") or []
        for index, volume in enumerate(volumes):
            source = _mapping(volume.get("configMap"))
            if volume["name"] == source.get("name") == _SCRIPT_VOLUME:
                volumes[index] = None  # the others keep their places
                for container in spec["containers"]:
                    container["volumeMounts"] = [
                        None if mount.get("name") == _SCRIPT_VOLUME else mount
                        for mount in container.get("volumeMounts") or ()
                    ]

    # -- parts --
    def differs(self, theirs: object, ours: object, path: PathTo, of: str = "") -> None:
        """Warns where they do."""
        if theirs != ours:
            whose = f"container '{of}': " if of else ""
            name = ".".join(str(step) for step in path[-2 if len(path) > 2 else -1 :]
                            if isinstance(step, str))  # fmt: skip
            self.warn(f"{whose}{name} is {_shown(ours)}, which tfapp sets", "remove it here", *path)

    def table(
        self, theirs: Mapping[str, Any], ours: Mapping[str, Any], path: PathTo, of: str = ""
    ) -> Manifest:
        """The keys of both, those of mappings below too."""
        found = {**theirs, **ours}
        for key in theirs.keys() & ours.keys():
            if isinstance(theirs[key], Mapping) and isinstance(ours[key], Mapping):
                found[key] = self.table(theirs[key], ours[key], (*path, key), of)
            else:
                self.differs(theirs[key], ours[key], (*path, key), of)
        return found

    def named(
        self,
        theirs: Sequence[Manifest | None] | None,
        ours: Sequence[Manifest] | None,
        path: PathTo,
        by: str = "name",
        of: str = "",
    ) -> list[Manifest]:
        """The entries of both lists; where two have one name, it is ours."""
        names = {entry[by]: entry for entry in ours or ()}
        kept = []
        for index, entry in enumerate(theirs or ()):
            if entry is None:
                continue
            if entry[by] in names and entry != names[entry[by]]:
                whose = f"container '{of}': " if of else ""
                message = f"{whose}{path[-1]} has {entry[by]}, which tfapp sets"
                self.warn(message, f"give it another {by}, or remove it", *path, index)
            elif entry[by] not in names:
                kept.append(entry)
        return [*kept, *names.values()]


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
