"""The job: the output of the compiler for coordinator and runners; and the private values that only
containers may read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from tfapp.contract.encoding import Coded
from tfapp.contract.names import DATA_ROLES, NODES, trains_alone
from tfapp.contract.status import Ran, RanComponent
from tfapp.frozen import frozen

# ---- How programs run in a Docker image -------------------------------------------------------


@frozen
class Mount:
    """A file or folder of the machine that is mounted in a Docker container. Both paths are
    absolute."""

    source: str  # on the machine
    target: str  # in the container
    read_only: bool = False


@frozen
class Docker(Coded):
    """The Docker container for the programs of a component. Sizes are in bytes; 0 and "" mean the
    default of the engine."""

    image: str
    pull: str  # "never", "missing" or "always"
    pull_timeout: float  # seconds
    mounts: tuple[Mount, ...] = ()
    credential: str = ""  # whose value in Private.env is the registry's "USER:PASSWORD"
    host: str = ""  # the engine's address as DOCKER_HOST says it; "": what the environment says
    shm_size: int = 0
    ipc: str = ""  # "host" or "private"
    ulimits: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    tmpfs: Mapping[str, str] = dataclasses.field(default_factory=dict)  # path -> mount options
    cap_drop: tuple[str, ...] = ()
    cgroup_parent: str = ""


# ---- Failures by their reason, and what is done about them ------------------------------------

# The actions of failure rules.
RESTART_CLUSTER = "RestartCluster"  # all instances get the next generation
RESTART_INSTANCE = "RestartInstance"  # its program starts again at the same address
FAIL_APPLICATION = "FailApplication"
IGNORE = "Ignore"


@frozen
class FailureRule(Coded):
    """An action for failures of `components` (empty: of all) with one of `exit_codes` or `reasons`
    (both empty: all failures). An exit code of 128 + n also matches a program that was killed by
    signal n."""

    action: str
    components: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()


@frozen
class FailurePolicy(Coded):
    """How failures are handled. The first matching rule applies."""

    max_restarts: int  # after failures of programs, in the application's life
    max_losses: int  # restarts after a loss by the infrastructure, counted apart
    # Seconds of generation 1 in which a program that fails is broken and not restarted; 0: none.
    startup: float
    # Whether a program that fails in the same way in two generations in a row is broken.
    repeats_end: bool
    rules: tuple[FailureRule, ...] = ()


# ---- The deadlines of an application ----------------------------------------------------------


@frozen
class Limits:
    """The deadlines of the application, in seconds. 0 disables `lifetime` and `heartbeat_lost`."""

    # All instances have exported. It counts from the generation's beginning, or, where a scheduler
    # holds containers back, from when the last one is granted. Containers that wait for others are
    # given back after it.
    gang: float
    lifetime: float  # of the application
    evaluator: float  # an evaluator goes on so long after success
    stop_grace: float  # between SIGTERM and SIGKILL
    heartbeat: float = 5.0  # a runner's heartbeat interval
    heartbeat_lost: float = 30.0  # silence after which a runner ends its own program
    settle: float = 0.5  # a program's failure waits so long for a loss that caused it
    # What a container has between SIGTERM and SIGKILL, where the engine gives less than stop_grace.
    container_grace: float = 86400.0
    queue: float = 0.0  # a scheduler may hold a generation back for so long; 0: see `queue_limit`
    # Where enough instances of elastic components are ready, containers that do not come have so
    # long; then instances that come later join so long after a cluster has formed.
    elastic_wait: float = 60.0
    elastic_interval: float = 600.0
    # Programs that save before a planned stop have so long; 0: they are not asked.
    save_grace: float = 60.0
    master: float = 300.0  # the coordinator waits so long for the next master


NODES_LIMIT = 1800.0  # seconds for which an application waits for nodes unless it says otherwise


def queue_limit(queue: float, kind: str) -> float:
    """The seconds for which a scheduler may hold an application back: `queue`, or where that is 0,
    for ever (infinity) where a queue or a quota does it, because these have room again. Nodes that
    are large enough may never come."""
    return queue or (NODES_LIMIT if kind == NODES else math.inf)


# ---- The job: what the compiler decided -------------------------------------------------------


@frozen
class Resources(Coded):
    """The resources of one container. `memory` (MiB) and `vcores` may be MAX until the engine has
    replaced it by a number."""

    memory: int  # MiB
    vcores: int
    gpus: int = 0
    label: str = ""  # of the nodes, "" for those without one
    nodes: tuple[str, ...] = ()  # the hosts, and the racks, on which it is to run; () for any
    racks: tuple[str, ...] = ()
    relax_locality: bool = False  # whether it may run elsewhere too


MAX = -1  # as much as the engine gives to one container


@frozen
class Settings:
    """The keys `site.global.*` of one component, without this prefix. Names, types and defaults are
    declared only in the schema of appConfig: the compiler adds the defaults to the values, and
    tests/test_settings.py compares the keys that are read with the schema. A key without value and
    default is "", False or ()."""

    values: Mapping[str, str]

    def text(self, key: str) -> str:
        """The value as written. Run-time placeholders are not replaced."""
        return self.values.get(SITE_GLOBAL + key, "")

    def flag(self, key: str, default: bool = False) -> bool:
        return (self.text(key).lower() or str(default).lower()) == "true"

    def names(self, key: str) -> tuple[str, ...]:
        """The value as names, separated by commas."""
        return tuple(name for word in self.text(key).split(",") if (name := word.strip()))


SITE_GLOBAL = "site.global."


@frozen
class ExportTemplate:
    """One export that a component publishes, e.g. worker/host_port =
    "${worker_HOST}:${site.global.worker.port}"."""

    group: str
    name: str
    value: str


@frozen
class ComponentJob(Coded):
    """One component of a job. Times are in seconds."""

    name: str
    role: str
    instances: int
    min_instances: int
    max_instances: int | None
    container: Resources
    script: str  # path inside PACKAGE_DIR
    script_timeout: float  # limit for the script's start(), stop() and status() calls
    exports: tuple[ExportTemplate, ...]
    # Interpreter of the user's program unless site.global.python.executable; PYTHON, or a path.
    python: str
    # Effective `site.*` keys of the component, full names, compile-time placeholders replaced;
    # run-time placeholders (tfapp.placeholders) still in them. Values are text, as in the file.
    site: Mapping[str, str]
    requires: tuple[str, ...] = ()  # components that must be started before (commandOrders)
    category: str = "MASTER"
    docker: Docker | None = None  # None: programs run as processes of the container
    # More failures than this within the window end the application; 0 or less: any number.
    failure_threshold: int = 0
    failure_window: float = 0.0  # seconds of real time; 0: the application's whole life
    progress_timeout: float = 0.0  # a program that shows none for so long hangs; 0: it may
    elastic_min: int = 0  # a generation forms with so many instances; 0: with all

    @property
    def needed(self) -> int:
        """The fewest instances with which the application trains."""
        return self.elastic_min or self.instances

    @property
    def settings(self) -> Settings:
        """`site.global.*` of the component."""
        return Settings(self.site)


@frozen
class Job(Coded):
    """The whole application, for the coordinator and all runners. It contains no secrets."""

    name: str  # of the application, as in `tfapp create NAME`
    application: str  # metainfo's application.name
    version: str
    user: str
    components: tuple[ComponentJob, ...]
    # Components all of whose instances must exit 0, and instances ("worker/0") that must.
    success: tuple[str, ...]
    limits: Limits
    failure: FailurePolicy
    nodes: str = ""  # the module that tells more of ended containers than their master, or none
    class_path: str = ""  # yarn.application.classpath, for programs on the nodes of YARN
    attempts: int = 1  # masters of the application, one after another, where the engine starts them
    # Component -> its program, where the settings do not name it; "": its script alone knows it.
    called: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()  # as they were given: "KEY=VALUE"
    tfapp: str = ""  # its version
    commit: str = ""  # see `Ran`
    tags: tuple[str, ...] = ()  # the user's
    history_age: float = 0.0  # seconds that a run stays in the history; 0: for ever
    owner: str = ""  # the certificate of who may open sessions, in PEM; "": nobody
    metrics_port: int = 0  # at which the coordinator serves its numbers; 0: it does not
    format: int = 1

    @property
    def ran(self) -> Ran:
        components = tuple(
            _ran(one, self.called.get(one.name)) for one in self.components if one.instances
        )
        options = tuple(map(_shortened, self.options[:MAX_OPTIONS]))
        return Ran(components, options, self.tfapp, self.user, self.commit)

    def decides(self, component: str, instance: str) -> bool:
        """Whether this instance of `component` has to exit with 0."""
        return component in self.success or instance in self.success

    def trains_alone(self, roles: Iterable[str]) -> bool:
        """As `names.trains_alone`, of the instances with these roles. Those of an elastic component
        never do: others may join, or have trained before."""
        return trains_alone(roles) and not any(c.elastic_min for c in self.components)

    def component(self, name: str) -> ComponentJob:
        """The component of this name. KeyError if there is none."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    @property
    def checkpoint_dir(self) -> str:
        """The checkpoint folder of the application, a path or a URL; "" if it has none that
        outlives its containers, or if only containers know it."""
        for component in self.components:
            prefix = component.settings.text("user.checkpoint.prefix")
            if prefix:
                return "" if "${" in prefix else f"{prefix.rstrip('/')}/{self.name}"
        return ""

    @property
    def storage_schemes(self) -> str:
        """site.global.storage.schemes, which all components have."""
        return next((one.settings.text("storage.schemes") for one in self.components), "")


