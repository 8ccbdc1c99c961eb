"""The pods of a package's components and of the application master, as plain data, and the parts of
a package that Kubernetes cannot fulfil. Pure except for reading pod templates."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfapp.compiler.options import CompileOptions
from tfapp.compiler.plan import Plan
from tfapp.compiler.settings import ComponentSettings
from tfapp.contract.job import SITE_GLOBAL, ComponentJob, Job, Resources, Settings
from tfapp.contract.names import (
    ENV_NODE,
    ENV_OWN_CGROUP,
    ENV_WITNESS,
    IMAGE_PYTHON,
    METRICS_PATH,
)
from tfapp.engines.kubernetes.interpreter import command
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.names import CONTAINER, MASTER_COMPONENT
from tfapp.engines.kubernetes.template import Written, merged, read_template
from tfapp.engines.kubernetes.volumes import (
    EMPTY_DIR,
    PodSettings,
    Volume,
    VolumeError,
    holding,
    objection,
)
from tfapp.frozen import frozen
from tfapp.package.amounts import seconds
from tfapp.package.model import AppPackage, ConfigValue, setting
from tfapp.package.rules.scripts import IMAGE
from tfapp.problems import ERROR, WARNING, Position, Problem
from tfapp.standalone.bootstrap import WITNESS

Manifest = dict[str, Any]

CODE = "kubernetes"
CHECKPOINT_CODE = "checkpoint-volume"

# Where a pod has what is tfapp's. The names are those of the volumes.
RUN_VOLUME, RUN_PATH = "tfapp-run", "/tfapp/run"  # of the run's Secret
RUNTIME_VOLUME, RUNTIME_PATH = "tfapp-runtime", "/tfapp/runtime"
APP_VOLUME, APP_PATH = "tfapp-app", "/tfapp/app"  # all of the application's Secret
WORK_VOLUME, WORK_PATH = "tfapp-work", "/tfapp/work"
WITNESS_VOLUME = "tfapp-witness"  # a token, see tfapp.engines.kubernetes.pod.outside
SCRIPT_VOLUME, SCRIPT_FOLDER = "tfapp-script", "/script"  # see _needs_script_folder
BOOTSTRAP, RUNTIME = "bootstrap.py", "runtime.zip"
# What the master has in the runtime archive, beside the part of all containers, and its package.
MASTER_FILES = ("master/*.py", "engines/kubernetes/pod/*.py")
MASTER_PROGRAM = "engines.kubernetes.pod"
CERTIFICATE, KEY = "certificate", "key"  # in the run's Secret

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
NO_QUEUE = ("", "default")  # the flag's own default
HOST = "kubernetes.io/hostname"

RUNNER_MEMORY = 128  # MiB: of tfapp's own processes in a container, beside its program
NODE_SECONDS = 10  # that a node may be known as lost before its master is given up
# Asks the parent of masters whether it lives, and finds a question of before that has no answer.
# Until the parent has begun, and where no file can be made, nothing is wrong.
PROBE = f"""\
cd {WORK_PATH}/{names.PROBE} 2> /dev/null || exit 0
[ ! -e {names.QUESTION} ] || exit 1
true > {names.QUESTION} || true"""
MASTER_CPU = "100m"  # of a master whose yarn.vcores nobody gave
MASTER_MARGIN = 30  # seconds that a master takes beyond the grace of the programs
GRACE_MARGIN = 10  # seconds that a runner takes beyond the time of its program to save and end

# Writers of checkpoints, and readers.
_WRITERS, _READERS = ("chief", "worker", "ps", "evaluator", "dispatcher"), ("tensorboard",)


@frozen
class Places:
    """Where, and for whom, pods are created. `run`: the number. `queue`: Kueue's local queue; "" or
    "default" for none. `tags`: the user's."""

    name: str
    user: str
    namespace: str
    run: int = 1
    queue: str = ""
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: CompileOptions, namespace: str) -> Places:
        """The places for an application that is compiled with `options`."""
        return cls(options.name, options.user, namespace, 1, options.queue, tuple(options.tags))

    @property
    def secret(self) -> str:
        return names.application_object(self.name)

    def metadata(self, component: str, safe_to_evict: bool) -> Manifest:
        """Of a component's pods, or of the master's: that one waits for no queue, in which others
        could wait for each other's masters. `safe_to_evict`: the autoscaler may move a training to
        save a node."""
        labels = names.pod_labels(self.name, self.run, component, tags=self.tags)
        if component != MASTER_COMPONENT and self.queue not in NO_QUEUE:
            labels[names.QUEUE_LABEL] = self.queue
        return {
            "namespace": self.namespace,
            "labels": labels,
            "annotations": {
                **names.application_annotations(self.name, self.user),
                SAFE_TO_EVICT: str(safe_to_evict).lower(),
            },
        }


