"""The SparkContext of this process: finds it, opens it, and reads its limits. On the side of the
driver only this module and the agent use pyspark."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tfapp import threads
from tfapp.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext

MASTER, SETTINGS = "master", "settings"  # in a definition: how a command opens the session
INSTALL = "pip install 'tfapp[spark]'"
MASTER_KEY = "site.global.spark.master"
SETTINGS_KEY = "site.global.spark.conf"
OVERHEAD = "spark.executor.memoryOverhead"
PYTHON_MEMORY = "spark.executor.pyspark.memory"
OWN_JOBS = "tfapp-"  # what the names of tfapp's own job groups begin with
ANSWER_LIMIT = 5.0  # seconds
_MOST_TASKS = 100  # attempts at a task that are looked at
# "Job aborted due to stage failure: ... most recent failure: Lost task 0.3 in stage 0.0 (TID 3)
# (198.51.100.7 executor 1): java.io.IOException: ..."
_BEFORE_REASON = re.compile(r".*most recent failure: .*?\(TID \d+\) \([^)]*\): ")
_TRACEBACK = "Traceback (most recent call last):"
_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
WAY_OUT = (
    "Start the driver's session with a master that has executors: spark://HOST:PORT, yarn, "
    "local-cluster[2,1,1024]. For this machine alone there is the engine local."
)


class Conf(Protocol):
    """A SparkConf, or a dictionary with the same content."""

    def get(self, key: str, /) -> str | None:
        """The value of a property; None if it is not set."""


def require_pyspark() -> None:
    """UnavailableError if pyspark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise UnavailableError("the engine spark needs pyspark", f"Install it: {INSTALL}.")


def context_of(session: Any) -> SparkContext:
    """The SparkContext of a SparkSession, or a SparkContext itself. UsageError for any other value,
    for Spark Connect, and for Spark in local mode."""
    require_pyspark()
    from pyspark import SparkContext

    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "spark= is a session of Spark Connect",
            "Its driver is elsewhere, and runs no jobs for this process. Start a classic "
            "SparkSession in this process: SparkSession.builder.master(...).getOrCreate().",
        )
    context = getattr(session, "sparkContext", session)
    if not isinstance(context, SparkContext):
        raise UsageError(
            f"spark= is a {type(session).__name__}", "It is a SparkSession or a SparkContext."
        )
    return checked(context)


def active_context() -> SparkContext | None:
    """The SparkContext of this process, if there is one. UsageError for one in local mode."""
    loaded = sys.modules.get("pyspark")  # nobody can have made one without it
    context = loaded.SparkContext._active_spark_context if loaded is not None else None
    return checked(context) if context is not None and running(context) else None


def checked(context: SparkContext) -> SparkContext:
    """The context. UsageError for local mode, UnavailableError for a context that was stopped."""
    if not running(context):
        raise UnavailableError("the SparkContext was stopped", "Start another session.")
    _refuse_local(str(context.master))
    return context


def _refuse_local(master: str) -> None:
    if master == "local" or master.startswith("local["):
        raise UsageError(
            f"Spark runs in local mode ({master}): its tasks are threads of the driver",
            WAY_OUT,
        )


