"""The words of YARN 3.4 and Skein 0.8.2 for a container's end (tests/clusters/yarn/test_faults.py
has them say it), and a log's end from a web server that speaks as a NodeManager does."""

import io
import time

import pytest

from tests.served import Quiet, served
from tests.tls import make_certificate
from tfapp.contract.job import Resources
from tfapp.contract.names import GRANTED, QUEUE
from tfapp.engines.yarn import nodes
from tfapp.engines.yarn.nodes import LogPiece, read_end, read_piece, reason_of
from tfapp.errors import UnavailableError

FRAME = (
    b"Container: container_1_0001_01_000002 on 127.0.0.3:21103\n"
    b"LogAggregationType: LOCAL\n"
    b"====================================================================\n"
    b"LogType:worker.log\n"
    b"LogLastModifiedTime:Fri Nov 20 13:00:57 +0000 2026\n"
    b"LogLength:%d\n"
    b"LogContents:\n"
    b"%s\n"
    b"End of LogType:worker.log.This log file belongs to a running container.\n"
)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Container preempted by scheduler", "preempted"),
        ("Container released on a *lost* node", "node-lost"),
        ("1.0 GB of 256 MB physical memory used", "memory"),
        ("Container killed by YARN for exceeding memory limits", "memory"),
        ("Container failed during execution, see logs for more information.", ""),
    ],
)
def test_the_reason_that_a_message_stands_for(message, reason):
    assert reason_of(message) == reason


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        ("REQUESTED", ("waiting for a container in the queue nightly", QUEUE)),
        ("RUNNING", ("", GRANTED)),
    ],
)
def test_what_a_container_waits_for(state, waits):
    """The states of Skein: see tests/clusters/yarn/test_queues.py."""
    assert nodes.waits(state, "nightly") == waits


# As Hadoop 3.4 prints it: `yarn node -list -showDetails`.
LISTED = """\
Total Nodes:2
         Node-Id\t     Node-State\tNode-Http-Address\tNumber-of-Running-Containers
 127.0.0.2:21103\t        RUNNING\t  127.0.0.2:21104\t                           2
Detailed Node Information :
\tConfigured Resources : <memory:8192, vCores:8, yarn.io/gpu: 2>
\tAllocated Resources : <memory:4096, vCores:2>
\tResource Utilization by Node : PMem:900 MB, VMem:900 MB, VCores:1.5
\tResource Utilization by Containers : PMem:20 MB, VMem:2000 MB, VCores:0.1
\tNode-Labels : 
127.0.0.33:21103\t        RUNNING\t 127.0.0.33:21104\t                           0
Detailed Node Information :
\tConfigured Resources : <memory:4096, vCores:16>
\tAllocated Resources : <memory:0, vCores:0>
\tNode-Labels : special
"""


def test_the_nodes_of_yarns_list():
    assert nodes.read_nodes(LISTED) == [
        nodes.Node("127.0.0.2", 8192, 2, frozenset()),
        nodes.Node("127.0.0.33", 4096, 0, frozenset({"special"})),
    ]
    assert nodes.read_nodes("Total Nodes:0\n") == []
    with pytest.raises(UnavailableError):
        nodes.read_nodes("usage: node\n")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Resources(8192, 1), ""),
        (Resources(4000, 16), ""),  # without a label anywhere
        (Resources(8192, 1, label="special"), "no node that works of label 'special' has 8192 MiB"),
        (Resources(512, 1, label="special"), ""),
        (Resources(512, 1, label="gone"), "no node that works has the label 'gone'"),
        (Resources(8192, 99), ""),  # of which most schedulers count no vcores
        (Resources(9000, 1), "no node that works has 9000 MiB"),
        (Resources(512, 1, gpus=3), "no node that works has 512 MiB and 3 GPUs"),
        (Resources(512, 1, nodes=("127.0.0.9",)), "none of the nodes works that it names: 127.0.0"),
        (Resources(512, 1, nodes=("127.0.0.9",), relax_locality=True), ""),
        (Resources(512, 1, nodes=("127.0.0.9",), racks=("/default-rack",)), ""),
        (Resources(512, 1, nodes=("127.0.0.9", "127.0.0.2")), ""),
    ],
)
def test_what_no_node_could_hold(wanted, why):
    told = nodes.why_unfit(wanted, nodes.read_nodes(LISTED))
    assert told.startswith(why) and bool(told) == bool(why)


@pytest.mark.parametrize(
    ("length", "shown", "last", "data"),
    [
        (35, b"line 5\n", 7, b"line 5\n"),
        (7, b"line 1\n", 100, b"line 1\n"),
        (0, b"", 100, b""),
        # A program may write whatever it wants, frames too.
        (30, b"LogLength:3\nLogContents:\nabcde\n", 31, b"LogLength:3\nLogContents:\nabcde"),
    ],
)
def test_a_log_is_taken_out_of_its_frame(length, shown, last, data):
    assert read_piece(io.BytesIO(FRAME % (length, shown)), last) == LogPiece(data, length)


@pytest.mark.parametrize(
    "answer", [b"", b"<html>no</html>", b"\nLogContents:\nabc", b"\nLogLength:x\nLogContents:\nabc"]
)
def test_another_answer_is_refused(answer):
    with pytest.raises(OSError, match="is not a log"):
        read_piece(io.BytesIO(answer), 10)


@pytest.fixture(params=["http", "https"])
def node(request, tmp_path, monkeypatch):
    """Its address, and the paths that it was asked for."""
    asked = []

    class Pages(Quiet):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(FRAME % (7, b"line 1\n"))

    context = None
    if request.param == "https":
        context = make_certificate(tmp_path / "node.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "node.pem"))
    with served(Pages, context) as address:
        yield address, asked


def test_the_end_of_a_log_is_read_past_any_proxy(node, monkeypatch):
    address, asked = node
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert read_end(address, "container_1", "worker.log") == "line 1\n"
    assert asked == ["/ws/v1/node/containers/container_1/logs/worker.log?size=-4096"]


@pytest.mark.parametrize("address", ["", "127.0.0.1:0", "127.0.0.1:9"])
def test_nobody_there(address):
    begun = time.monotonic()
    assert read_end(address, "container_1", "worker.log") == ""
    assert time.monotonic() - begun < nodes.LIMIT
