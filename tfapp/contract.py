"""What crosses into a container: file names, environment names, store keys, JSON shapes.

Standard library only: this module travels with every application. Whatever the compiler writes
and the runner or the coordinator reads, and whatever the coordinator publishes and a client
reads, is declared here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

# ---- files in a container's working directory ------------------------------------------------
RUNTIME_DIR = "tfapp-runtime"  # this package, as far as a container needs it
PACKAGE_DIR = "tfapp-package"  # the app package: metainfo, scripts/
FILES_DIR = "files"  # the user's program: the package's files/ and --files
JOB_FILE = "tfapp-job.json"  # class Job
PRIVATE_FILE = "tfapp-private.json"  # class Private, mode 0600
PYTHON_DIR = "tfapp-python"  # a Python environment that travels along
PYTHON = f"{PYTHON_DIR}/bin/python"  # its interpreter
PEX_FILE = "tfapp-python.pex"  # or a PEX, which the start script unpacks as PYTHON_DIR
PEX_ROOT = "tfapp-pex"  # where to
# In a container's log folder: which instance logs there, as text.
INSTANCE_FILE = "tfapp-instance"

# How a container's log says that neither runner nor coordinator can start in it; the process
# ends with the exit code.
OWN_LINE = "tfapp: "  # begins what is tfapp's own among the lines of a program
CANNOT_START = f"{OWN_LINE}cannot start: "
CANNOT_START_CODE = 78

# ---- environment -------------------------------------------------------------------------------
# "worker/1", given by the coordinator in add_container(env=). The containers that a service
# begins with share one environment without it: see `initial_instance`.
ENV_INSTANCE = "TFAPP_INSTANCE"
ENV_GENERATION = "TFAPP_GENERATION"  # generation at the time of the container's request
ENV_GUARD = "TFAPP_GUARD"  # of a process that clears up after its runner and ends by itself

# ---- keys in Skein's key-value store; {instance} is "worker/1" -----------------------------
CONTROL_PREFIX = "tfapp.control."
KEY_GENERATION = "tfapp.control.generation"  # {"generation": g}
KEY_CLUSTER = "tfapp.control.cluster"  # class Cluster
KEY_RELEASED = "tfapp.control.released"  # {"generation": g, "components": [may start]}
ORDER_PREFIX = "tfapp.order."  # + instance: class Order; only the coordinator writes it
REPORT_PREFIX = "tfapp.report."  # all that runners and clients tell the coordinator
# + instance, value: the container's id. Owned by the container; its end deletes it.
ALIVE_PREFIX = "tfapp.report.alive."
ANSWER_PREFIX = "tfapp.report.answer."  # + instance, owned: class Answer
BEAT_PREFIX = "tfapp.report.beat."  # + instance, owned: class Beat
EXIT_PREFIX = "tfapp.report.exit."  # + instance, unowned: class ExitReport
KEY_STOP = "tfapp.report.stop"  # {"message": text}: a client asks for the end
KEY_FLEX = "tfapp.report.flex"  # class FlexRequest: a client asks for another number of instances
FLEXED_PREFIX = "tfapp.flexed."  # + a request's id: class FlexReply
KEY_STATUS = "tfapp.status"  # class ApplicationStatus, published by the coordinator

MAX_DIAGNOSTICS_JSON = 16 * 1024  # bytes of the last line of the final diagnostics
MAX_LAST_LINES = 8 * 1024  # bytes of a program's last lines in a report

MAX_NAME = 100  # characters of an application's name, which names folders too
NAME_PATTERN = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME - 1}}}\Z")  # of an application (Slider's)
COMPONENT_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")

ROLES = ("chief", "worker", "ps", "evaluator", "tensorboard", "other")
# Programs of these roles never end by themselves: they are stopped when the others are done.
SERVICE_ROLES = ("ps", "tensorboard", "other")


def page_route(instance: str) -> str:
    """Under which name the application's web pages show what an instance exports."""
    return instance.replace("/", "-")


def exported_pages(exports: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The web addresses among the exports of an instance, by group and name."""
    values = [own[name] for _, own in sorted(exports.items()) for name in sorted(own)]
    return [value for value in values if value.startswith(("http://", "https://"))]


def instance_id(component: str, index: int) -> str:
    """ "worker", 1 -> "worker/1"."""
    return f"{component}/{index}"


def parse_instance(text: str) -> tuple[str, int]:
    """ "worker/1" -> ("worker", 1). ValueError for anything else."""
    component, slash, index = text.rpartition("/")
    if not slash or not component or not index.isdigit():
        raise ValueError(f"{text!r} is not an instance such as 'worker/0'")
    return component, int(index)


def initial_container(instance: str) -> str:
    """Skein's id of the container in which an instance begins, "worker/1" -> "worker_1": Skein
    numbers the containers of a service from 0, those it begins with first."""
    return "{}_{}".format(*parse_instance(instance))


def initial_instance(container: str) -> str:
    """The instance that begins in a container, "worker_1" -> "worker/1"."""
    component, _, index = container.rpartition("_")
    return f"{component}/{index}"


def encode(value: Any) -> bytes:
    """A value of this module, or plain JSON data, as compact UTF-8 JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(cls)}
    return {key: value for key, value in data.items() if key in names}


