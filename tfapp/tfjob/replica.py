"""One replica spec of a TFJob: its program, its resources, and the Pod with all else."""

from __future__ import annotations

import copy
import math
import re
import shlex
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tfapp.package.rules.scripts import IMAGE
from tfapp.package.safety import is_reserved_variable
from tfapp.problems import ERROR, WARNING
from tfapp.tfjob.manifest import Section

SITE, KUBERNETES = "site.global.", "site.global.kubernetes."
CONTAINER, PORT = "tensorflow", "tfjob-port"
PULLS = {"Always": "always", "IfNotPresent": "missing", "Never": "never"}
SCRIPTS = f"{SITE}user.scripts."
GPU = "nvidia.com/gpu"
MEMORY = 2048  # MiB of an instance of which the TFJob says nothing, as in tfapp's own package

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(m|[kMGTPE]?|[KMGTPE]i|[eE][0-9]+)\Z")
# $$ is a dollar, and $(NAME) the value of a variable.
_EXPANDED = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)")
_OF_THE_POD = ("name", "namespace", "generateName", "creationTimestamp")


def _expand(text: str, variables: Mapping[str, str]) -> tuple[str, list[str]]:
    """`text` as Kubernetes expands it, and the variables in it that are not known."""
    unknown = []

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is not None and name not in variables:
            unknown.append(name)
            return match[0]
        return "$" if name is None else variables[name]

    return _EXPANDED.sub(value, text), unknown


def _literal(text: str) -> str:
    """`text` as a value of a package that has no placeholders."""
    return text.replace("${", "${DOLLAR}{")


