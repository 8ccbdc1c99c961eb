"""Whether an interpreter is on every node that takes containers: one small container on each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.compiler.archive import Entry, pack
from tfapp.compiler.runtime import read_runtime
from tfapp.compiler.specification import MASTER_ENVIRONMENT, container_script
from tfapp.contract.names import CANNOT_START, RUNTIME_DIR
from tfapp.engines.credentials import new_credentials
from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, Finding
from tfapp.engines.yarn.cluster import Cluster, Node, first_line
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

LIMIT = 120.0  # seconds for all of it
LOOK_EVERY = 0.5  # seconds
CALL_LIMIT = 5.0  # seconds for one question to the master
LOG_LENGTH = 4096  # bytes
MASTER_MEMORY, MEMORY = 512, 256  # MiB

NAME = "tfapp-doctor"
SUBJECT = "node"
_MEND = "Install it there, or let Python travel: site.global.python.archive or .packages."


def examine_nodes(
    cluster: Cluster, web: Web, nodes: Sequence[Node], python: str, queue: str, now: float
) -> Iterator[Finding]:
    """Starts `python` on each of `nodes`, and checks the modules that tfapp needs; of nodes that
    share a label, on one of them. Nothing stays on the cluster. `now`: seconds since 1970."""
    certificate, key = new_credentials(now)
    application = ""
    try:
        with tempfile.TemporaryDirectory(prefix="tfapp-doctor-") as folder:
            runtime = Path(folder, "runtime.zip")
            runtime.write_bytes(pack(Entry(path, data) for path, data in read_runtime()))
            spec = specification(nodes, python, queue, runtime)
            _sign(spec, certificate, key)
            application = cluster.submit(spec)
        deadline = time.monotonic() + LIMIT
        address = _master_of(cluster, application, deadline)
        with connect(address, certificate, key, CALL_LIMIT) as connection:
            for container in _finished(connection, len(spec.services), deadline):
                yield _finding(container, web)
    except TfappError as error:
        yield Finding("python on the nodes", PROBLEM, error.message, error.hint)
    finally:
        if application:
            cluster.kill(application)


def specification(
    nodes: Sequence[Node], python: str, queue: str, runtime: Path
) -> skein.ApplicationSpec:
    """A service for each node. YARN takes a container's host or its label, not both: nodes that
    share a label share a service."""
    from tfapp.skein_library import skein

    places: dict[str, dict] = {}
    for node in nodes:
        label = min(node.labels, default="")
        where = {"node_label": label} if label else {"nodes": [node.host], "relax_locality": False}
        places.setdefault(f"label {label}" if label else node.host, where)
    return skein.ApplicationSpec(
        name=NAME,
        queue=queue,
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
                **where,
            )
            for number, where in enumerate(places.values())
        },
    )


def _sign(spec: skein.ApplicationSpec, certificate: bytes, key: bytes) -> None:
    from tfapp.skein_library import skein

    spec.master.security = skein.Security(cert_bytes=certificate, key_bytes=key)


def _master_of(cluster: Cluster, application: str, deadline: float) -> str:
    """The address of its master. UnreachableError when it has none in time."""
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
    """Each container as soon as it has ended, and at `deadline` those that have not."""
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
    """The last line that its container wrote, "" when its node does not tell."""
    file = f"{container.service}.log"
    try:
        piece = web.read_log(container.node, container.yarn_id, file, LOG_LENGTH)
    except OSError:
        return ""
    lines = piece.data.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix(CANNOT_START) if lines else ""
