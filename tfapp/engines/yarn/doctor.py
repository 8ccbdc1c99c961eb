"""Checks this machine and a YARN cluster for the needs of applications."""

from __future__ import annotations

import concurrent.futures
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tfapp import tools
from tfapp.engines.diagnosis import (
    OK,
    PROBLEM,
    WARNING,
    Finding,
    Skews,
    ahead,
    as_size,
    checked,
    examine_clocks,
    examine_here,
)
from tfapp.engines.yarn import hadoop_fs, kerberos
from tfapp.engines.yarn.cluster import YarnCluster, YarnNode
from tfapp.engines.yarn.hadoop_client import find_java, find_yarn, read_class_path
from tfapp.engines.yarn.shared_folder import SharedFolder
from tfapp.engines.yarn.web import DeniedError, Web
from tfapp.errors import TfappError, UnavailableError

LIMIT = 60.0  # seconds for a Java program
JAVA_OLDEST, JAVA_NEWEST = 8, 22  # Hadoop's client fails on newer ones
MAX_NODES = 100  # whose clocks are asked for

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def examine(
    home: Path,
    environ: Mapping[str, str],
    cluster: YarnCluster,
    web: Web,
    shared: SharedFolder,
    clock: Callable[[], float],
) -> Iterator[Finding]:
    """All checks, in the order of `tfapp doctor`. Checks that need another one which failed are
    left out."""
    yield from examine_here(home)
    java, yarn = (
        checked("java", lambda: find_java(environ)),
        checked("yarn", lambda: find_yarn(environ)),
    )
    yield examine_java(java.text) if java.level == OK else java
    yield yarn
    if PROBLEM in (java.level, yarn.level):
        return
    class_path = checked("configuration", lambda: read_class_path(environ))
    where = environ.get("HADOOP_CONF_DIR") or "HADOOP_CONF_DIR is not set"
    yield Finding("configuration", OK, where) if class_path.level == OK else class_path
    if class_path.level == PROBLEM:
        return
    login = examine_kerberos(environ, clock())
    if login is not None:
        yield login
        if login.level == PROBLEM:
            return
    yield from examine_cluster(cluster, web, clock)
    yield checked("hdfs", lambda: describe_hdfs(environ, shared))


def examine_java(java: str) -> Finding:
    try:
        done = tools.run([java, "-version"], None, LIMIT)
        match, reason = _VERSION.search(done.err), done.reason
    except tools.ToolError as error:
        match, reason = None, error.reason
    if match is None or done.code:
        text = f"{java} does not run: {reason}"
        return Finding("java", PROBLEM, text, "Install a Java runtime.")
    version = int(match[1])
    text = f"{version}, {java}"
    if not JAVA_OLDEST <= version <= JAVA_NEWEST:
        hint = f"Install a Java of version {JAVA_OLDEST} to {JAVA_NEWEST} and set JAVA_HOME."
        return Finding("java", WARNING, text, hint)
    return Finding("java", OK, text)


def examine_kerberos(environ: Mapping[str, str], now: float) -> Finding | None:
    """Checks the user's ticket or keytab; None if the cluster does not use Kerberos. `now`: seconds
    since 1970."""
    if not kerberos.is_asked(environ):
        return None
    return checked("kerberos", lambda: kerberos.show(environ, now))


def examine_cluster(
    cluster: YarnCluster, web: Web, clock: Callable[[], float]
) -> Iterator[Finding]:
    """Checks the ResourceManager, the nodes' pages and their clocks."""
    try:
        nodes, queues = cluster.nodes(), cluster.queues()
    except TfappError as error:
        yield Finding("resourcemanager", PROBLEM, error.message, error.hint)
        return
    open_queues = sorted(queue.name for queue in queues if queue.running)
    yield Finding("resourcemanager", OK, f"answers; queues: {', '.join(open_queues) or 'none'}")
    if not nodes:
        hint = "Look at the ResourceManager's page of nodes: a full disk makes them unhealthy."
        yield Finding("nodes", PROBLEM, "no node takes containers", hint)
        return
    memory = sum(node.memory for node in nodes)
    cores, gpus = sum(node.vcores for node in nodes), sum(node.gpus for node in nodes)
    size = f"{memory} MiB, {cores} vcores, {gpus} GPUs"
    yield Finding("nodes", OK, f"{len(nodes)} take containers, together {size}")
    denied = examine_pages(nodes[0], web)
    yield denied or examine_clocks(skews(nodes[:MAX_NODES], web, clock))


def examine_pages(node: YarnNode, web: Web) -> Finding | None:
    """Checks that tfapp can read the pages of nodes that Kerberos protects; None if it can, or if
    they do not answer."""
    try:
        web.head(web.page_of(node.pages))
    except DeniedError as error:
        call = f"curl --negotiate -u : {web.page_of(node.pages)}"
        hint = f"Logs of a running application can be read as soon as `{call}` works."
        return Finding("pages", WARNING, str(error), hint)
    except OSError:
        return None
    return None


def skews(nodes: Sequence[YarnNode], web: Web, clock: Callable[[], float]) -> Skews:
    def skew(node: YarnNode) -> tuple[str, float | None]:
        try:
            return node.host, ahead(web.head(web.page_of(node.pages))["Date"], clock())
        except OSError:
            return node.host, None

    with concurrent.futures.ThreadPoolExecutor(min(len(nodes), 16)) as pool:
        return dict(pool.map(skew, nodes))


def describe_hdfs(environ: Mapping[str, str], shared: SharedFolder) -> str:
    """Checks that HDFS accepts files, and reports the size of tfapp's files there. UnavailableError
    if it accepts none."""
    write_to_hdfs(environ)
    text, size = "the folder .skein in your home there can be written", shared.size()
    return text if size is None else f"{text}, {as_size(size)} in .tfapp/cache"


def write_to_hdfs(environ: Mapping[str, str]) -> None:
    """Writes a file to the folder of Skein's submissions, and deletes it. UnavailableError with
    Hadoop's message."""
    name = f".skein/doctor-{os.getpid()}"
    for call in (
        lambda: hadoop_fs.make_folders(environ, ".", [".skein"]),
        lambda: hadoop_fs.run(environ, ["-touchz", name]),
        lambda: hadoop_fs.run(environ, ["-rm", "-skipTrash", name]),
    ):
        done = call()
        if not done.well:
            if kerberos.complaint(done.complaint):
                raise kerberos.refused(environ, done.complaint)
            reason = done.complaint.partition(": ")[2] or done.complaint or "it gives no reason"
            raise UnavailableError(
                f"HDFS cannot be written: {reason}",
                "Your home folder there must exist and be yours; in safe mode nothing can be "
                "written.",
            )