class Replica:
    """The replica spec in `section` as the component `component`."""

    def __init__(self, component: str, section: Section):
        self.component, self.section = component, section
        self.manifest = section.manifest
        count = section.number("replicas")
        self.count = 1 if count is None else count
        policies = ("Never", "OnFailure", "Always", "ExitCode")
        self.restart = section.word("restartPolicy", *policies) or "Never"
        self.grace = 0  # seconds
        self.pull_secrets: list[str] = []  # the names of Secrets
        self._config: dict[str, Any] = {}
        self._resources: dict[str, Any] = {}
        self._spec: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}
        template = section.section("template")
        spec = template.section("spec") if template is not None else None
        section.refuse_others()
        if template is None or spec is None:
            self.manifest.say(ERROR, f"{section.name} has no template with a spec", "",
                              *section.path)  # fmt: skip
            return
        self._read_metadata(template)
        self._read_spec(spec)
        template.refuse_others()

    def app_config(self) -> dict[str, Any]:
        """The keys of the component."""
        pod = {f"{KUBERNETES}pod.template": f"pod-{self.component}.yaml"} if self.pod() else {}
        return {**self._config, **pod}

    def resources(self) -> dict[str, Any]:
        """The keys of the component, without its number of instances."""
        return self._resources

    def pod(self) -> dict[str, Any]:
        """The Pod with all that is no key of the package; {} where nothing is."""
        containers = self._spec.get("containers", [])
        bare = [c for c in containers if c.keys() - {"name"}]
        if not (bare or self._metadata or self._spec.keys() - {"containers"}):
            return {}
        head: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}
        if self._metadata:
            head["metadata"] = self._metadata
        return {**head, "spec": self._spec}

    def _read_metadata(self, template: Section) -> None:
        metadata = template.section("metadata")
        if metadata is None:
            return
        for key in ("labels", "annotations"):
            if values := metadata.take(key, dict):
                self._metadata[key] = {name: str(text) for name, text in values.items()}
        for key in _OF_THE_POD:
            metadata.text(key)
        metadata.refuse_others("tfapp sets it")

    def _read_spec(self, spec: Section) -> None:
        containers = spec.sections("containers")
        main = next((c for c in containers if c.data.get("name") == CONTAINER), None)
        if main is None:
            hint = f"a TFJob's program is in the container '{CONTAINER}'"
            message = f"{spec.name} has no container named '{CONTAINER}'"
            self.manifest.say(ERROR, message, hint, *spec.path, "containers")
            return
        spec.text("restartPolicy")  # the replica's counts
        self.pull_secrets = [one.text("name") for one in spec.sections("imagePullSecrets")]
        self.grace = spec.number("terminationGracePeriodSeconds") or 0
        if "activeDeadlineSeconds" in spec.data:
            why = "a pod is ended with its application"
            hint = f"{SITE}application.lifetime limits the application"
            spec.left("activeDeadlineSeconds", why, hint)
        program = self._read_container(main)
        guests = [copy.deepcopy(dict(c.data)) for c in containers if c is not main]
        kept = {key: copy.deepcopy(spec.data[key]) for key in spec.untaken()}
        self._spec = {**kept, "containers": [program, *guests]}

    def _read_container(self, container: Section) -> dict[str, Any]:
        """Reads the program's container; what is left of it for the Pod."""
        container.text("name")
        image = container.text("image")
        if not image:
            self.manifest.say(ERROR, f"{container.name} has no image", "", *container.path)
        self._config[f"{SITE}docker.image"] = image
        pull = container.word("imagePullPolicy", *PULLS)
        if pull:
            self._config[f"{SITE}docker.pull"] = PULLS[pull]
        variables, kept = self._read_environment(container)
        self._read_command(container, variables)
        self._read_ports(container, kept)
        self._read_resources(container, kept)
        others = {key: copy.deepcopy(container.data[key]) for key in container.untaken()}
        return {"name": CONTAINER, **others, **kept}

    def _read_command(self, container: Section, variables: Mapping[str, str]) -> None:
        words = {}
        for key in ("command", "args"):
            found = container.texts(key)
            words[key] = [self._expanded(word, variables, container, key) for word in found]
        command, args = words["command"], words["args"]
        if not command:
            what = "the image's own command is run, which only run mode docker can know"
            hint = f"on Kubernetes, set {SCRIPTS}command to what `docker image inspect` shows as "
            container.differs("image", what, f"{hint}its Entrypoint and Cmd")
        self._config[f"{SCRIPTS}command"] = shlex.join(command) if command else IMAGE
        if args:
            self._config[f"{SCRIPTS}args"] = shlex.join(args)
        folder = container.text("workingDir")
        if folder:
            self._config[f"{SCRIPTS}dir"] = folder

    def _expanded(
        self, word: str, variables: Mapping[str, str], container: Section, key: str
    ) -> str:
        """A word as Kubernetes expands it, with placeholders of a package kept from it."""

        text, unknown = _expand(word, variables)
        for name in unknown:
            what = f"$({name}) is given to the program as it stands: its value is not known here"
            container.differs(key, what, f"sh -c '... ${name}' reads it when the program starts")
        return _literal(text)

    def _read_environment(self, container: Section) -> tuple[dict[str, str], dict[str, Any]]:
        """The variables with a value, and what is left for the Pod: those from elsewhere, or all,
        where one is made of one from elsewhere."""
        entries = container.sections("env")
        variables: dict[str, str] = {}
        known = True
        left: list[dict[str, Any]] = []
        for entry in entries:
            name, text = entry.text("name"), entry.text("value")
            if is_reserved_variable(name):
                message = f"{entry.name}, {name}, is not carried over: tfapp sets it"
                self.manifest.say(WARNING, message, "", *entry.path)
                continue
            left.append(copy.deepcopy(dict(entry.data)))
            if "valueFrom" not in entry.data:
                value, unknown = _expand(text, variables)
                if unknown:
                    known = False
                else:
                    variables[name] = value
        if not known:
            return variables, {"env": left}
        self._config.update({f"env.{name}": _literal(text) for name, text in variables.items()})
        others = [entry for entry in left if "valueFrom" in entry]
        return variables, {"env": others} if others else {}

    def _read_ports(self, container: Section, kept: dict[str, Any]) -> None:
        ports = []
        for entry in container.sections("ports"):
            port = entry.data.get("containerPort")
            if entry.data.get("name") != PORT:
                ports.append(dict(entry.data))
            elif isinstance(port, int) and self.component != "evaluator":
                key = f"{SITE}{self.component}.port"
                allocated = f"${{{self.component}.ALLOCATED_PORT}}"
                self._config[key] = f"{allocated}{{DEFAULT_{port}}}{{PER_CONTAINER}}"
        if ports:
            kept["ports"] = ports

    def _read_resources(self, container: Section, kept: dict[str, Any]) -> None:
        """Memory with one amount for request and limit, processors that are requested as a whole,
        and GPUs are keys of the resources. All else stays in the Pod."""
        asked = container.section("resources")
        if asked is None:
            self._default_memory(container)
            return
        parts = {key: dict(asked.take(key, dict) or {}) for key in ("requests", "limits")}
        requests, limits = parts["requests"], parts["limits"]
        others = {key: copy.deepcopy(asked.data[key]) for key in asked.untaken()}
        memory = limits.get("memory")
        if memory is not None and requests.get("memory", memory) == memory:
            self._resources["yarn.memory"] = math.ceil(self._amount(asked, memory) / (1 << 20))
            requests.pop("memory", None)
            limits.pop("memory")
        elif memory is None and "memory" not in requests:
            self._default_memory(container)
        cpu = requests.get("cpu", limits.get("cpu"))
        if cpu is not None and (amount := self._amount(asked, cpu)):
            self._resources["yarn.vcores"] = math.ceil(amount)
            if amount != math.ceil(amount):
                self._config[f"{KUBERNETES}cpu.request"] = str(cpu)
            requests.pop("cpu", None)
            if limits.get("cpu") == cpu:
                limits.pop("cpu")  # tfapp sets no limit: docs/kubernetes.md says why
        gpus = limits.pop(GPU, None)
        requests.pop(GPU, None)
        if gpus is not None:
            self._resources["yarn.gpus"] = int(self._amount(asked, gpus))
        left = {**{key: part for key, part in parts.items() if part}, **others}
        if left:
            kept["resources"] = left

    def _default_memory(self, container: Section) -> None:
        self._resources["yarn.memory"] = MEMORY
        message = f"{container.name} says nothing of memory: it gets {MEMORY} MiB and no more"
        hint = f"write what it needs as yarn.memory of {self.component} in the resources"
        self.manifest.say(WARNING, message, hint, *container.path)

    def _amount(self, asked: Section, text: object) -> Decimal:
        match = _QUANTITY.match(str(text))
        if match is None:
            asked.wrong("quantities such as 500m or 2Gi", text)
            return Decimal(0)
        number, unit = Decimal(match[1]), match[2]
        if unit[:1] in ("e", "E") and len(unit) > 1 and unit[1].isdigit():
            return number * Decimal(10) ** int(unit[1:])
        if unit == "m":
            return number / 1000
        power = "kMGTPE".find(unit[:1].replace("K", "k")) + 1 if unit else 0
        return number * (1024 if unit.endswith("i") else 1000) ** power