# ---- the job: what the compiler decided ------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class ExportTemplate:
    """One line of an export group that a component feeds, e.g. worker/host_port =
    "${worker_HOST}:${site.global.worker.port}"."""

    group: str
    name: str
    value: str


@dataclasses.dataclass(frozen=True)
class Mount:
    """A file or folder of the machine that a Docker container sees. Both paths are absolute."""

    source: str  # on the machine
    target: str  # in the container
    read_only: bool = False


@dataclasses.dataclass(frozen=True)
class Docker:
    """How the programs of a component run in an image. Sizes are in bytes, 0 and "" leave it to
    the engine."""

    image: str
    mounts: tuple[Mount, ...] = ()
    pull: str = "missing"  # "never", "missing" or "always"
    pull_timeout: float = 600.0  # seconds
    credential: str = ""  # whose value in Private.env is the registry's "USER:PASSWORD"
    host: str = ""  # the engine's address as DOCKER_HOST says it; "": what the environment says
    shm_size: int = 0
    ipc: str = ""  # "host" or "private"
    ulimits: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    tmpfs: Mapping[str, str] = dataclasses.field(default_factory=dict)  # path -> mount options
    cap_drop: tuple[str, ...] = ()
    cgroup_parent: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Docker:
        values = _known(cls, data)
        values["mounts"] = tuple(Mount(**_known(Mount, mount)) for mount in data["mounts"])
        values["cap_drop"] = tuple(data.get("cap_drop", ()))
        limits = data.get("ulimits", {})
        values["ulimits"] = {name: (soft, hard) for name, (soft, hard) in limits.items()}
        return cls(**values)


# What is done about a failure.
RESTART_CLUSTER = "RestartCluster"  # all instances get the next generation
RESTART_INSTANCE = "RestartInstance"  # its program starts again at the same address
FAIL_APPLICATION = "FailApplication"
IGNORE = "Ignore"
ACTIONS = (RESTART_CLUSTER, RESTART_INSTANCE, FAIL_APPLICATION, IGNORE)

# What a program or its container can end by (`Exit.reason`), as far as a rule can ask for it.
PROGRAM_REASONS = ("exit", "signal", "memory", "hang", "script", "start", "timeout")
LOSS_REASONS = ("lost", "silent", "preempted", "node-lost")  # of the container
# Losses that have a budget of their own: no program can bring them about.
INFRASTRUCTURE_REASONS = ("silent", "preempted", "node-lost")
REASONS = (*PROGRAM_REASONS, *LOSS_REASONS)


