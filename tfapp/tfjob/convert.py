"""The documents of the app package that a TFJob becomes. Pure.

Types and defaults: kubeflow/training-operator v1.9, pkg/apis/kubeflow.org/v1 (common_types.go,
tensorflow_types.go); what follows from them: pkg/controller.v1/tensorflow/tfjob_controller.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfapp.frozen import frozen
from tfapp.problems import ERROR, Problem, has_errors
from tfapp.tfjob.manifest import InvalidManifestError, Manifest, Section
from tfapp.tfjob.replica import KUBERNETES, SITE, Replica

# Replica types, which the operator takes in any case, and the components that they become.
REPLICAS = {"Chief": "chief", "Master": "chief", "Worker": "worker", "PS": "ps",
            "Evaluator": "evaluator"}  # fmt: skip
NEVER, ON_FAILURE, ALWAYS, EXIT_CODE = "Never", "OnFailure", "Always", "ExitCode"
# What ends a program, and not its container.
OF_PROGRAMS = ("exit", "signal", "memory", "hang", "script", "start", "timeout")
NO_LIMIT = 2147483647  # restarts; the schema's most
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"

_ABOUT_OBJECTS = ("creationTimestamp", "finalizers", "generation", "managedFields",
                  "ownerReferences", "resourceVersion", "selfLink", "uid")  # fmt: skip
_RUN_POLICY = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds",
               "backoffLimit", "schedulingPolicy", "suspend", "managedBy")  # fmt: skip


@frozen
class Imported:
    """A package. `app_config` and `resources` are whole documents, `application` are the keys that
    metainfo gets. `pods`: file -> the Pod in it. `counts`: component -> instances.
    `namespace`, `queue`: flags for `tfapp create`. `problems`: what was not carried over, or with
    another meaning; sorted."""

    name: str
    application: Mapping[str, Any]
    app_config: Mapping[str, Any]
    resources: Mapping[str, Any]
    pods: Mapping[str, Mapping[str, Any]]
    counts: Mapping[str, int]
    namespace: str
    queue: str
    problems: tuple[Problem, ...]


def convert(manifest: Manifest) -> Imported:
    """InvalidManifestError, with all findings, for a manifest that is no sound TFJob."""
    found = _Conversion(manifest).imported()
    if has_errors(found.problems):
        errors = (problem for problem in found.problems if problem.severity == ERROR)
        raise InvalidManifestError(tuple(errors))
    return found


class _Conversion:
    def __init__(self, manifest: Manifest):
        self.manifest = manifest
        self.root = manifest.root
        self.global_: dict[str, Any] = {}
        self.queue = ""
        self.rules: list[dict[str, Any]] = []
        self.policy: dict[str, Any] = {}
        self.spec = self.root.section("spec") or Section(manifest, ())

    def imported(self) -> Imported:
        for key in ("apiVersion", "kind"):
            self.root.take(key, str)
        name, namespace = self.metadata()
        replicas = self.replicas()
        success = self.success(replicas)
        self.failures(replicas)
        self.run_policy(replicas)
        self.spec.refuse_others()
        if "status" in self.root.data:
            self.root.left("status", "it is what became of the job there")
        self.root.refuse_others()
        application: dict[str, Any] = {"comment": f"Imported from the TFJob {name}"}
        if success:
            application["successPolicy"] = success
        if self.rules:
            self.policy["rules"] = self.rules
        if self.policy:
            application["failurePolicy"] = self.policy
        pods = {f"pod-{r.component}.yaml": pod for r in replicas if (pod := r.pod())}
        return Imported(
            name,
            application,
            self.app_config(replicas),
            self.resources(replicas),
            pods,
            {replica.component: replica.count for replica in replicas},
            namespace,
            self.queue,
            tuple(sorted(set(self.manifest.problems))),
        )

    def metadata(self) -> tuple[str, str]:
        """Name and namespace."""
        metadata = self.root.section("metadata")
        if metadata is None:
            return "tfjob", ""
        name = metadata.text("name") or metadata.text("generateName").rstrip("-") or "tfjob"
        labels = metadata.section("labels")
        if labels is not None:
            self.queue = labels.text(KUEUE_QUEUE)
            labels.refuse_others("the pods have the labels of the replicas' templates")
        if "annotations" in metadata.data:
            metadata.left("annotations", "the pods have those of the replicas' templates")
        for key in _ABOUT_OBJECTS:
            metadata.take(key, object)
        namespace = metadata.text("namespace")
        metadata.refuse_others()
        return name, namespace

    def replicas(self) -> list[Replica]:
        """The replicas that have instances, in the order of the components."""
        specs = self.spec.section("tfReplicaSpecs")
        if specs is None:
            if not any(problem.severity == ERROR for problem in self.manifest.problems):
                hint = f"a TFJob has some of {', '.join(REPLICAS)} under spec.tfReplicaSpecs"
                self.manifest.say(ERROR, "the TFJob has no tfReplicaSpecs", hint, "spec")
            return []
        types = {one.lower(): one for one in REPLICAS}
        found: dict[str, Replica] = {}
        for key in specs.data:
            type_ = types.get(str(key).lower())
            if type_ is None:
                at = ("spec", "tfReplicaSpecs", key)
                expected = f"expected {', '.join(REPLICAS)}"
                self.manifest.say(ERROR, f"there is no replica type '{key}'", expected, *at)
                continue
            section = specs.section(key)
            component = REPLICAS[type_]
            if section is None:
                if specs.data.get(key) is None:
                    self.manifest.say(ERROR, f"{key} has no spec", "", *specs.path, key)
            elif component in found:
                message = f"'{key}' is a second {component}, and a TFJob has one"
                self.manifest.say(ERROR, message, "remove one of them", *specs.path, key)
            else:
                found[component] = Replica(component, section)
                if type_ == "Master":
                    what = "the task is called chief in TF_CONFIG, and not master"
                    specs.differs(key, what, "a program that asks for 'master' has to be changed")
        chief = found.get("chief")
        if chief is not None and chief.count > 1:
            chief.section.wrong("1", chief.count, "replicas")
        running = [found[c] for c in dict.fromkeys(REPLICAS.values()) if c in found]
        running = [replica for replica in running if replica.count]
        if not running and not any(p.severity == ERROR for p in self.manifest.problems):
            message = "the TFJob has no replicas"
            self.manifest.say(ERROR, message, "nothing would run", "spec", "tfReplicaSpecs")
        return running

    # -- success and failures --
    def success(self, replicas: list[Replica]) -> dict[str, Any]:
        policy = self.spec.word("successPolicy", "", "AllWorkers")
        components = {replica.component for replica in replicas}
        if "chief" in components:
            if policy:
                what = "it has no effect beside a Chief, which decides"
                self.spec.differs("successPolicy", what, "so it is in the training operator")
            return {}
        if "worker" not in components:
            return {}
        return {"components": ["worker"]} if policy else {"instances": ["worker/0"]}

    def failures(self, replicas: list[Replica]) -> None:
        servers = any(replica.component == "ps" for replica in replicas)
        dynamic = self.spec.take("enableDynamicWorker", bool)
        for replica in replicas:
            ends = "FailApplication"
            if dynamic and replica.component == "worker":
                ends = "Ignore"
                what = "TF_CONFIG names all workers, and not only the program's own"
                hint = "`tfapp flex NAME --component worker +1` adds one"
                self.spec.differs("enableDynamicWorker", what, hint)
            if replica.restart == NEVER:
                self.rule(replica, ends, onReasons=list(OF_PROGRAMS))
            else:
                if replica.restart == EXIT_CODE:
                    self.rule(replica, ends, onExitCodes=["1-127"])
                if servers and replica.component == "worker":  # nobody waits for it
                    self.rule(replica, "RestartInstance")
                if replica.restart == ALWAYS and replica.component != "ps":
                    what = "a program that has ended with exit code 0 is not started again"
                    replica.section.differs("restartPolicy", what)
        same = [{k: v for k, v in rule.items() if k != "components"} for rule in self.rules]
        if len(same) == len(replicas) and all(rule == same[0] for rule in same):
            self.rules = same[:1]

    def rule(self, replica: Replica, action: str, **causes: list[str]) -> None:
        self.rules.append({"components": [replica.component], **causes, "action": action})

    def run_policy(self, replicas: list[Replica]) -> None:
        """Its fields, which the first versions of v1 have in spec itself."""
        given = self.spec.section("runPolicy")
        own = [key for key in _RUN_POLICY if key in self.spec.data]
        for policy in filter(None, (given, self.spec if own else None)):
            self.limits(policy)
            self.after_the_end(policy)
            self.scheduling(policy)
            if policy is given:
                policy.refuse_others()
        restarts = any(replica.restart != NEVER for replica in replicas)
        limit = next((p.data["backoffLimit"] for p in (given, self.spec)
                      if p is not None and "backoffLimit" in p.data), None)  # fmt: skip
        if restarts:
            self.policy["maxRestarts"] = NO_LIMIT if limit is None else limit

    def limits(self, policy: Section) -> None:
        policy.number("backoffLimit")
        seconds = policy.number("activeDeadlineSeconds", least=1)
        if seconds is not None:
            self.global_[f"{SITE}application.lifetime"] = seconds
        if policy.take("suspend", bool):
            why = "`tfapp create` starts it at once"
            hint = "its Job can be suspended later; Kueue holds its pods back: docs/kubernetes.md"
            policy.left("suspend", why, hint)
        if "managedBy" in policy.data:
            policy.left("managedBy", "no operator manages the application")

    def after_the_end(self, policy: Section) -> None:
        clean = policy.word("cleanPodPolicy", "", "None", "Running", "All")
        seconds = policy.number("ttlSecondsAfterFinished")
        if clean == "None":
            what = "programs that still run are ended; the pods stay, with their logs"
            policy.differs("cleanPodPolicy", what)
        if clean == "All" or seconds is not None:
            ttl = 1 if clean == "All" else max(seconds or 0, 1)
            self.global_[f"{KUBERNETES}ttl"] = ttl

    def scheduling(self, policy: Section) -> None:
        scheduling = policy.section("schedulingPolicy")
        if scheduling is None:
            return
        priority = scheduling.take("priorityClass", str)
        if priority:
            self.global_[f"{KUBERNETES}priority.class"] = priority
        seconds = scheduling.number("scheduleTimeoutSeconds", least=1)
        if seconds is not None:
            self.global_[f"{SITE}queue.timeout"] = seconds
        if "minAvailable" in scheduling.data:
            why = "no program starts before all instances are there"
            hint = "yarn.component.instances.min lets workers begin with fewer"
            scheduling.left("minAvailable", why, hint)
        if "queue" in scheduling.data:
            hint = "with Kueue, give a local queue with --queue"
            scheduling.left("queue", "it is a queue of Volcano, and PodGroups are not used", hint)
        if "minResources" in scheduling.data:
            scheduling.left("minResources", "PodGroups are not used")
        scheduling.refuse_others()

    # -- documents --
    def app_config(self, replicas: list[Replica]) -> dict[str, Any]:
        """What is equal for all components goes to `global`."""
        of_each = {replica.component: replica.app_config() for replica in replicas}
        shared = {
            key: value
            for key, value in next(iter(of_each.values()), {}).items()
            if all(key in own and own[key] == value for own in of_each.values())
        }
        grace = max((replica.grace for replica in replicas), default=0)
        global_ = {f"{SITE}run.mode": "local", **shared, **self.global_}
        if grace:
            global_[f"{SITE}stop.grace"] = grace
        # The application master's pod, which has an image of theirs, has no template.
        secrets = dict.fromkeys(name for replica in replicas for name in replica.pull_secrets)
        if secrets:
            global_[f"{KUBERNETES}image.pull.secrets"] = ", ".join(secrets)
        components = {
            name: {key: value for key, value in own.items() if key not in shared}
            for name, own in of_each.items()
        }
        return {"global": global_, "components": {n: own for n, own in components.items() if own}}

    def resources(self, replicas: list[Replica]) -> dict[str, Any]:
        components: dict[str, Any] = {"slider-appmaster": {"yarn.memory": 1024}}
        for number, replica in enumerate(replicas, 1):
            own = {"yarn.role.priority": number, "yarn.component.instances": replica.count}
            own.update(replica.resources())
            if replica.restart != NEVER:
                own["yarn.container.failure.threshold"] = 0  # maxRestarts is the limit
            components[replica.component] = own
        return {"components": components}


def safe_name(name: str) -> str:
    """A name that a package's application can have."""
    found = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    return found if found[:1].isalpha() else f"tfjob-{found}".rstrip("-")