# ---- What others call -------------------------------------------------------------------------


def pods(plan: Plan, at: Places) -> dict[str, Manifest]:
    """The Pod of each component for run `at.run`. The launcher adds metadata.name, the label
    `tfapp/instance`, the owner, and the `args` ADDRESS CONTAINER_ID of the container "tfapp". For
    another run see `of_run`."""
    return {c.name: _Built(plan, c, at).pod for c in plan.job.components}


def of_run(pod: Manifest, name: str, run: int) -> Manifest:
    """A Pod or pod template for another run of the application `name`."""
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], names.RUN: str(run)}}
    secret = {"secretName": names.run_object(name, run)}
    volumes = [
        {**volume, "secret": {**volume["secret"], **secret}}
        if volume["name"] == RUN_VOLUME
        else volume
        for volume in pod["spec"]["volumes"]
    ]
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "volumes": volumes}}


def check(
    plan: Plan, at: Places, claims: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Problem]:
    """The parts of a package that Kubernetes cannot fulfil, or not as written. `claims`: the access
    modes of known PersistentVolumeClaims, by name."""
    found = dict.fromkeys(_check_history(plan.package))
    for component in plan.job.components:
        built = _Built(plan, component, at)
        found.update(dict.fromkeys(built.problems))
        found.update(dict.fromkeys(_refused(plan.package, built)))
        found.update(dict.fromkeys(_check_checkpoints(built, claims or {})))
    yield from found


def master_pod(plan: Plan, at: Places, memory: int, vcores: int, runtime: str) -> Manifest:
    """metadata and spec of the master's pod, for its Job. It uses the values in `global`, and no
    pod template. `memory`: in MiB. `runtime`: the key of the runtime archive in the application's
    Secret."""
    package, job = plan.package, plan.job
    first = next((c for c in job.components if c.role == "chief"), job.components[0])
    chief = plan.components[first.name]
    own = chief.own
    shared = {
        key: own.expand(value.text)
        for key, value in package.config.global_.items()
        if key.startswith(f"{SITE_GLOBAL}kubernetes.")
    }
    settings = Settings(shared)
    configured = PodSettings.read(Settings({**shared, f"{SITE_GLOBAL}kubernetes.volumes": ""}))
    image = settings.text("kubernetes.master.image") or chief.image
    account = configured.service_account or names.application_object(at.name)
    python, key = _python(own, bool(plan.master.travels))
    if settings.text("kubernetes.master.image"):
        python, key = IMAGE_PYTHON, ""
    written = "yarn.vcores" in package.master.positions
    cpu = str(vcores) if written else MASTER_CPU
    container = {
        **_container(image, configured),
        "command": command(python, image, key, [f"{RUNTIME_PATH}/{RUNTIME}", MASTER_PROGRAM]),
        "env": [
            {"name": "TFAPP_NAME", "value": at.name},
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}
                for name, field in (
                    ("TFAPP_RUN", f"metadata.labels['{names.RUN}']"),
                    ("TFAPP_POD_NAME", "metadata.name"),
                    ("TFAPP_POD_NAMESPACE", "metadata.namespace"),
                    ("TFAPP_POD_IP", "status.podIP"),
                )
            ),
            *_home(configured),
        ],
        "resources": {
            "requests": {"cpu": cpu, "memory": f"{memory}Mi"},
            "limits": {"memory": f"{memory}Mi"},
        },
        "livenessProbe": _alive(),
        "volumeMounts": [*_mounts(), {"name": APP_VOLUME, "mountPath": APP_PATH, "readOnly": True}],
    }
    spec = {
        **_spec(configured, Resources(memory, vcores, label=package.master.container.label), job),
        # At a suspension it lets programs save, ends their pods with their grace, and writes that
        # down.
        "terminationGracePeriodSeconds": math.ceil(job.limits.stop_grace + job.limits.save_grace)
        + MASTER_MARGIN,
        "tolerations": [*_off_the_node(), *map(dict, configured.tolerations)],
        "serviceAccountName": account,
        "automountServiceAccountToken": True,
        "volumes": [
            *_volumes(at, {runtime: RUNTIME}, configured),
            {"name": APP_VOLUME, "secret": {"secretName": at.secret}},
        ],
        "containers": [container],
    }
    metadata = at.metadata(MASTER_COMPONENT, configured.safe_to_evict)
    if job.metrics_port:
        scraped = {"scrape": "true", "port": str(job.metrics_port), "path": METRICS_PATH}
        more = {f"prometheus.io/{name}": value for name, value in scraped.items()}
        metadata["annotations"] = {**metadata["annotations"], **more}
    return {"metadata": metadata, "spec": spec}


