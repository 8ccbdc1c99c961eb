"""Names that containers and clients share: states, roles, store keys, files and variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# ---- How an application may be called ---------------------------------------------------------

MAX_NAME = 100  # characters of an application's name, which names folders too
NAME_PATTERN = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME - 1}}}\Z")  # of an application (Slider's)


# ---- What a component is in its application ---------------------------------------------------

CLUSTER_ROLES = ("chief", "worker", "ps")  # of those that train together
DATA_ROLES = ("dispatcher", "dataworker")  # of tf.data service
ROLES = (*CLUSTER_ROLES, "evaluator", "tensorboard", *DATA_ROLES, "other")
# Programs of these roles never end by themselves: they are stopped when the others are done.
SERVICE_ROLES = ("ps", "tensorboard", *DATA_ROLES, "other")
_UNTRAINED_ROLES = ("ps", "evaluator", "tensorboard", *DATA_ROLES)


def trains_alone(roles: Iterable[str]) -> bool:
    """Whether at most one of the instances with these roles trains, so that it may go on from
    checkpoints that no other instance sees."""
    return sum(role not in _UNTRAINED_ROLES for role in roles) < 2


# ---- The states of instances and applications -------------------------------------------------

# Instance states, in the order a healthy one goes through them.
REQUESTED, WAITING, RUNNING, STOPPING = "REQUESTED", "WAITING", "RUNNING", "STOPPING"
SUCCEEDED, FAILED, KILLED, LOST = "SUCCEEDED", "FAILED", "KILLED", "LOST"
STOPPED = "STOPPED"  # ended because the application had succeeded, as every ps is
# Application states: ACCEPTED (no coordinator yet), FORMING, RUNNING, STOPPING, then a verdict.
# SUSPENDED: its engine has ended everything, and the same run goes on later from its checkpoint.
ACCEPTED, FORMING, SUSPENDED = "ACCEPTED", "FORMING", "SUSPENDED"
FINAL_STATES = (SUCCEEDED, FAILED, KILLED)


# ---- What a container that was requested waits for ----------------------------------------------

# A scheduler holds it back: a queue, a quota, or a lack of nodes (machines, slots of Spark).
QUEUE, QUOTA, NODES = "queue", "quota", "nodes"
# It was granted: it has its place, and is on its way there.
GRANTED = "granted"


# ---- How an instance is called, and the container in which it begins --------------------------


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
    """Skein's id of the first container of an instance: "worker/1" -> "worker_1". Skein numbers the
    containers of a service from 0, beginning with those of the specification."""
    return "{}_{}".format(*parse_instance(instance))


def initial_instance(container: str) -> str:
    """The instance of an initial container: "worker_1" -> "worker/1"."""
    component, _, index = container.rpartition("_")
    return f"{component}/{index}"


def attempt_of(container: str) -> int:
    """The attempt of the application, from 1, that a container of YARN belongs to: 2 for
    "container_e17_1700000000000_0007_02_000001". 1 for any other container."""
    found = _YARN_CONTAINER.search(container)
    return int(found[1]) if found else 1


_YARN_CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_(\d+)_\d+\Z")


# ---- The keys in Skein's key-value store; {instance} is "worker/1" ----------------------------

CONTROL_PREFIX = "tfapp.control."
KEY_GENERATION = "tfapp.control.generation"  # {"generation": g, "attempt": of the master}
KEY_CLUSTER = "tfapp.control.cluster"  # class Cluster
KEY_RELEASED = "tfapp.control.released"  # {"generation": g, "components": [may start]}
KEY_KEPT = "tfapp.control.kept"  # false: what the master knows is lost with its pod
KEY_STACKS = "tfapp.control.stacks"  # class StacksRequest, of the coordinator or a client
KEY_PROFILE = "tfapp.control.profile"  # class ProfileRequest, of a client
KEY_SAVE = "tfapp.control.save"  # class SaveRequest, of the coordinator
KEY_SESSION = "tfapp.control.session"  # class SessionRequest, of the coordinator
ORDER_PREFIX = "tfapp.order."  # + instance: class Order; only the coordinator writes it
REPORT_PREFIX = "tfapp.report."  # all that runners and clients tell the coordinator
# + instance, value: the container's id. Owned by the container; its end deletes it.
ALIVE_PREFIX = "tfapp.report.alive."
ANSWER_PREFIX = "tfapp.report.answer."  # + instance, owned: class Answer
BEAT_PREFIX = "tfapp.report.beat."  # + instance, owned: class Beat
EXIT_PREFIX = "tfapp.report.exit."  # + instance, unowned: class ExitReport
# + instance, owned, by the master: {"container": id, "text": "waiting for 2 GPUs", "kind": NODES};
# the text is "" when it waits for nothing any more.
WAITS_PREFIX = "tfapp.report.waits."
STACKS_PREFIX = "tfapp.report.stacks."  # + instance, owned: class InstanceStacks
SAVED_PREFIX = "tfapp.report.saved."  # + instance, owned: class InstanceSave
KEY_STOP = "tfapp.report.stop"  # {"message": text}: a client asks for the end
# [seconds since 1970, whether to let programs save]: the master is about to leave; with true, once
# they have saved, as the application is suspended.
KEY_LEAVES = "tfapp.report.leaves"
KEY_FLEX = "tfapp.report.flex"  # class FlexRequest: a client asks for another number of instances
KEY_EXEC = "tfapp.report.exec"  # class SessionRequest: a client asks for a session
KEY_FEED = "tfapp.report.feed"  # class FeedStatus, told by the driver that feeds the programs
# Seconds since 1970, by a master that goes on with the containers of one that was lost: since when.
# Its name comes before that of KEY_LEAVES: one that is back, and leaves, is read in that order.
KEY_BACK = "tfapp.report.back"
FLEXED_PREFIX = "tfapp.flexed."  # + a request's id: class FlexReply
PROFILED_PREFIX = "tfapp.profiled."  # + instance, owned: class InstanceProfile
OFFER_PREFIX = "tfapp.offer."  # + instance, owned: class SessionOffer
KEY_STATUS = "tfapp.status"  # class ApplicationStatus, published by the coordinator
# Why the master before this one was lost, or nothing; that one's status is KEY_STATUS.
KEY_LOST = "tfapp.lost"

KEY_SAVED = "tfapp.saved"  # empty, by the coordinator: the application may be suspended now

KEY_TAKEOVER = "tfapp.takeover"  # what another coordinator needs to go on: class Handover
KEY_FOLLOWED = "tfapp.followed"  # empty: a coordinator has begun what follows the verdict


# ---- What a container finds in its working directory and in its environment -------------------

RUNTIME_DIR = "tfapp-runtime"  # this package, as far as a container needs it
PACKAGE_DIR = "tfapp-package"  # the app package: metainfo, scripts/
FILES_DIR = "files"  # the user's program: the package's files/ and --files
JOB_FILE = "tfapp-job.json"  # class Job
PRIVATE_FILE = "tfapp-private.json"  # class Private, mode 0600
MASTER_KEY_FILE = ".skein.pem"  # acts as the application; the runner deletes it
PYTHON_DIR = "tfapp-python"  # a Python environment that travels along
PYTHON = f"{PYTHON_DIR}/bin/python"  # its interpreter
PEX_FILE = "tfapp-python.pex"  # or a PEX, which the start script unpacks as PYTHON_DIR
PEX_ROOT = "tfapp-pex"  # where to
STORAGE_DIR = "tfapp-storage"  # the packages by which programs open URLs
# The schemes of URLs that they open, for TensorFlow too.
HDFS_SCHEMES = ("hdfs", "viewfs")
S3_SCHEMES = ("s3", "s3a", "s3n")
AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
OPENED_SCHEMES = (*HDFS_SCHEMES, *S3_SCHEMES, *AZURE_SCHEMES)


def opened_schemes(others: str) -> tuple[str, ...]:
    """OPENED_SCHEMES and `others`, separated by commas: site.global.storage.schemes."""
    return (*OPENED_SCHEMES, *(name for word in others.split(",") if (name := word.strip())))


# In a container's log folder: which instance logs there, as text.
INSTANCE_FILE = "tfapp-instance"
# And what its function returned: see `tfapp.program.returned`.
RETURNED_FILE = "tfapp-returned.json"
# How a container without a disk that lasts says it in its log, as one line.
RETURNED_LINE = "tfapp: returned "

OUTPUTS = ".outputs"  # ends the path of the folder with the outputs of an application's runs


def outputs_of(application: str) -> str:
    """What follows the path of the checkpoint folder in that of the folder with the outputs of a
    run: one folder for each instance, "worker_0". `application`: the run's id."""
    return f"{OUTPUTS}/{application}"