MAX_OPTIONS = 50  # that are told again
MAX_OPTION = 500  # characters of one, and of a program with its arguments


def _ran(component: ComponentJob, called: str | None) -> RanComponent:
    has, docker = component.container, component.docker
    keys = ("user.scripts.entry", "user.scripts.args", "user.scripts.command")
    entry, args, command = map(component.settings.text, keys)
    if component.role in ("tensorboard", *DATA_ROLES) or (called == "" and not command):
        entry = ""  # it runs none, though the setting is everybody's
    called = called or command
    return RanComponent(
        component=component.name,
        program=_shortened(f"{called or entry} {args}".strip() if entry else ""),
        instances=component.instances,
        memory=has.memory,
        vcores=has.vcores,
        gpus=has.gpus,
        python=component.settings.text("python.executable") or component.python,
        image=docker.image if docker else "",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_OPTION else f"{text[: MAX_OPTION - 3]}..."


# ---- What only an application's own containers may read ---------------------------------------


# Characters of the shortest secret that is struck out. A shorter one gives little away, and would
# spoil half of every line.
MIN_SECRET = 4


@frozen
class Private(Coded):
    """Values that must not appear in a specification. `env`: component -> environment of its
    programs; most of it is not secret. `redact`: the secrets, which are struck out of logs and
    reports."""

    env: Mapping[str, Mapping[str, str]]
    redact: tuple[str, ...] = ()
