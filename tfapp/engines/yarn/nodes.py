"""The reasons in YARN's exit messages, what a container waits for, whether any node could hold it,
and the addresses of logs on nodes. With `attempts` the only module of this package that is shipped
to containers: the coordinator uses it (tfapp.coordinator.nodes)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import IO

from tfapp.contract.job import Job, Resources
from tfapp.contract.names import GRANTED, QUEUE
from tfapp.engines.yarn.attempts import Attempt
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

LEADS_TO_PAGES = True  # the master leads browsers to the coordinator's page
LENGTH = 4096  # bytes of the end of a log
LIMIT = 3.0  # seconds for each step of one answer

# Lines of a NodeManager's frame before a log, which has a few of them.
_LENGTH = b"LogLength:"
_BEGIN = b"LogContents:\n"
_MOST_LINES, _LONGEST_LINE = 100, 1 << 16

# Part of a container's exit message, in lower case -> the reason (contract.exit) that it stands
# for. Those of YARN's own statuses are YARN's words, the first of a memory limit is Skein's.
_REASONS = {
    "preempted by scheduler": "preempted",
    "lost* node": "node-lost",
    "lost node": "node-lost",
    "memory used": "memory",
    "exceeding memory limits": "memory",
}

# The first line of YARN's list of nodes, and those of a node: its address, what it has in all, its
# labels.
_LIST = re.compile(r"^Total Nodes:\d", re.MULTILINE)
_NODE = re.compile(r"^ *(\S+):\d+\s+RUNNING\s", re.MULTILINE)
_HAS = re.compile(r"Configured Resources : <memory:(\d+), vCores:\d+(?:.*yarn\.io/gpu: (\d+))?")
_LABELS = re.compile(r"Node-Labels :[ \t]*(.*)")


@frozen
class Node:
    """A node that works, and what it has in all, but for vcores: by default the capacity scheduler
    does not count them. `memory` in MiB."""

    host: str
    memory: int
    gpus: int
    labels: frozenset[str]


@frozen
class LogPiece:
    """The end of a log. `data`: its last bytes. `length`: its present total length."""

    data: bytes
    length: int


def reason_of(message: str) -> str:
    """The reason for an exit message; "" if it has none."""
    lower = message.lower()
    return next((reason for part, reason in _REASONS.items() if part in lower), "")


def waits(state: str, queue: str) -> tuple[str, str]:
    """What a container waits for that is in `state` (Skein's word), and its kind: see
    contract.names. Skein's master does not tell by itself when YARN has granted one."""
    if state == "RUNNING":
        return "", GRANTED
    return f"waiting for a container in the queue {queue}", QUEUE


def attempt(environ: Mapping[str, str], class_path: str) -> Attempt:
    """The attempt of the application in whose master's container this process runs."""
    return Attempt(environ, class_path)


def unfit(job: Job, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The components of which no node that works could ever hold a container, each with the words
    of why. UnavailableError if YARN does not tell."""
    nodes = read_nodes(Attempt(environ, job.class_path).nodes())
    found = {c.name: why_unfit(c.container, nodes) for c in job.components}
    return {name: words for name, words in found.items() if words}


def read_nodes(listed: str) -> Sequence[Node]:
    """The nodes of YARN's list. UnavailableError if it is none."""
    if not _LIST.search(listed):
        raise UnavailableError("YARN has not listed its nodes")
    _, *parts = _NODE.split(listed)
    nodes = []
    for host, told in zip(parts[::2], parts[1::2]):
        has, labels = _HAS.search(told), _LABELS.search(told)
        if has:
            memory, gpus = (int(number or 0) for number in has.groups())
            names = frozenset(labels[1].split(",")) - {""} if labels else frozenset()
            nodes.append(Node(host, memory, gpus, names))
    return nodes


def why_unfit(wanted: Resources, nodes: Sequence[Node]) -> str:
    """Why none of `nodes` could ever hold such a container; "" if one could. Without a label of its
    own it may be on any node: the queue may have a default, and not every label is exclusive."""
    if wanted.label:
        nodes = [node for node in nodes if wanted.label in node.labels]
        if not nodes:
            return f"no node that works has the label {wanted.label!r}"
    if wanted.nodes and not wanted.racks and not wanted.relax_locality:
        nodes = [node for node in nodes if node.host in wanted.nodes]
        if not nodes:
            return f"none of the nodes works that it names: {', '.join(wanted.nodes)}"
    if any(wanted.memory <= node.memory and wanted.gpus <= node.gpus for node in nodes):
        return ""
    size = f"{wanted.memory} MiB" + (f" and {wanted.gpus} GPUs" if wanted.gpus else "")
    return f"no node that works{f' of label {wanted.label!r}' if wanted.label else ''} has {size}"


def log_path(container: str, file: str, last: int) -> str:
    """The path of the last `last` bytes of a log on a NodeManager's web pages. `container`: YARN's
    id."""
    return f"ws/v1/node/containers/{container}/logs/{file}?size=-{last}"


def log_length(answer: IO[bytes]) -> int:
    """Reads a NodeManager's frame up to the log in it, and returns the log's length. OSError if
    there is no such frame."""
    length = b""
    for _ in range(_MOST_LINES):
        line = answer.readline(_LONGEST_LINE)
        if line.startswith(_LENGTH):
            length = line[len(_LENGTH) :].strip()
        if line == _BEGIN and length.isdigit():
            return int(length)
    raise OSError("a NodeManager's answer is not a log")


def read_piece(answer: IO[bytes], last: int) -> LogPiece:
    """Removes the NodeManager's frame around the last `last` bytes of a log. OSError if there is no
    such frame."""
    length = log_length(answer)
    return LogPiece(answer.read(min(length, last)), length)


def log_page(node: str, container: str, user: str) -> str:
    """The page on which a NodeManager shows the logs of a container that `user` runs, without its
    scheme. `node`: host:port."""
    return f"//{node}/node/containerlogs/{container}/{user}"


def read_end(node: str, container: str, file: str, length: int = LENGTH) -> str:
    """The last `length` bytes of a log on the NodeManager whose pages are at `node` (host:port); ""
    when it does not tell: it is gone, or asks for a login. The node is called directly, past any
    proxy."""
    import http.client  # with it, half of what a coordinator would load before its first word

    where = f"{node}/{log_path(container, file, length)}"
    try:
        try:
            piece = _read(f"http://{where}", length)
        except (http.client.HTTPException, ConnectionError):  # of a node that speaks HTTPS
            piece = _read(f"https://{where}", length)
        return piece.data.decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""


def _read(url: str, last: int) -> LogPiece:
    import urllib.request

    request = urllib.request.Request(url, headers={"Accept": "text/plain"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=LIMIT) as answer:
        return read_piece(answer, last)