# The first line in the log of a container that its master's file server has set up.
LOG_BEGINS = "tfapp: the log begins"

# "worker/1", given by the coordinator in add_container(env=). The containers that a service
# begins with share one environment without it: see `initial_instance`.
ENV_INSTANCE = "TFAPP_INSTANCE"
ENV_MASTER_TIMEOUT = "TFAPP_MASTER_TIMEOUT"  # seconds that a coordinator waits for the next master
# Seconds that a container lives without its master, and where the witness is: host:port, or the
# name of an object of Kubernetes. See tfapp.standalone.bootstrap.
ENV_WITNESS = "TFAPP_WITNESS"
ENV_GENERATION = "TFAPP_GENERATION"  # generation at the time of the container's request
# As the engine calls the machine of a container, where it can keep others off it; and the machines,
# separated by commas, which the coordinator asks it to avoid in add_container(env=).
ENV_NODE = "TFAPP_NODE"
ENV_AVOID = "TFAPP_AVOID_NODES"
# Set where a container has its cgroup for itself, and no other container is in it: the words on its
# limit of memory, for a program that is killed by it.
ENV_OWN_CGROUP = "TFAPP_OWN_CGROUP"
# Of a coordinator: its master starts another one when it is killed, and this is its number, from 0.
ENV_COORDINATOR = "TFAPP_COORDINATOR"
ENV_IMAGE_DIR = "TFAPP_IMAGE_DIR"  # in a pod: the image's own working folder
# The folder of these packages, for a program and each Python that it starts: see
# tfapp.storage.startup.
ENV_STORAGE = "TFAPP_STORAGE_PACKAGES"
ENV_STORAGE_SCHEMES = "TFAPP_STORAGE_SCHEMES"  # those of site.global.storage.schemes
ENV_SESSION = "TFAPP_SESSION"  # of what a session runs: its id
ENV_GUARD = "TFAPP_GUARD"  # of a process that clears up after its runner and ends by itself

