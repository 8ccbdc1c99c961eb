"""Checks an interpreter on every node that accepts containers, with one small container on each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp import tools
from tfapp.compiler.contents import ArchiveEntry, pack
from tfapp.compiler.runtime import read_runtime
from tfapp.compiler.specification import container_script
from tfapp.contract.names import CANNOT_START, RUNTIME_DIR
from tfapp.engines.credentials import new_credentials
from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, Finding
from tfapp.engines.yarn.cluster import ANY_LABEL, Queue, YarnCluster, YarnNode, first_line
from tfapp.engines.yarn.preflight import queue_facts
from tfapp.engines.yarn.specification import MASTER_ENVIRONMENT
from tfapp.engines.yarn.web import Web
from tfapp.errors import TfappError, UnreachableError
from tfapp.protocol.connection import (
    FINISHED_STATES,
    LIVE_STATES,
    Connection,
    ContainerReport,
    connect,
)

if TYPE_CHECKING:
    from tfapp.skein_library import skein

LIMIT = 120.0  # seconds for the nodes of one label
LOOK_EVERY = 0.5  # seconds
CALL_LIMIT = 5.0  # seconds for one question to the master
LOG_LENGTH = 4096  # bytes
MASTER_MEMORY, MEMORY = 512, 256  # MiB

NAME = "tfapp-doctor"
SUBJECT = "node"
_MEND = "Install it there, or let Python travel: site.global.python.archive or .packages."


def examine_nodes(
    cluster: YarnCluster, web: Web, nodes: Sequence[YarnNode], python: str, queue: str, now: float
) -> Iterator[Finding]:
    """Starts `python` on each of `nodes` that accepts containers of `queue`, and checks the modules
    that tfapp needs. Nothing is left on the cluster. `now`: seconds since 1970."""
    certificate, key = new_credentials(now)
    try:
        known = queue_facts(queue, cluster.queues(), None)
        by_label = _by_label(nodes)
        with tempfile.TemporaryDirectory(prefix="tfapp-doctor-") as folder:
            runtime = Path(folder, "runtime.zip")
            runtime.write_bytes(pack(ArchiveEntry(path, data) for path, data in read_runtime()))
            for label, hosts in by_label.items():
                if known and not any(_gives(one, label) for one in known):
                    text = (
                        f"{', '.join(hosts)}: not tried, no container of queue {queue!r} goes there"
                    )
                    yield Finding(SUBJECT, OK, text)
                    continue
                spec = specification(hosts, label, python, queue, runtime)
                _sign(spec, certificate, key)
                yield from _examine(cluster, web, spec, certificate, key)
    except TfappError as error:
        yield Finding("python on the nodes", PROBLEM, error.message, error.hint)


def _by_label(nodes: Sequence[YarnNode]) -> Mapping[str, list[str]]:
    """The hosts of `nodes` by their label, "" for none."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(min(node.labels, default=""), []).append(node.host)
    return found


def _gives(queue: Queue, label: str) -> bool:
    """Whether containers of `queue` may run on nodes with this label."""
    if not label:
        return not queue.default_label
    return bool(queue.labels & {label, ANY_LABEL})


def _examine(
    cluster: YarnCluster, web: Web, spec: skein.ApplicationSpec, certificate: bytes, key: bytes
) -> Iterator[Finding]:
    application = cluster.submit(spec)
    try:
        deadline = time.monotonic() + LIMIT
        address = _master_of(cluster, application, deadline)
        with connect(address, certificate, key, CALL_LIMIT) as connection:
            for container in _finished(connection, len(spec.services), deadline):
                yield _finding(container, web)
    finally:
        cluster.kill(application)


def specification(
    hosts: Sequence[str], label: str, python: str, queue: str, runtime: Path
) -> skein.ApplicationSpec:
    """A service for each of the nodes `hosts`, which have this label. A request may have a host or
    a label, not both, but the label of the application applies in addition to the hosts of
    requests."""
    from tfapp.skein_library import skein

    return skein.ApplicationSpec(
        name=NAME,
        queue=queue,
        node_label=label,
        acls=skein.ACLs(enable=True),
        max_attempts=1,
        master=skein.Master(
            resources=skein.Resources(memory=MASTER_MEMORY, vcores=1),
            script=f"exec sleep {LIMIT:g}\n",
            env=dict(MASTER_ENVIRONMENT),
        ),
        services={
            f"node{number}": skein.Service(
                resources=skein.Resources(memory=MEMORY, vcores=1),
                script=container_script(python, "check", "--python"),
                files={RUNTIME_DIR: skein.File(source=f"file://{runtime}", type="ARCHIVE")},
                max_restarts=0,
                allow_failures=True,
                nodes=[host],
                relax_locality=False,
            )
            for number, host in enumerate(hosts)
        },
    )


def _sign(spec: skein.ApplicationSpec, certificate: bytes, key: bytes) -> None:
    from tfapp.skein_library import skein

    spec.master.security = skein.Security(cert_bytes=certificate, key_bytes=key)


def _master_of(cluster: YarnCluster, application: str, deadline: float) -> str:
    """The address of the application's master. UnreachableError if it has none in time."""
    while True:
        report = cluster.application(application)
        if report.address:
            return report.address
        if report.ended or time.monotonic() > deadline:
            reason = first_line(report.diagnostics) or report.state
            raise UnreachableError(
                f"the check on the nodes did not begin within {LIMIT:g} s: {reason}",
                "Is there room in the queue? --queue names another one.",
            )
        time.sleep(LOOK_EVERY)


def _finished(connection: Connection, count: int, deadline: float) -> Iterator[ContainerReport]:
    """Yields each container when it has ended, and at `deadline` those that still run."""
    told: set[str] = set()
    while len(told) < count:
        late = time.monotonic() > deadline
        for container in connection.containers((*LIVE_STATES, *FINISHED_STATES)):
            if container.id not in told and (late or container.state in FINISHED_STATES):
                told.add(container.id)
                yield container
        if late:
            return
        time.sleep(LOOK_EVERY)


def _finding(container: ContainerReport, web: Web) -> Finding:
    if container.state not in FINISHED_STATES:
        text = f"a container did not end within {LIMIT:g} s ({container.state})"
        return Finding(SUBJECT, WARNING, text, "Is there room on every node?")
    words = _last_words(container, web)
    if container.state == "SUCCEEDED":
        return Finding(SUBJECT, OK, f"{container.host}: {words or 'it starts'}")
    reason = words or container.message or container.state
    return Finding(SUBJECT, PROBLEM, f"{container.host}: {reason}", _MEND)


def _last_words(container: ContainerReport, web: Web) -> str:
    """The last line of a container's output; "" if its node does not return it."""
    file = f"{container.service}.log"
    try:
        piece = web.read_log(container.node, container.yarn_id, file, LOG_LENGTH)
    except OSError:
        return ""
    return tools.last_line(piece.data.decode(errors="replace")).removeprefix(CANNOT_START)