def has_witness(plan: Plan) -> bool:
    """Whether runners can ask for their master elsewhere when it is lost. They cannot where its
    service account is the user's, who may make none."""
    own = setting(plan.package.config.global_, "kubernetes.service.account")
    return plan.job.attempts > 1 and own is None


def _off_the_node() -> Iterator[dict[str, Any]]:
    """Tolerations of a master for a node that is lost. Kubernetes gives pods five minutes by
    itself; runners have ended their programs before it even knows of the loss."""
    for what in ("not-ready", "unreachable"):
        taint = {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
        yield {**taint, "tolerationSeconds": NODE_SECONDS}


def _alive() -> Manifest:
    """The probe of a master's pod: all that hangs in it for 90 s is ended, and the Job starts
    another one. A node under load has six chances. The grace is the pod's: that of a probe counts
    only where the container is started again."""
    return {
        "exec": {"command": ["sh", "-c", PROBE]},
        "periodSeconds": 15,
        "timeoutSeconds": 10,
        "failureThreshold": 6,
    }


def of_instances(at: Places) -> Manifest:
    """The selector of all pods of an application but those of masters."""
    others = {"key": names.COMPONENT, "operator": "NotIn", "values": [MASTER_COMPONENT]}
    return {
        "matchLabels": names.application_labels(at.name),
        "matchExpressions": [others],
    }


# ---- One component ----------------------------------------------------------------------------


class _Built:
    """The pod of one component, with the problems that were found."""

    def __init__(self, plan: Plan, component: ComponentJob, at: Places):
        known = plan.components[component.name]
        self.job = component
        self.instances = sum(each.instances for each in plan.job.components)
        self.values, self.component, self.own = known.values, known.component, known.own
        self.asked, self.image = known.asked, known.image
        self.travelling = bool(known.python.travels)  # whether programs have an environment
        self.problems: list[Problem] = []
        self.settings = self._read()
        self.pod = self._merged(plan.package, self._pod(plan, at), at)
        self._hide_gpus()

    def value(self, key: str) -> ConfigValue | None:
        """The value of site.global.`key`, if it was given."""
        found = setting(self.values, key)
        return None if found is None or found.is_default else found

    def _read(self) -> PodSettings:
        try:
            return PodSettings.read(self.own.settings)
        except VolumeError as error:
            given = setting(self.values, "kubernetes.volumes")
            at = given.at if given else self.component.at
            self.problems.append(Problem(at, CODE, error.message, ERROR, error.hint))
            without = {**self.own.site, f"{SITE_GLOBAL}kubernetes.volumes": ""}
            return PodSettings.read(Settings(without))

    def _pod(self, plan: Plan, at: Places) -> Manifest:
        settings, size, job = self.settings, self.job.container, plan.job
        python, key = _python(self.own, self.travelling)
        bootstrap = [f"{RUNTIME_PATH}/{BOOTSTRAP}"]
        paths = [f"{RUN_PATH}/{CERTIFICATE}", f"{RUN_PATH}/{KEY}", WORK_PATH]
        memory = f"{size.memory + RUNNER_MEMORY}Mi"
        asked = self.asked.positions.get("yarn.memory")
        place = f" at {posixpath.basename(asked.file)}:{asked.line}" if asked and asked.line else ""
        limit = f"its limit is {memory}: yarn.memory{place} and {RUNNER_MEMORY}Mi for the runner"
        gpus = {settings.gpu_resource: str(size.gpus)} if size.gpus else {}
        witness = [_witness(at, settings)] if has_witness(plan) else []
        asks = f"{job.limits.master:g} {names.witness_object(at.name)}"
        witness_env = [{"name": ENV_WITNESS, "value": asks} for _ in witness]
        volumes = {f"tfapp-volume-{n}": volume for n, volume in enumerate(settings.volumes)}
        if self._needs_script_folder():
            volumes[SCRIPT_VOLUME] = Volume(EMPTY_DIR, "", SCRIPT_FOLDER)
        container = {
            **_container(self.image, settings),
            "command": command(
                python, self.image, key, bootstrap, paths, libraries=not self.travelling
            ),
            "env": [
                *_home(settings),
                {"name": ENV_OWN_CGROUP, "value": limit},
                {"name": ENV_NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                *witness_env,
            ],
            "resources": {
                "requests": {"cpu": settings.cpu or str(size.vcores), "memory": memory},
                "limits": {"memory": memory, **gpus},
            },
            "volumeMounts": [
                *_mounts(),
                *({"name": v["name"], "mountPath": WITNESS, "readOnly": True} for v in witness),
                *(v.volume_mount(n) for n, v in volumes.items()),
            ],
        }
        spec = {
            **_spec(settings, size, job),
            "automountServiceAccountToken": False,
            "topologySpreadConstraints": _spread(at),
            "volumes": [
                *_volumes(at, {BOOTSTRAP: BOOTSTRAP}, settings),
                *witness,
                *(v.manifest(n) for n, v in volumes.items()),
            ],
            "containers": [container],
        }
        if settings.service_account:
            spec["serviceAccountName"] = settings.service_account
        metadata = at.metadata(self.job.name, settings.safe_to_evict)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _needs_script_folder(self) -> bool:
        """Whether the user of the image may lack permission to create the folder in which an
        entrypoint expects its program: TF-Spawner mounts a ConfigMap there."""
        link = self.own.settings.text("user.scripts.link").partition("=")[0]
        mounts = {volume.mount for volume in self.settings.volumes}
        return posixpath.dirname(link) == SCRIPT_FOLDER and SCRIPT_FOLDER not in mounts

    def _merged(self, package: AppPackage, pod: Manifest, at: Places) -> Manifest:
        value = setting(self.values, "kubernetes.pod.template")
        if value is None:
            return pod
        name = self.own.settings.text("kubernetes.pod.template")
        template, problems = read_template(package, value, name)
        self.problems += problems
        if template is None:
            return pod
        asked = self.asked.positions
        image, cpu = self.value("docker.image"), self.value("kubernetes.cpu.request")
        declared = [c for c in self.component.docker_containers[:1] if c.get("image")]

        def counts(*places: Position | None) -> bool:
            """Whether one of them goes before the template: one that the command line names goes
            before all files."""
            return any(place and (value.at.line or not place.line) for place in places)

        written = Written(
            image=counts(image.at if image else None, *(self.component.at for _ in declared)),
            memory=counts(asked.get("yarn.memory")),
            cpu=counts(asked.get("yarn.vcores"), cpu.at if cpu else None),
            namespace=at.namespace,
        )
        found, problems = merged(template, pod, written)
        self.problems += problems
        return found

    def _hide_gpus(self) -> None:
        """Hides the GPUs of a node from a pod that requests none: NVIDIA's images ask for all of
        them."""
        container = self.pod["spec"]["containers"][0]
        variable = "NVIDIA_VISIBLE_DEVICES"
        known = any(entry["name"] == variable for entry in container["env"])
        if not known and all("/" not in name for name in container["resources"]["limits"]):
            container["env"] = [*container["env"], {"name": variable, "value": "void"}]


def _python(own: ComponentSettings, travelling: bool) -> tuple[str, str]:
    """The interpreter of the image for tfapp's part of a pod, and the key that sets it.
    `travelling`: whether the programs have another."""
    runner = own.settings.text("python.runner")
    if runner:
        return runner, f"{SITE_GLOBAL}python.runner"
    executable = "" if travelling else own.settings.text("python.executable")
    return (executable, f"{SITE_GLOBAL}python.executable") if executable else (IMAGE_PYTHON, "")


def _container(image: str, settings: PodSettings) -> Manifest:
    """The container "tfapp", without command, resources and mounts."""
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": settings.pull_policy or "IfNotPresent",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _home(settings: PodSettings) -> list[Manifest]:
    """A home folder for a user that the image does not know."""
    return [{"name": "HOME", "value": WORK_PATH}] if settings.user else []


def _witness(at: Places, settings: PodSettings) -> Manifest:
    """The volume of the token by which a runner asks its witness."""
    secret: Manifest = {"secretName": names.witness_object(at.name), "optional": True}
    if settings.user:
        secret["defaultMode"] = 0o440
    return {"name": WITNESS_VOLUME, "secret": secret}


def _mounts() -> list[Manifest]:
    return [
        {"name": RUN_VOLUME, "mountPath": RUN_PATH, "readOnly": True},
        {"name": RUNTIME_VOLUME, "mountPath": RUNTIME_PATH, "readOnly": True},
        {"name": WORK_VOLUME, "mountPath": WORK_PATH},
    ]


def _volumes(at: Places, runtime: Mapping[str, str], settings: PodSettings) -> list[Manifest]:
    """The volumes of a pod. `runtime`: key of the application's Secret -> file below
    RUNTIME_PATH. Where the user is known, nobody else can read the key of the run."""
    run: Manifest = {"secretName": names.run_object(at.name, at.run)}
    if settings.user:
        run["defaultMode"] = 0o440  # root's and the user's group's (fsGroup)
    return [
        {"name": RUN_VOLUME, "secret": run},
        {
            "name": RUNTIME_VOLUME,
            "secret": {
                "secretName": at.secret,
                "items": [{"key": key, "path": path} for key, path in runtime.items()],
            },
        },
        {"name": WORK_VOLUME, "emptyDir": {}},
    ]


def _spec(settings: PodSettings, size: Resources, job: Job) -> Manifest:
    """The common parts of the pods of components and of the master."""
    security: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if settings.user:
        security |= {"runAsUser": settings.user, "runAsNonRoot": True}
        # Volumes are given to the user's group once, not file by file at each start.
        security |= {"fsGroup": settings.user, "fsGroupChangePolicy": "OnRootMismatch"}
    found = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(job.limits.stop_grace + job.limits.save_grace)
        + GRACE_MARGIN,
        "securityContext": security,
        "imagePullSecrets": [{"name": name} for name in settings.pull_secrets],
        "priorityClassName": settings.priority_class,
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [dict(toleration) for toleration in settings.tolerations],
        "affinity": _affinity(size),
    }
    return {key: value for key, value in found.items() if value not in ("", [], {})}


def _spread(at: Places) -> list[Manifest]:
    """Prefers different nodes for the pods of the application, except for the master: otherwise two
    workers would share a node to avoid the master's. Only one such constraint is allowed for a
    topology key."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": of_instances(at),
        }
    ]


def _affinity(size: Resources) -> Manifest:
    """The node affinity for a node label (by its key) and for hosts (by their names)."""
    wanted: list[Manifest] = []
    if size.label:
        wanted.append({"key": size.label, "operator": "Exists"})
    if size.nodes:
        wanted.append({"key": HOST, "operator": "In", "values": list(size.nodes)})
    if not wanted:
        return {}
    term = {"matchExpressions": wanted}
    if size.relax_locality and not size.label:
        prefers = "preferredDuringSchedulingIgnoredDuringExecution"
        return {"nodeAffinity": {prefers: [{"weight": 100, "preference": term}]}}
    requires = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {requires: {"nodeSelectorTerms": [term]}}}


# ---- What cannot be had -----------------------------------------------------------------------


# Settings of run mode docker that a pod has no word for.
_NOT_OF_A_POD = {
    "docker.mounts": "pods have site.global.kubernetes.volumes",
    "docker.credential": "name a Secret in site.global.kubernetes.image.pull.secrets",
    "docker.host": "a node's own container engine runs the pods: remove it",
    "docker.pull.timeout": "remove it: site.global.gang.timeout limits the pull",
}


def _refused(package: AppPackage, built: _Built) -> Iterator[Problem]:
    """Errors for values that would have no effect."""
    name, asked = built.job.name, built.asked
    if asked.container.racks:
        hint = "zones are labels of nodes: site.global.kubernetes.node.selector: "
        hint += "topology.kubernetes.io/zone=NAME"
        message = f"yarn.racks of {name}: Kubernetes knows no racks"
        yield Problem(asked.place("yarn.racks"), CODE, message, ERROR, hint)
    for key, hint in _NOT_OF_A_POD.items():
        value = built.value(key)
        if value is not None and value.text:
            message = f"site.global.{key} has no effect on Kubernetes"
            yield Problem(value.key_at, CODE, message, ERROR, hint)
    for container in built.component.docker_containers[:1]:
        for field in ("options", "mounts"):
            if container.get(field):
                at = built.component.place(f"dockerContainers.0.{field}")
                message = f"{name}: a pod does not have the {field} of dockerContainers"
                yield Problem(at, CODE, message, ERROR, "pods have site.global.kubernetes.*")
    command = setting(built.values, "user.scripts.command")
    if command is not None and command.text.strip() == IMAGE and built.job.instances:
        message = f"{name}: on Kubernetes the image's own command is not known"
        hint = "`docker image inspect IMAGE` shows its Entrypoint and Cmd: write them here"
        yield Problem(command.at, CODE, message, ERROR, hint)
    image = setting(built.values, "docker.image")
    given = built.pod["spec"]["containers"][0]["image"]
    if not given:
        message = f"{name} has no image"
        hint = "name it with site.global.docker.image"
        yield Problem(image.at if image else built.component.at, CODE, message, ERROR, hint)
    elif image is not None and image.is_default and given == image.text:
        message = f"no site.global.docker.image is given: the default, {given}, is used"
        hint = "name the image that has what your program needs"
        yield Problem(package.positions.get("application", built.component.at), CODE, message,
                      WARNING, hint)  # fmt: skip


def _check_history(package: AppPackage) -> Iterator[Problem]:
    value = setting(package.config.global_, "history.dir")
    if value is not None and "://" not in value.text.removeprefix("file://"):
        message = f"the history {value.text} would end with the master's pod, which has no volume"
        hint = "name a URL, such as s3://bucket/history"
        yield Problem(value.at, CODE, message, ERROR, hint)


def _check_checkpoints(built: _Built, claims: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """A problem for a checkpoint folder that instances do not share, or that is deleted with its
    pod."""
    value = setting(built.values, "user.checkpoint.prefix")
    prefix = built.own.settings.text("user.checkpoint.prefix").removeprefix("file://")
    role = built.job.role
    if value is None or not built.job.instances or role not in (*_WRITERS, *_READERS):
        return
    if not prefix or "://" in prefix or "${" in prefix:
        return
    found = holding(built.pod, CONTAINER, prefix)
    if found is None:
        message = f"{built.job.name}: the checkpoint folder {prefix} is in no volume of its pods"
        hint = "name one that all pods can write: site.global.kubernetes.volumes: pvc:CLAIM:/PATH"
        yield Problem(value.at, CHECKPOINT_CODE, message, ERROR, hint)
        return
    if role in _READERS and "emptyDir" not in found[0]:
        return
    why = objection(*found, many=built.instances > 1, claims=claims)
    if why is not None:
        message, hint, certain = why
        message = (
            f"{built.job.name}: the checkpoint folder is in a volume that does not fit: {message}"
        )
        severity = ERROR if certain else WARNING
        yield Problem(value.at, CHECKPOINT_CODE, message, severity, hint)


def ttl_of(package: AppPackage) -> int | None:
    """Seconds for which the pods of a run are kept after its end; None: as long as the
    application."""
    value = setting(package.config.global_, "kubernetes.ttl")
    return None if value is None else math.ceil(seconds(value.text))