def _check_answers(master: str) -> None:
    """UnavailableError if no address in spark://HOST:PORT,HOST:PORT accepts connections. Spark
    itself would retry for a minute."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master[len("spark://") :].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_LIMIT).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise UnavailableError(
        f"no Spark master answers: {'; '.join(reasons)}",
        f"Look at the address, {MASTER_KEY}, and whether it runs.",
    )


def open_context(name: str, master: str, settings: Iterable[str]) -> SparkContext:
    """Opens a SparkContext for the application `name`. `settings`: such as
    "spark.executor.memory=2g". A handler of Ctrl-C that is not Python's own stays, as that of a
    command that follows other applications. UnavailableError if that fails."""
    require_pyspark()
    _refuse_local(master)
    _check_answers(master)
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster(master).setAppName(name)
    for setting in settings:
        key, _, value = setting.partition("=")
        conf.set(key.strip(), value.strip())
    conf.setIfMissing("spark.ui.showConsoleProgress", "false")
    conf.setIfMissing("spark.log.level", "ERROR")
    before = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf)
    except Exception as error:  # Java's, of which there are many kinds
        text = str(error).strip().splitlines()[0]
        raise UnavailableError(f"Spark at {master} cannot be used: {text}") from error
    finally:
        if before is not signal.default_int_handler and _in_main_thread():
            signal.signal(signal.SIGINT, before)
    return checked(context)


def running(context: SparkContext) -> bool:
    """Whether the context has not been stopped."""
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except Exception:  # its JVM has ended
        return False


def spare_own_jobs(context: SparkContext) -> None:
    """Replaces pyspark's handler of Ctrl-C, which cancels all jobs, by one that spares those of
    tfapp: containers and feeds are jobs too. The handler stays if it is another one, as in later
    cells of a notebook, or in a thread other than the main one, which can install none."""
    _spare_connections()
    before = signal.getsignal(signal.SIGINT)
    if not _in_main_thread():
        return
    if not str(getattr(before, "__module__", "")).startswith("pyspark."):
        return

    def handle(number: int, frame: FrameType | None) -> None:
        # This thread may be in the middle of a call to Java; another one has its own connection.
        with contextlib.suppress(OSError):  # no thread can be started now
            threads.start("tfapp-ctrl-c", _cancel_others, context).join(ANSWER_LIMIT)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _spare_connections() -> None:
    """Makes py4j close the connection of the interrupted thread alone. After a Ctrl-C in the middle
    of a call to Java, py4j 0.10.9.9 closes the connections of all threads, and calls again what
    they were calling: each container's job would run a second time."""
    py4j = sys.modules.get("py4j.clientserver")  # pyspark has loaded it

    def shutdown_socket(self: Any, remote_port: int, local_port: int) -> None:
        if self is self.java_client.get_thread_connection():
            self.close(reset=True)

    connection: Any = getattr(py4j, "ClientServerConnection", None)
    if hasattr(connection, "shutdown_socket"):
        connection.shutdown_socket = shutdown_socket


def _cancel_others(context: SparkContext) -> None:
    """Cancels all jobs of the context that are not tfapp's."""
    with contextlib.suppress(Exception):  # the context is stopped at this moment
        spark = context._jsc.sc()
        for job in context.statusTracker().getActiveJobsIds():
            group = spark.statusStore().job(job).jobGroup()
            if not (group.isDefined() and group.get().startswith(OWN_JOBS)):
                spark.cancelJob(job)


def driver_host(context: SparkContext) -> str:
    """The address of this machine for executors."""
    return context.getConf().get("spark.driver.host") or "127.0.0.1"


def slots(context: SparkContext) -> tuple[int, int]:
    """The number of tasks that the executors can run at a time, and the number of free slots."""
    found = context._jsc.sc().statusStore().executorList(True).iterator()
    total = used = 0
    while found.hasNext():
        executor = found.next()
        if executor.id() != "driver":
            total += executor.maxTasks()
            used += executor.activeTasks()
    return total, max(total - used, 0)


def end_of(context: SparkContext, group: str, attempt: int) -> str:
    """Spark's words about the end of an attempt at a task of a job group, "" while it knows of
    none."""
    store, tracker = context._jsc.sc().statusStore(), context.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds:
            tasks = store.taskList(stage, 0, _MOST_TASKS).iterator()
            while tasks.hasNext():
                task = tasks.next()
                if task.attempt() == attempt and task.errorMessage().isDefined():
                    lines = task.errorMessage().get().strip().splitlines()
                    return lines[0].rpartition(" Reason: ")[2][:500] if lines else ""
    return ""


def most_cores(context: SparkContext) -> int | None:
    """The maximal number of cores for tasks; None if it can change or is unknown."""
    if allocates(context):
        return None
    conf = context.getConf()
    cores = conf.get("spark.cores.max")
    if cores:
        return int(cores)
    if context.master == "yarn":
        executors = int(conf.get("spark.executor.instances") or "2")
        # What is left of an executor is nobody's.
        used = executor_cores(context) // cores_of_task(context) * cores_of_task(context)
        return executors * used
    return None


def allocates(context: SparkContext) -> bool:
    conf = context.getConf()
    return (conf.get("spark.dynamicAllocation.enabled") or "false").lower() == "true"


def cores_of_task(context: SparkContext) -> int:
    """The cores of a task without a resource profile."""
    return int(context.getConf().get("spark.task.cpus") or "1")


def python_memory(context: SparkContext) -> int | None:
    """The address space limit for the Python processes of a task, in MiB; None if Spark does not
    limit it."""
    given = context.getConf().get(PYTHON_MEMORY)
    return mebibytes(given) // executor_cores(context) if given else None