# Variables that name this machine's folders, programs and sockets: whatever runs on it needs them,
# and in an image they mean nothing.
OF_MACHINE = {
    *("PATH", "HOME", "SHELL", "TMPDIR", "LD_LIBRARY_PATH", "JAVA_HOME", "HADOOP_CONF_DIR"),
    *("HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME", "HADOOP_YARN_HOME", "HADOOP_MAPRED_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_RUNTIME_DIR"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
}
IMAGE_PYTHON = "python3"  # where nothing names another: in an image there may be no other


# ---- What tfapp says of itself in a container's log, and how much of a program's log it quotes

OWN_LINE = "tfapp: "  # begins what is tfapp's own among the lines of a program
# The words in a container's log when neither runner nor coordinator can start in it; the process
# ends with the exit code.
CANNOT_START = f"{OWN_LINE}cannot start: "
CANNOT_START_CODE = 78

MAX_LAST_LINES = 8 * 1024  # bytes of a program's last lines in a report
MAX_MISSED = 255  # bytes of `Exit.missed` there; a longer path is left out


# ---- An application's web pages, and what they show of its instances' exports -----------------

PAGE_ROUTE = "application"  # under which name they show the application itself
METRICS_PATH = "/metrics"  # of the numbers for Prometheus, at site.global.metrics.port


def page_route(instance: str) -> str:
    """The route on the application's web pages under which the exports of an instance are shown."""
    return instance.replace("/", "-")


def exported_pages(exports: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The web addresses among the exports of an instance, ordered by group and name."""
    values = [own[name] for _, own in sorted(exports.items()) for name in sorted(own)]
    return [value for value in values if value.startswith(("http://", "https://"))]