@dataclasses.dataclass(frozen=True)
class FailureRule:
    """What is done about failures of `components` (none named: of all) that ended with one of
    `exit_codes` or for one of `reasons` (neither named: however they ended). 128 + n among the
    exit codes is a program killed by signal n too."""

    action: str
    components: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailureRule:
        values = _known(cls, data)
        for name in ("components", "exit_codes", "reasons"):
            values[name] = tuple(data.get(name, ()))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class FailurePolicy:
    """What failures are survived. The first rule that matches a failure counts."""

    max_restarts: int = 3  # after failures of programs, in the application's life
    max_losses: int = 10  # restarts after a loss by the infrastructure, counted apart
    # Seconds of generation 1 in which a program that fails is broken and not restarted; 0: none.
    startup: float = 10.0
    rules: tuple[FailureRule, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailurePolicy:
        values = _known(cls, data)
        values["rules"] = tuple(map(FailureRule.from_dict, data.get("rules", ())))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class ComponentJob:
    """One component, ready to run. Times are in seconds, memory in MiB."""

    name: str
    role: str
    instances: int
    min_instances: int
    max_instances: int | None
    memory: int
    vcores: int
    gpus: int
    script: str  # path inside PACKAGE_DIR
    script_timeout: float  # limit for the script's start(), stop() and status() calls
    exports: tuple[ExportTemplate, ...]
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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ComponentJob:
        values = _known(cls, data)
        if data.get("docker") is not None:
            values["docker"] = Docker.from_dict(data["docker"])
        values["exports"] = tuple(ExportTemplate(**export) for export in data["exports"])
        values["requires"] = tuple(data.get("requires", ()))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Deadlines of the application, in seconds. 0 switches off `lifetime` and `heartbeat_lost`."""

    gang: float = 600.0  # all instances have exported, counted from the generation's beginning
    lifetime: float = 0.0  # of the application
    evaluator: float = 600.0  # an evaluator goes on so long after success
    stop_grace: float = 30.0  # between SIGTERM and SIGKILL
    heartbeat: float = 5.0  # a runner's heartbeat interval
    heartbeat_lost: float = 30.0  # silence after which a runner ends its own program
    settle: float = 0.5  # a program's failure waits so long for a loss that caused it


@dataclasses.dataclass(frozen=True)
class Job:
    """The whole application for the coordinator and every runner. No secrets in it."""

    name: str  # of the application, as in `tfapp create NAME`
    application: str  # metainfo's application.name
    version: str
    user: str
    # Interpreter of the user's program unless site.global.python.executable; PYTHON, or a path.
    python: str
    components: tuple[ComponentJob, ...]
    success: tuple[str, ...]  # components all of whose instances must exit 0
    limits: Limits = Limits()
    failure: FailurePolicy = FailurePolicy()
    format: int = 1

    def component(self, name: str) -> ComponentJob:
        """KeyError when there is none of this name."""
        for component in self.components:
            if component.name == name:
                return component
        raise KeyError(name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        values = _known(cls, data)
        values["components"] = tuple(ComponentJob.from_dict(c) for c in data["components"])
        values["success"] = tuple(data["success"])
        values["limits"] = Limits(**_known(Limits, data["limits"]))
        values["failure"] = FailurePolicy.from_dict(data.get("failure", {}))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Private:
    """What must not be seen in a spec: environment of the user's programs, by component, and
    the values to strike out of every report."""

    env: Mapping[str, Mapping[str, str]]
    redact: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Private:
        return cls(env=data["env"], redact=tuple(data.get("redact", ())))


# ---- rendezvous ----------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Answer:
    """A runner's word that no program of an older generation lives here, with its exports."""

    generation: int
    instance: str
    host: str  # advertised
    container: str  # SKEIN_CONTAINER_ID
    exports: Mapping[str, Mapping[str, str]]  # group -> name -> value
    ports: Mapping[str, int] = dataclasses.field(default_factory=dict)  # site key -> held port
    pid: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        return cls(**_known(cls, data))


@dataclasses.dataclass(frozen=True)
class Member:
    """One instance of a formed cluster."""

    instance: str
    component: str
    index: int
    role: str
    host: str
    exports: Mapping[str, Mapping[str, str]]
    container: str = ""  # a runner in another one is not this member


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The cluster spec of one generation: all members, in job order then by index.
    Components in `held` start only when KEY_RELEASED names them (commandOrders)."""

    generation: int
    members: tuple[Member, ...]
    held: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cluster:
        return cls(
            generation=data["generation"],
            members=tuple(Member(**_known(Member, member)) for member in data["members"]),
            held=tuple(data.get("held", ())),
        )


@dataclasses.dataclass(frozen=True)
class Beat:
    """A runner's heartbeat. `state` is "waiting", "running" or "stopping"; the first beat in a
    new state is sent at once."""

    generation: int
    sequence: int
    state: str
    docker: str = ""  # id of the Docker container that the program runs in
    container: str = ""  # SKEIN_CONTAINER_ID
    host: str = ""  # advertised

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Beat:
        return cls(**_known(cls, data))


@dataclasses.dataclass(frozen=True)
class Exit:
    """How a program ended. `code` is the exit code or None, `signal` its number or None.
    `reason` is one of "exit", "signal", "memory", "hang" (it stood still), "script" (the
    package's script failed), "start" (the program could not be started), "timeout" (the script
    did not start it in time), "lost" (its container is gone), "silent" (its runner is),
    "preempted", "node-lost", "deadline", "stopped"."""

    code: int | None
    signal: int | None
    reason: str
    text: str  # one sentence for a person: "exit code 3", "killed by SIGKILL (9)"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exit:
        return cls(**_known(cls, data))


@dataclasses.dataclass(frozen=True)
class ExitReport:
    """A runner's report that its program is dead (the whole process tree)."""

    generation: int
    instance: str
    container: str
    host: str
    exit: Exit
    stopped: bool  # it ended because it was ordered to
    last_lines: str  # redacted, at most MAX_LAST_LINES
    seconds: float  # how long the program ran
    attempt: int = 0  # how often it was restarted before, in this generation and container

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExitReport:
        values = _known(cls, data)
        values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Order:
    """The coordinator's word to one runner. `action`: "stop" (end the program: SIGTERM, `grace`
    seconds, SIGKILL; then report), "exit" (the report was taken: the runner may go), "restart"
    (the report was taken: start the program again, as attempt number `attempt`, with the same
    ports and cluster). A runner that has reported waits for one of these, or a new generation."""

    generation: int
    action: str
    grace: float = 0.0
    attempt: int = 0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Order:
        return cls(**_known(cls, data))


# ---- flex --------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class FlexRequest:
    """`count` is "3" for so many instances, "+1" or "-1" for so many more or fewer."""

    id: str
    component: str
    count: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlexRequest:
        return cls(**_known(cls, data))


@dataclasses.dataclass(frozen=True)
class FlexReply:
    """Whether the coordinator does what a request asked for, in one sentence."""

    accepted: bool
    text: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlexReply:
        return cls(**_known(cls, data))


# ---- status --------------------------------------------------------------------------------------
# Instance states, in the order a healthy one goes through them.
REQUESTED, WAITING, RUNNING, STOPPING = "REQUESTED", "WAITING", "RUNNING", "STOPPING"
SUCCEEDED, FAILED, KILLED, LOST = "SUCCEEDED", "FAILED", "KILLED", "LOST"
# Application states: ACCEPTED (no coordinator yet), FORMING, RUNNING, STOPPING, then a verdict.
ACCEPTED, FORMING = "ACCEPTED", "FORMING"
FINAL_STATES = (SUCCEEDED, FAILED, KILLED)


@dataclasses.dataclass(frozen=True)
class InstanceStatus:
    """What is known of one instance."""

    instance: str
    component: str
    role: str
    state: str
    container: str = ""
    host: str = ""
    exports: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    exit: Exit | None = None
    docker: str = ""  # id of the Docker container that the program runs, or ran, in

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InstanceStatus:
        values = _known(cls, data)
        if data.get("exit") is not None:
            values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Cause:
    """What decided a verdict that is not SUCCEEDED."""

    instance: str  # "" when it was no instance (a deadline, a stop request)
    generation: int
    host: str
    container: str
    exit: Exit
    last_lines: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cause:
        values = _known(cls, data)
        values["exit"] = Exit.from_dict(data["exit"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How the application ended, and why. `exit_code` is that of `tfapp create`."""

    state: str  # one of FINAL_STATES
    exit_code: int  # tfapp.errors.ExitCode
    summary: str  # one or two sentences
    cause: Cause | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        values = _known(cls, data)
        if data.get("cause") is not None:
            values["cause"] = Cause.from_dict(data["cause"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Moment:
    """One line of an application's history. `time`: seconds since 1970."""

    time: float
    text: str


@dataclasses.dataclass(frozen=True)
class ApplicationStatus:
    """The state of an application as its coordinator publishes it. Times: seconds since 1970."""

    name: str
    state: str
    generation: int
    started: float
    updated: float
    instances: tuple[InstanceStatus, ...]
    verdict: Verdict | None = None
    restarts: int = 0  # after failures of programs
    losses: int = 0  # restarts after losses by the infrastructure
    timeline: tuple[Moment, ...] = ()  # the newest last

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApplicationStatus:
        values = _known(cls, data)
        values["timeline"] = tuple(Moment(**_known(Moment, m)) for m in data.get("timeline", ()))
        values["instances"] = tuple(InstanceStatus.from_dict(i) for i in data["instances"])
        if data.get("verdict") is not None:
            values["verdict"] = Verdict.from_dict(data["verdict"])
        return cls(**values)


def format_diagnostics(status: ApplicationStatus) -> str:
    """The final diagnostics of an application: its verdict in sentences, then one last line of
    compact JSON (`ApplicationStatus`), at most MAX_DIAGNOSTICS_JSON bytes: the timeline's older
    half, and instances' details, are dropped before the verdict is."""
    verdict = status.verdict
    assert verdict is not None, "only a finished application has diagnostics"
    line = encode(status)
    while len(line) > MAX_DIAGNOSTICS_JSON and status.timeline:
        newer = status.timeline[(len(status.timeline) + 1) // 2 :]
        status = dataclasses.replace(status, timeline=newer)
        line = encode(status)
    if len(line) > MAX_DIAGNOSTICS_JSON:
        slim = tuple(dataclasses.replace(i, exports={}) for i in status.instances)
        line = encode(dataclasses.replace(status, instances=slim))
    if len(line) > MAX_DIAGNOSTICS_JSON:
        line = encode(dataclasses.replace(status, instances=()))
    return f"{verdict.summary}\n{line.decode()}"


def parse_diagnostics(text: str) -> ApplicationStatus | None:
    """What `format_diagnostics` wrote, or None when `text` does not end in it."""
    last = text.rstrip("\n").rpartition("\n")[2]
    if not last.startswith("{"):
        return None
    try:
        return ApplicationStatus.from_dict(json.loads(last))
    except (ValueError, KeyError, TypeError):
        return None