def unprotected(conf: Conf) -> tuple[str, str] | None:
    """A message and a hint if others on the network can read what is sent to executors, or can
    impersonate them; None if they cannot."""

    def on(key: str) -> bool:
        return (conf.get(key) or "").strip().lower() == "true"

    # spark.ssl.enabled does not count here: the connections of driver and executors have a setting
    # of their own. Encryption without authentication keeps nobody out:
    # https://spark.apache.org/docs/latest/security.html
    ways = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    encrypted = any(map(on, (*ways, "spark.authenticate.enableSaslEncryption")))
    off = [] if on("spark.authenticate") else ["spark.authenticate"]
    off += [] if encrypted else [ways[0]]
    if not off:
        return None
    keys, verb = " and ".join(off), "is" if len(off) == 1 else "are"
    return f"Spark's connections are not protected: {keys} {verb} off", (
        "The application's credentials travel in Spark's tasks. Set "
        f"{' and '.join(f'{key}=true' for key in off)} before the session begins "
        f"(spark-defaults.conf, {SETTINGS_KEY}), unless nobody else is on the network."
    )


def overhead_memory(context: SparkContext) -> int | None:
    """The memory of an executor outside of its JVM's heap, which programs use, in MiB. None if no
    cluster manager limits it."""
    conf, master = context.getConf(), str(context.master)
    if master != "yarn" and not master.startswith("k8s://"):
        return None
    python = mebibytes(conf.get(PYTHON_MEMORY) or "0m")
    given = conf.get(OVERHEAD)
    if given:
        return mebibytes(given) + python
    factor = conf.get("spark.executor.memoryOverheadFactor")
    if not factor and master != "yarn":
        factor = conf.get("spark.kubernetes.memoryOverheadFactor")
    least = mebibytes(conf.get("spark.executor.minMemoryOverhead") or "384m")
    heap = mebibytes(conf.get("spark.executor.memory") or "1g")
    return max(int(heap * float(factor or "0.1")), least) + python


def executor_cores(context: SparkContext) -> int:
    """The cores of an executor; if not configured, the default of YARN and Kubernetes."""
    return int(context.getConf().get("spark.executor.cores") or "1")


def mebibytes(text: str) -> int:
    """Parses an amount of memory in Spark's notation: "2g", "512m", "1536" (MiB)."""
    number, unit = text.strip().lower().removesuffix("b"), "m"
    if number[-1] in _BYTES:
        number, unit = number[:-1], number[-1]
    return int(number) * _BYTES[unit] >> 20


def profile(context: SparkContext, vcores: int, gpus: int) -> Any:
    """The ResourceProfile for a task with these resources; None if the default is sufficient."""
    if vcores == cores_of_task(context) and not gpus:
        return None
    return _profile(vcores, gpus)


@functools.cache
def _profile(vcores: int, gpus: int) -> Any:
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    needs = TaskResourceRequests().cpus(vcores)
    if gpus:
        needs = needs.resource("gpu", gpus)
    return ResourceProfileBuilder().require(needs).build


LONGEST = 10_000  # characters of a line that are looked at; patterns take long for more


def first_words(error: Exception) -> str:
    """The relevant part of an exception of Spark, whose text can be pages long."""
    java = getattr(error, "java_exception", None)
    text = (str(java.getMessage()) if java is not None else str(error)).strip()
    lines = [line[:LONGEST] for line in text.splitlines()]
    if not lines:
        return type(error).__name__
    # Of a Python exception in a task, its own line, after the traceback's.
    begins = next((n for n, line in enumerate(lines) if _TRACEBACK in line), None)
    own = [line for line in lines[begins + 1 :] if line[:1].strip()] if begins is not None else []
    return (own[0] if own else _BEFORE_REASON.sub("", _sentence(lines))).strip()[:500]


def _sentence(lines: Iterable[str]) -> str:
    """The first line, and what its colon announces in those below."""
    found = []
    for line in filter(None, map(str.strip, lines)):
        found.append(line)
        if not line.endswith(":"):
            break
    return " ".join(found)


def given_up(error: Exception) -> bool:
    """Whether a job has failed because its task cannot run: on no executor that Spark has tried, or
    because the task cannot travel. Else it was cancelled, or has lost its executors."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return True
    text = str(java.getMessage())
    return "aborted due to stage failure" in text and "ExecutorLostFailure" not in text
